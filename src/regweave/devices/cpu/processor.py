"""This processor: which machine kernels are built for, and how large its caches are.

    >>> machine = chosen_machine()          # AVX512, AVX2, or None: portable kernels
    >>> machine = chosen_machine("avx2")    # DeviceError where that cannot run

Nothing here executes an instruction to find out whether it exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regweave.errors import DeviceError
from regweave.machines.x86 import AVX2, AVX512, VectorMachine, detect, processor_features, supports
from regweave.settings import forced_isa

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True)
class Caches:
    """Bytes of one core's first- and second-level data cache, of the last level (shared), and of a line."""

    l1: int = 32 * 1024
    l2: int = 512 * 1024
    last: int = 4 * 1024**2
    line: int = 64


def chosen_machine(isa: str | None = None) -> VectorMachine | None:
    """The machine to build kernels for; None means portable kernels.

    `isa` (or, without it, the environment's choice) forces one; InputError if it is unknown, DeviceError if
    this processor cannot run it. Otherwise the best that this processor has."""
    forced = forced_isa(isa)
    if forced is None:
        return detect()
    for machine in (AVX512, AVX2):
        if machine.name == forced:
            if not supports(machine):
                missing = sorted(set(machine.features) - processor_features())
                raise DeviceError(
                    f"this processor cannot run {forced} kernels: it has no {', '.join(missing)}",
                    fix="leave the choice to regweave, or take 'portable'",
                )
            return machine
    return None


@cache
def caches(folder: Path = CACHES) -> Caches:
    """The caches of the first core as the system tells them; small, common sizes where it is silent."""
    sizes: dict[int, int] = {}
    line = 0
    for entry in sorted(folder.glob("index*")):
        try:
            kind = (entry / "type").read_text().strip()
            level = int((entry / "level").read_text())
            size = _bytes((entry / "size").read_text().strip())
            width = int((entry / "coherency_line_size").read_text())
        except (OSError, ValueError):
            continue
        if kind in ("Data", "Unified") and size > 0:
            sizes[level] = size
            line = line or width
    usual = Caches()
    l1 = sizes.get(1, usual.l1)
    l2 = sizes.get(2, usual.l2)
    return Caches(l1, l2, max([l2, *sizes.values()]) if sizes else usual.last, line or usual.line)


def _bytes(text: str) -> int:
    """`48K` in bytes."""
    unit = _UNITS.get(text[-1:].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit
