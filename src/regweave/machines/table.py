"""A machine's instructions by name, and the pattern of each that takes given operands.

>>> from regweave.machines.x86 import AVX512
>>> AVX512.table["fma"].help
'd = a * b + d, one rounding'
>>> AVX512.table.form("fma", ("v", "v", "k"))
AssemblyError: 'fma' does not take (v v k) (at avx512); expected 'd:v a:v b:v|m|b'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regweave.errors import AssemblyError, nearest_names
from regweave.machines.forms import Form
from regweave.machines.instructions import ACCEPTS, Instruction, Operand, Pattern

_MOST_TEMPLATES = 1000


class Table:
    """A machine's instructions by name, with the forms worked out so far.

    `memory` maps a memory letter to the text around an address, `"#"` to that around a table constant.
    `moves` are the mnemonics that only copy a register: such a line vanishes when both sides get the same
    register.
    """

    def __init__(
        self,
        machine: str,
        instructions: Iterable[Instruction],
        memory: Mapping[str, tuple[str, str]],
        moves: Iterable[str] = (),
    ) -> None:
        self.machine = machine
        self.instructions: dict[str, Instruction] = {}
        for instruction in instructions:
            if instruction.name in self.instructions:
                raise AssemblyError(
                    f"instruction {instruction.name!r} stands twice in the table of {machine}"
                )
            self.instructions[instruction.name] = instruction
        self.memory = dict(memory)
        self.moves = frozenset(moves)
        #: (name, *kinds) -> Form; a builder looks here first.
        self.forms: dict[tuple[str, ...], Form] = {}
        #: Likewise for templates that are not in the table: (text or pattern, *kinds) -> Form.
        self.templates: dict[tuple[Any, ...], Form] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.instructions

    def __iter__(self) -> Any:
        return iter(self.instructions)

    def __getitem__(self, name: str) -> Instruction:
        try:
            return self.instructions[name]
        except KeyError:
            raise AssemblyError(
                f"{self.machine} has no instruction {name!r}",
                nearest=nearest_names(name, self.instructions),
                fix="see machine.table for all of them",
            ) from None

    def form(self, name: str, kinds: Sequence[str]) -> Form:
        """The form of `name` for operands of these kinds; AssemblyError if no pattern takes them."""
        key = (name, *kinds)
        form = self.forms.get(key)
        if form is None:
            form = self.forms[key] = self.bind(name, self[name].patterns, kinds)
        return form

    def keep_template(self, key: tuple[Any, ...], form: Form) -> None:
        """Keep the form of a template; a thousand at most, as texts with numbers in them have no end."""
        if len(self.templates) >= _MOST_TEMPLATES:
            self.templates.clear()
        self.templates[key] = form

    def bind(self, name: str, patterns: Iterable[Pattern], kinds: Sequence[str]) -> Form:
        """The form of the first pattern that takes operands of these kinds."""
        wanted = []
        for pattern in patterns:
            bound = [operand for operand in pattern.constraints if not operand.scratch]
            if len(bound) == len(kinds) and all(map(takes, bound, kinds)):
                return Form(name, pattern, kinds, self.memory, self.moves)
            wanted.append(pattern.operands)
        given = " ".join(KIND_WORDS.get(kind, kind) for kind in kinds) or "no operands"
        raise AssemblyError(
            f"{name!r} does not take ({given})", where=self.machine, expected=" or ".join(map(repr, wanted))
        )


KIND_WORDS = {"m": "memory", "b": "repeated memory", "c": "constant", "i": "immediate", "l": "label"}


def takes(operand: Operand, kind: str) -> bool:
    """Whether an operand's constraint is satisfied by a kind ("v", "v4" for four registers, "m", "i",
    ...)."""
    if kind in ACCEPTS:
        return any(letter in ACCEPTS[kind] for letter in operand.letters)
    count = int(kind[1:] or 1)
    return kind[:1] in operand.letters and (count == operand.count)
