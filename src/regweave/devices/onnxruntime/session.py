"""An onnxruntime session that owns the native operators in it.

    session = NativeSession(model_bytes, operators, threads=2)
    session.run(["y"], {"x": array})

onnxruntime keeps plain pointers into our memory until the session is gone, so the two live and die together
here, in that order; nothing hands the inner session out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.devices.onnxruntime.operator import NativeOperator
from regweave.devices.onnxruntime.registration import Domain, register
from regweave.devices.onnxruntime.sized import SizedOperator
from regweave.errors import DeviceError

if TYPE_CHECKING:
    import onnxruntime

_QUIET = 4
_BIG = "session.optimized_model_external_initializers_file_name"
_FOLDER = "session.model_external_initializers_file_folder_path"


class NativeSession:
    """A model in onnxruntime with `threads` threads and our `operators` (nodes of domain "regweave").

    `model` are the bytes of a model, or a path. `folder` is where its external data lies. `optimise` lets
    onnxruntime rewrite the graph; `keep` is a path to write what came of that. `profile` is a path prefix for
    onnxruntime's own profile. Errors: DeviceError with onnxruntime's words.
    """

    def __init__(
        self,
        model: bytes | str | Path,
        operators: Sequence[NativeOperator | SizedOperator] = (),
        *,
        threads: int = 1,
        optimise: bool = True,
        keep: Path | None = None,
        profile: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        self._session: Any = None
        self._domain: Domain | None = None
        self._process, self._threads = os.getpid(), threads
        options = _options(threads, optimise, keep, profile, folder)
        if operators:
            self._domain = register(options, operators)
        self._session = _opened(model if isinstance(model, bytes) else str(model), options)

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[np.ndarray]:
        """The named outputs (None: all) for the given inputs.

        Errors: DeviceError with onnxruntime's words, or where the process was forked since and threads are
        gone.
        """
        if self._threads > 1 and os.getpid() != self._process:
            raise DeviceError(
                "this session's threads are in the process that made it",
                fix="fuse the model after forking, or with threads=1",
            )
        try:
            return self._session.run(outputs, dict(feeds))
        except Exception as error:
            raise DeviceError(f"onnxruntime: {error}") from error

    def end_profile(self) -> Path:
        """Stop profiling; the file that it went to."""
        return Path(self._session.end_profiling())

    def __del__(self) -> None:
        # The session first: its kernels' destructors read the domain's memory.
        self._session = None
        self._domain = None


def _options(
    threads: int, optimise: bool, keep: Path | None, profile: Path | None, folder: Path | None
) -> onnxruntime.SessionOptions:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _QUIET
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if keep is not None:
        options.optimized_model_filepath = str(keep)
        options.add_session_config_entry(_BIG, f"{keep.name}.data")
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    if folder is not None:
        options.add_session_config_entry(_FOLDER, str(folder))
    return options


def _opened(model: bytes | str, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise DeviceError(f"onnxruntime cannot load the model: {error}") from error
