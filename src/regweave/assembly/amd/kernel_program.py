"""A kernel's operations before any register is chosen: the program of `assembly.program` with what AMD adds.

Each operation is one instruction. Beside the form that prints it there is its shape (what the instruction
table knows) and a list of touches: which registers of which variables it reads and writes, one part of a
tuple at a time. `parts` makes the live ranges of whole variables out of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from regweave.assembly.amd.shapes import Shape
from regweave.assembly.program import Program
from regweave.values import frozen


@frozen
class Touch:
    """Registers `first` up to `stop` of a variable, by its number; `role` is "", "=" or "+"."""

    variable: int
    first: int
    stop: int
    role: str


@frozen(eq=False)
class KernelProgram(Program):
    """A program of single instructions.

    `shapes[i]` and `touches[i]` belong to operation i, `lines[i]` is the text that it came from.
    `whole_waves` says that all lanes of every wave are on when the kernel starts.
    """

    shapes: Sequence[Shape] = field(kw_only=True)
    touches: Sequence[Sequence[Touch]] = field(kw_only=True)
    lines: Sequence[str] = field(kw_only=True)
    whole_waves: bool = field(kw_only=True)

    def shown(self, index: int) -> str:
        """Operation `index` as its author wrote it."""
        return self.lines[index]
