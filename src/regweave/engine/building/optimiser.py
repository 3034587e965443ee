"""onnxruntime's graph optimiser as a pass: a model goes in, the optimised model comes out, ready for more
passes.

    with Workshop() as shop:
        optimised = shop.optimise(model, operators)    # convolutions in com.microsoft.nchwc, reorders around
        session = shop.open(pass_of_ours(optimised), operators)

onnxruntime writes what it has made of a model to a file. Weights go to a second file beside it and stay
there: graphs are edited without moving them, and models beyond 2 GiB pass through as well.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType

import numpy as np
import onnx
from onnx import helper, numpy_helper

from regweave.devices.onnxruntime import NativeOperator, NativeSession, SizedOperator
from regweave.graphs.reading.external import all_tensors

NCHWC = "com.microsoft.nchwc"


class Workshop:
    """A folder for models on their way through onnxruntime; close it when the sessions are open."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is where the original model's external data lies; weights of optimised ones at `path`."""
        self.data = folder
        self._folder = tempfile.TemporaryDirectory(prefix="regweave-")
        self.path = Path(self._folder.name)
        self._count = itertools.count()

    def optimise(
        self,
        model: onnx.ModelProto,
        operators: Sequence[NativeOperator | SizedOperator] = (),
        threads: int = 1,
    ) -> onnx.ModelProto:
        """`model` after onnxruntime's optimiser, weights left in a file of this workshop."""
        place = self.path / f"{next(self._count)}.onnx"
        source, folder = self._original(model)
        NativeSession(source, operators, threads=threads, keep=place, folder=folder)
        return _without_lost_inputs(onnx.load(place, load_external_data=False), model.graph)

    def open(
        self,
        model: onnx.ModelProto,
        operators: Sequence[NativeOperator | SizedOperator] = (),
        *,
        threads: int = 1,
        optimise: bool = False,
        profile: Path | None = None,
    ) -> NativeSession:
        """A session of a model from here (or, with `optimise`, of one as it was read)."""
        # An optimised model's weights lie beside it in this folder.
        source, folder = self._original(model) if optimise else (self._save(model), None)
        return NativeSession(
            source, operators, threads=threads, optimise=optimise, profile=profile, folder=folder
        )

    def _original(self, model: onnx.ModelProto) -> tuple[bytes | Path, Path | None]:
        """A model as it was read, in the form in which onnxruntime finds its external data."""
        if _takes_folder():
            return model.SerializeToString(), self.data
        for tensor in all_tensors(model.graph):
            for entry in tensor.external_data:
                if entry.key == "location" and self.data is not None:
                    link = self.path / entry.value
                    link.parent.mkdir(parents=True, exist_ok=True)
                    if not link.exists():
                        link.symlink_to(self.data / entry.value)
        return self._save(model), None

    def _save(self, model: onnx.ModelProto) -> Path:
        path = self.path / f"{next(self._count)}.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    def close(self) -> None:
        """Remove the folder; open sessions hold what they need."""
        self._folder.cleanup()

    def __enter__(self) -> Workshop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _without_lost_inputs(optimised: onnx.ModelProto, source: onnx.GraphProto) -> onnx.ModelProto:
    """Without inputs that were constants before the optimiser shared or folded them away.

    Models of IR version 3 declare every constant as an input too; without its constant that would have to be
    fed.
    """
    constants = {tensor.name for tensor in source.initializer}
    lost = constants - {tensor.name for tensor in optimised.graph.initializer}
    kept = [value for value in optimised.graph.input if value.name not in lost]
    del optimised.graph.input[:]
    optimised.graph.input.extend(kept)
    return optimised


@cache
def _takes_folder() -> bool:
    """Whether onnxruntime can be told where a model's external data lies (since 1.22)."""
    import onnxruntime

    major, minor = onnxruntime.__version__.split(".")[:2]
    return (int(major), int(minor)) >= (1, 22)


@cache
def block_size() -> int:
    """Channels per block of onnxruntime's blocked layout on this machine; 0 where it has none."""
    weight = numpy_helper.from_array(np.ones((8, 16, 1, 1), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "probe",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 16, 4, 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 8, 4, 4])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with Workshop() as shop:
        optimised = shop.optimise(model)
    for node in optimised.graph.node:
        if node.domain == NCHWC and node.op_type == "Conv":
            return next(int(t.dims[0]) for t in optimised.graph.initializer if t.name == node.input[1])
    return 0
