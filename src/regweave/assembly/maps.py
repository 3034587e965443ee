"""For people: the register map and the pressure profile of a listing, and what is live where.

name   class    register  live
acc    vector   zmm0      0..9 (loop+3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regweave.assembly.flow import Flow
from regweave.assembly.program import Program
from regweave.assembly.variables import Variable, members
from regweave.values import frozen


@frozen
class Row:
    """One variable: its class, registers, first and last operation at which it is live."""

    name: str
    register_class: str
    registers: tuple[str, ...]
    first: int
    last: int


@frozen
class RegisterMap:
    """Every variable's registers and live range (operation numbers; the hull, if there are holes)."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        cells = [("name", "class", "registers", "live")]
        for row in self.rows:
            shown = (
                row.registers[0] if len(row.registers) == 1 else f"{row.registers[0]}..{row.registers[-1]}"
            )
            cells.append((row.name, row.register_class, shown, f"{row.first}..{row.last}"))
        widths = [max(len(line[i]) for line in cells) for i in range(4)]
        return "\n".join(
            "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells
        )


@frozen
class Pressure:
    """Registers in use per class: `profile[class][i]` while operation i runs, `most[class]`, and
    `limit[class]`."""

    profile: Mapping[str, tuple[int, ...]]
    limit: Mapping[str, int]

    @property
    def most(self) -> dict[str, int]:
        """The peak per class."""
        return {name: max(values, default=0) for name, values in self.profile.items()}

    def __str__(self) -> str:
        return ", ".join(f"{name} {most} of {self.limit[name]}" for name, most in self.most.items())


def live_sets(program: Program, flow: Flow) -> list[tuple[int, int]]:
    """For each operation the variables that hold a register before it, and after it (results nobody reads
    too)."""
    result = [(0, 0)] * len(program.forms)
    for block in flow.blocks:
        live = block.live_out
        for i in range(block.stop - 1, block.start - 1, -1):
            used, born = program.uses[i], program.defines[i]
            before = (live & ~born) | used
            result[i] = before, live | born
            live = before
    return result


def measure_pressure(program: Program, flow: Flow) -> Pressure:
    """The profile of a solved program: the larger of the two sides of each operation.

    No assignment can do with less. It may need a little more where an entry of several lines keeps a source
    while it already writes its result."""
    sets = live_sets(program, flow)
    profile, limit = {}, {}
    for register_class in program.machine.classes:
        mine = 0
        large: list[Variable] = []
        for variable in program.variables:
            if variable.register_class is register_class:
                mine |= variable.bit
                if variable.count > 1:
                    large.append(variable)

        def count(live: int, mine: int = mine, large: Sequence[Variable] = large) -> int:
            return (live & mine).bit_count() + sum(v.count - 1 for v in large if live & v.bit)

        profile[register_class.name] = tuple(max(count(before), count(after)) for before, after in sets)
        framed = (
            program.stack_bytes is not None and program.machine.frame_register in register_class.registers
        )
        limit[register_class.name] = register_class.count - framed
    return Pressure(profile, limit)


def register_map(program: Program, flow: Flow, registers: Mapping[Variable, Sequence[str]]) -> RegisterMap:
    """The map of an allocated program, by first appearance."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, (before, after) in enumerate(live_sets(program, flow)):
        for v in members(before | after):
            first.setdefault(v, i)
            last[v] = i
    rows = [
        Row(v.name, v.register_class.name, tuple(r), first[v.id], last[v.id])
        for v, r in registers.items()
        if v.id in first
    ]
    return RegisterMap(tuple(sorted(rows, key=lambda row: (row.first, row.last, row.name))))
