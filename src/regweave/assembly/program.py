"""A program: the whole sequence of operations, before any register is chosen.

It is a value: the builder makes it, the analysis (`flow`), the allocation and the printing read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regweave.assembly.variables import Variable
from regweave.machines.forms import Form
from regweave.machines.x86 import VectorMachine


@dataclass(frozen=True, eq=False)
class Program:
    """Operations as parallel sequences: operation i is `forms[i]` on `operands[i]`.

    `uses[i]` and `defines[i]` are sets of variables (bit v of the integer is variable number v). `labels` maps a label
    to the operation that it stands before; `controls` an operation that leaves the straight line to its target label
    (None for returns). `extra[v]` are variables that v must not share a register with, whatever their lifetimes.
    `copies` are (destination, source) pairs that would like one register. `pool` is the constants' text.
    """

    name: str
    machine: VectorMachine
    variables: Sequence[Variable]
    arguments: Sequence[Variable]
    forms: Sequence[Form]
    operands: Sequence[Sequence[Any]]
    uses: Sequence[int]
    defines: Sequence[int]
    labels: Mapping[str, int]
    controls: Mapping[int, str | None]
    breaks: Sequence[int]
    extra: Mapping[int, int]
    copies: Sequence[tuple[Variable, Variable]]
    comments: Mapping[int, str]
    pool: str
    stack_bytes: int | None

    def describe(self, index: int) -> str:
        """Operation `index` as a person would write it, with the label it stands after."""
        shown = ", ".join(map(repr_operand, self.operands[index]))
        before = [(at, name) for name, at in self.labels.items() if at <= index]
        place = f"{max(before)[1]}+{index - max(before)[0]}: " if before else f"{index}: "
        return f"{place}{self.forms[index].name} {shown}".rstrip()


def repr_operand(operand: Any) -> str:
    """An operand under the names that the author gave."""
    return operand.name if isinstance(operand, Variable) else repr(operand)
