"""The instruction table of an x86-64 machine: vector entries and general ones under one roof.

    >>> x86_table("avx2", 8, (), wide=False)["add"].help
    'd = a + b; general: d += source'

It is a module of its own because only who writes code needs it: who runs code that is there needs the
machine's name and lanes.
"""

from __future__ import annotations

from collections.abc import Iterable

from regweave.machines.instructions import Instruction, Pattern
from regweave.machines.table import Table
from regweave.machines.x86.general import GENERAL, SHARED
from regweave.machines.x86.lane_table import lane_table
from regweave.machines.x86.vector import vector_table


def x86_table(name: str, lanes: int, clobbers: tuple[str, ...], *, wide: bool) -> Table:
    """The table of AVX-512 (`wide`) or AVX2; `clobbers` are the registers that a C function may destroy."""
    size = "zmmword" if wide else "ymmword"
    memory = {
        "m": (f"{size} ptr ", ""),
        "s": ("dword ptr ", ""),
        "q": ("qword ptr ", ""),
        "d": ("xmmword ptr ", ""),
        "h": ("ymmword ptr ", ""),
        "w": ("word ptr ", ""),
        "a": ("", ""),
        "b": ("dword ptr ", f"{{1to{lanes}}}" if wide else ""),
        "#": ("dword ptr ", f"{{1to{lanes}}}") if wide else (f"{size} ptr ", ""),
    }
    calls = Instruction(
        "call_pointer",
        (Pattern("function:r", "call %0", clobbers=clobbers, flags="lost"),),
        help="call a C function; its arguments stand in variables pinned to the argument registers",
    )
    return Table(
        name, (*_merge((*vector_table(wide), *lane_table(wide))), calls), memory, moves=("vmovaps", "mov")
    )


def _merge(vector: Iterable[Instruction]) -> tuple[Instruction, ...]:
    """Vector and general entries in one table; an entry of both has the patterns of both."""
    shared = dict(SHARED)
    merged = []
    for entry in vector:
        general = shared.pop(entry.name, None)
        if general is not None:
            entry = Instruction(
                entry.name,
                entry.patterns + general.patterns,
                entry.meaning,
                f"{entry.help}; general: {general.help}",
            )
        merged.append(entry)
    return (*merged, *shared.values(), *GENERAL)
