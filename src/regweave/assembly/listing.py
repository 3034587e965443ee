"""A listing: the assembled text of one function with the map of its registers.

listing = builder.finish()
print(listing.text)           # what the assembler gets
print(listing.register_map)   # acc -> zmm0, live from ... to ...
print(listing.annotated())    # the text with the author's names beside the registers
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from regweave.assembly.flow import Flow
from regweave.assembly.maps import Pressure, RegisterMap, measure_pressure, register_map
from regweave.assembly.program import Program, repr_operand
from regweave.assembly.variables import Variable


@dataclass(frozen=True, eq=False)
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


def print_text(
    program: Program, registers: Mapping[Variable, tuple[str, ...]], *, annotate: bool = False
) -> str:
    """The whole function as assembly (Intel syntax), the constants behind it in a section of their own."""
    machine = program.machine
    texts: dict[Any, Any] = {v: r[0] if v.count == 1 else r for v, r in registers.items()}
    saved_set = frozenset().union(*(c.saved for c in machine.classes))
    framed = program.stack_bytes is not None
    used = {register for run in registers.values() for register in run} | {
        r for f in program.forms for r in f.clobbers
    }
    order = machine.register_class("general").registers
    saved = [r for r in order if r in saved_set and (r in used or (framed and r == "rbp"))]
    vector_used = any(v.register_class.name == "vector" for v in registers)  # type: ignore[union-attr]
    enter, leave = _frame(saved, program.stack_bytes, vector_used)
    prefix = f".L{program.name}_"
    out = [
        ".intel_syntax noprefix",
        ".text",
        f".globl {program.name}",
        ".p2align 6",
        f"{program.name}:",
        *enter,
    ]
    places: dict[int, list[str]] = {}
    for name, at in program.labels.items():
        places.setdefault(at, []).append(f"{prefix}{name}:")
    views = machine.views
    get = texts.get
    forms = program.forms
    start = 0
    controls = program.controls
    for stop in (*sorted(places), len(forms)):
        for i in range(start, stop):
            form = forms[i]
            row = [get(o) or o.text(texts) for o in program.operands[i]]
            if annotate:
                names = ", ".join(repr_operand(o) for o in program.operands[i])
                out.append(f"# {i}: {form.name} {names}".rstrip())
                if i in program.comments:
                    out[-1] += f"  -- {program.comments[i]}"
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


def _frame(saved: list[str], stack_bytes: int | None, vector_used: bool) -> tuple[list[str], list[str]]:
    """The lines that enter the function and those before its `ret`.

    With a stack, rbp points to a block of `stack_bytes` that starts at a multiple of 64, above it the old stack
    pointer. So slots keep their addresses inside local routines, and calls find the stack aligned.
    """
    enter = [f"push {register}" for register in saved]
    leave = [f"pop {register}" for register in reversed(saved)]
    if stack_bytes is not None:
        size = (stack_bytes + 7) // 8 * 8
        enter += [
            "mov rax, rsp",
            f"sub rsp, {size + 8}",
            "and rsp, -64",
            f"mov [rsp+{size}], rax",
            "mov rbp, rsp",
        ]
        leave = [f"mov rsp, [rbp+{size}]", *leave]
    if vector_used:
        leave = ["vzeroupper", *leave]
    return enter, leave
