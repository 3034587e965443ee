"""Which device a kernel is built for: the best instruction set of this processor, or what was asked for."""

from __future__ import annotations

import warnings

from regweave.errors import UnsupportedError
from regweave.machines.x86 import AVX2, AVX512, VectorMachine, detect, supports
from regweave.settings import forced_isa

_MACHINES = {machine.name: machine for machine in (AVX512, AVX2)}
_said: set[str] = set()


def choose_machine(isa: str | None = None) -> VectorMachine | None:
    """The machine to build for; None is the portable device, which is said once.

    `isa` ("avx512", "avx2", "portable") goes before the variable REGWEAVE_ISA, which goes before detection.
    Errors: InputError for another word, UnsupportedError where this processor cannot run the one asked for.
    """
    asked = forced_isa(isa)
    if asked == "portable":
        warn_once("it was asked for (isa or REGWEAVE_ISA)")
        return None
    if asked is None:
        machine = detect()
        if machine is None:
            warn_once("this processor has neither AVX-512 nor AVX2 with FMA")
        return machine
    machine = _MACHINES[asked]
    if not supports(machine):
        raise UnsupportedError(
            f"this processor cannot run {machine.title}",
            where="isa",
            fix="leave it out, or ask for 'portable'",
        )
    return machine


def warn_once(reason: str) -> None:
    """Say that kernels will be slow, and why; once per process and reason."""
    if reason not in _said:
        _said.add(reason)
        warnings.warn(
            f"regweave runs on its portable device, which is slow: {reason}", RuntimeWarning, stacklevel=5
        )
