"""A fused model: run it, read its report, save its kernels."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from regweave.devices.onnxruntime import NativeSession
from regweave.engine.inputs import Ports, checked_inputs
from regweave.engine.natives.native import Native
from regweave.engine.report import Report
from regweave.errors import UnsupportedError
from regweave.files import folder_failure, path_of, write_file

_LONGEST = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, eq=False)
class Fused:
    """What `fuse` returns. `report` says what was decided and why, and what it gained."""

    ports: Ports
    report: Report
    natives: Mapping[str, Native]
    _session: NativeSession

    def __repr__(self) -> str:
        """Which model it is and how much of it runs natively."""
        fused = len(self.report.fused)
        return f"<Fused {self.report.model}: {fused} native pieces, {self.report.threads} thread(s)>"

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(
            "a fused model holds machine code and threads of its process: it cannot be copied or pickled",
            fix="call regweave.fuse where the model is needed",
        )

    @property
    def input_names(self) -> tuple[str, ...]:
        """The model's inputs, in order."""
        return self.ports.inputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """The model's outputs, in order."""
        return self.ports.outputs

    def run(self, inputs: Any) -> dict[str, np.ndarray]:
        """The model's outputs by name.

        `inputs` maps names to arrays, or is a sequence in the model's order, or the only input itself; NumPy
        arrays or DLPack tensors on the CPU. Dynamic dimensions may differ from call to call, and calls may
        come from several threads. Errors: InputError for wrong names, element types or shapes; DeviceError
        with onnxruntime's words.
        """
        results = self._session.run(None, checked_inputs(self.ports, inputs))
        return dict(zip(self.output_names, results, strict=True))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the kernels (assembly and register map of each), report.json and report.html into `folder`.

        Returns the folder. Errors: InputError where it cannot be written.
        """
        from regweave.views import report_page

        place = path_of(folder)
        try:
            kernels = place / "kernels"
            kernels.mkdir(parents=True, exist_ok=True)
            for stem, native in _stems(self.natives).items():
                write_file(kernels / f"{stem}.s", native.listing.text)
                write_file(kernels / f"{stem}.registers.txt", _registers(native))
            report = _finite(self.report.to_dict())
            document = json.dumps(report, indent=2, allow_nan=False)
            write_file(place / "report.json", document + "\n")
            write_file(place / "report.html", report_page(report))
        except OSError as error:
            raise folder_failure(error, place) from error
        return place


def _stems(natives: Mapping[str, Native]) -> dict[str, Native]:
    """The kernels under names for files: short, of harmless characters, and different in any case."""
    stems: dict[str, Native] = {}
    taken: set[str] = set()
    for name, native in natives.items():
        stem = _UNSAFE.sub("_", name)[:_LONGEST]
        if stem.lower() in taken:
            stem = f"{stem}.{len(stems)}"
        taken.add(stem.lower())
        stems[stem] = native
    return stems


def _registers(native: Native) -> str:
    return f"{native.listing.name}\npressure: {native.listing.pressure}\n\n{native.listing.register_map}\n"


def _finite(value: Any) -> Any:
    """`value` with what JSON cannot hold replaced by null."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
