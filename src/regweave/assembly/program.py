"""A program: the whole sequence of operations, before any register is chosen.

It is a value: the builder makes it, the analysis (`flow`), the allocation and the printing read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regweave.assembly.variables import Variable
from regweave.machines import AssemblyMachine
from regweave.machines.forms import Form
from regweave.values import frozen


@frozen(eq=False)
class Program:
    """Operations as parallel sequences: operation i is `forms[i]` on `operands[i]`.

    `uses[i]` and `defines[i]` are sets of variables (bit v of the integer is variable number v). `labels`
    maps a label to the operation that it stands before; `controls` an operation that leaves the straight line
    to its target label (None for returns). `extra[v]` are variables that v must not share a register with,
    whatever their lifetimes. `copies` are (destination, source) pairs that would like one register. `pool` is
    the constants' text.
    """

    name: str
    machine: AssemblyMachine
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

    def shown(self, index: int) -> str:
        """Operation `index` under the names that the author gave: `fma acc, x, w`."""
        names = (o.name if isinstance(o, Variable) else repr(o) for o in self.operands[index])
        return f"{self.forms[index].name} {', '.join(names)}".rstrip()

    def describe(self, index: int) -> str:
        """Operation `index` for an error: its place behind the nearest label, and itself."""
        before = [(at, name) for name, at in self.labels.items() if at <= index]
        place = f"{max(before)[1]}+{index - max(before)[0]}" if before else str(index)
        return f"{place}: {self.shown(index)}"
