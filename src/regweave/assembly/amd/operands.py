"""What an operand's text stands for: the rules by which registers are looked up.

| operand | rule |
|---|---|
| the target of a branch | `label`: uses no register |
| a reserved keyword (`kernarg`, `group_x`, `thread`, or one of a constraint) | `keyword`: its registers |
| a name | `name`: the variable registered under it; unknown names are errors |
| a number, bound to a variable that is known | `known`: looked up by identity, its registers |
| a number, bound to a new variable | `new`: as many registers as the constraint says |
| `v7`, `s[2:3]`, `vcc` | `register`: that one, kept apart from all variables |
| 3, 0x1f, 1.0 | `number`: stands in the instruction |
"""

from __future__ import annotations

import re

from regweave.assembly.reading import check_digits
from regweave.assembly.variables import Variable
from regweave.errors import AssemblyError
from regweave.values import frozen

_CONSTRAINT = re.compile(r"(\w+):([vsa])([1-9]\d*)?(?:@([1-9]\d*))?(?:=([vsa]\d+))?\Z")


@frozen
class Constraint:
    """What a template demands of an operand: its class, how many registers, their alignment, or, for a
    reserved keyword, the first register."""

    target: str
    letter: str
    count: int
    alignment: int
    register: str | None

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """From `0:v4`, `0:s4@8` or `kernarg:s2=s0`."""
        check_digits(text)
        match = _CONSTRAINT.match(text)
        if match is None:
            raise AssemblyError(
                f"constraint {text!r} cannot be read", expected="like 0:v4, 0:s4@8 or kernarg:s2=s0"
            )
        target, letter, count, alignment, register = match.groups()
        if (register is not None) == target.isdecimal():
            raise AssemblyError(
                f"constraint {text!r} mixes a number with a register, or a keyword with none",
                expected="0:v4 for an operand, kernarg:s2=s0 for a reserved keyword",
            )
        return cls(target, letter, int(count or 1), int(alignment or 1), register)


@frozen(eq=False)
class Decision:
    """Which rule applied to an operand of an operation, and the variable that it led to."""

    operation: int
    text: str
    rule: str
    variable: Variable | None

    @property
    def demand(self) -> str:
        """What is registered for it: `vector x4`."""
        if self.variable is None:
            return ""
        size = f" x{self.variable.count}" if self.variable.count > 1 else ""
        return f"{self.variable.register_class.name}{size}"
