"""A listing: the assembled text of one function with the map of its registers.

listing = builder.finish()
print(listing.text)           # what the assembler gets
print(listing.register_map)   # acc -> zmm0, live from ... to ...
print(listing.annotated())    # the text with the author's names beside the registers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from regweave.assembly.flow import Flow
from regweave.assembly.maps import Pressure, RegisterMap, measure_pressure, register_map
from regweave.assembly.program import Program
from regweave.assembly.variables import Memory, Variable
from regweave.values import frozen


@frozen(eq=False)
class Listing:
    """One function: its `name` (the symbol), the assembly `text`, and the `registers` of every variable."""

    name: str
    text: str
    registers: Mapping[Variable, tuple[str, ...]]
    program: Program
    flow: Flow

    @property
    def operations(self) -> int:
        """How many operations were emitted."""
        return len(self.program.forms)

    @cached_property
    def pressure(self) -> Pressure:
        """Registers in use at each operation, per class."""
        return measure_pressure(self.program, self.flow)

    @cached_property
    def register_map(self) -> RegisterMap:
        """Name, registers and live range of every variable; prints as a table."""
        return register_map(self.program, self.flow, self.registers)

    def annotated(self) -> str:
        """The text with one comment per operation: its number and the author's names."""
        return print_text(self.program, self.registers, annotate=True)


class _Run(tuple[str, ...]):
    """Consecutive registers, each by its number; a slice, or as a string the whole run, as the machine writes
    it."""

    write: Callable[[Sequence[str]], str]

    def __new__(cls, registers: Sequence[str], write: Callable[[Sequence[str]], str]) -> _Run:
        made = super().__new__(cls, registers)
        made.write = write
        return made

    def __getitem__(self, chosen: Any) -> Any:
        found = super().__getitem__(chosen)
        return self.write(found) if isinstance(chosen, slice) else found

    def __str__(self) -> str:
        return self.write(tuple(self))


def print_text(
    program: Program, registers: Mapping[Variable, tuple[str, ...]], *, annotate: bool = False
) -> str:
    """The whole function as assembly, the constants behind it in a section of their own."""
    machine = program.machine
    texts: dict[Any, Any] = {
        v: run[0] if v.count == 1 else _Run(run, machine.run) for v, run in registers.items()
    }
    enter, leave = _frame(program, registers)
    out = [*machine.head(program.name), *enter]
    places: dict[int, list[str]] = {}
    for name, at in program.labels.items():
        places.setdefault(at, []).append(f".L{program.name}_{name}:")
    views, get, address = machine.views, texts.get, machine.address
    forms, controls = program.forms, program.controls
    start = 0
    for stop in (*sorted(places), len(forms)):
        for i in range(start, stop):
            form = forms[i]
            row = []
            for operand in program.operands[i]:
                text = get(operand)
                if text is None:
                    if type(operand) is Memory:
                        base, index = operand.base, operand.index
                        text = address(
                            texts[base] if type(base) is Variable else base,  # type: ignore[arg-type]
                            None if index is None else texts[index],
                            operand.scale,
                            operand.offset,
                        )
                    else:
                        text = operand.shown
                row.append(text)
            if annotate:
                remark = f"  ({program.comments[i]})" if i in program.comments else ""
                out.append(f"# {i}: {program.shown(i)}{remark}")
            copy = form.copy
            if copy is not None and row[copy[0]] == row[copy[1]]:
                if form.rest:
                    out.append(form.rest % form.pick_rest(row, views))
                continue
            if i in controls and form.control == "leave":
                out += leave
            out.append(form.text % form.pick(row, views))
        if stop in places:
            out += places[stop]
        start = stop
    if program.pool:
        out.append(program.pool)
    return "\n".join(out) + "\n"


def _frame(
    program: Program, registers: Mapping[Variable, tuple[str, ...]]
) -> tuple[Sequence[str], Sequence[str]]:
    """What the machine wants around the body: registers kept, stack, vectors."""
    machine = program.machine
    used = {register for run in registers.values() for register in run}
    used.update(register for form in set(program.forms) for register in form.clobbers)
    if program.stack_bytes is not None:
        used.add(machine.frame_register)
    saved = [r for c in machine.classes for r in c.registers if r in c.saved and r in used]
    vectors = not used.isdisjoint(machine.register_class("vector").registers)
    return machine.frame(saved, program.stack_bytes, vectors)
