"""A program says what one lane does; all lanes of the warp do it together.

Every step defines at most one value, every value is defined once and has a type, so that a verifier can
check a program, an interpreter can run it on all lanes at once, and one printer per language can
write it down. The words that come in and go out are arrays whose indices are numbers known when the
program is written: a register cannot be indexed at run time without moving to memory.

    %0 = lane
    %1 = word source[0]
    %2 = shuffle %1, %0 width 4
    destination[0] = %2
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from regweave.programs.opcodes import OPCODES

TYPES = ("f32", "b32", "predicate")


@dataclass(frozen=True)
class Value:
    """What a step defined: its number, unique in the program, and its type."""

    number: int
    type: str

    def __str__(self) -> str:
        return f"%{self.number}"


@dataclass(frozen=True)
class Array:
    """A named row of `words` words of one type in each lane: `source[0]` to `source[words - 1]`."""

    name: str
    type: str
    words: int


@dataclass(frozen=True)
class Step:
    """One step: an opcode on `operands`, with numbers known beforehand, defining `result`."""

    opcode: str
    operands: tuple[Value, ...]
    numbers: tuple[int, ...]
    result: Value

    def __str__(self) -> str:
        names = OPCODES[self.opcode].numbers if self.opcode in OPCODES else ()
        words = [", ".join(str(operand) for operand in self.operands)]
        words += [f"{name} {number}" for name, number in zip(names, self.numbers, strict=False)]
        return f"{self.result} = " + " ".join([self.opcode, *(word for word in words if word)])


@dataclass(frozen=True)
class Program:
    """Steps from the words of `source` to `results`, the words of `destination`, on `lanes` lanes."""

    name: str
    lanes: int
    source: Array
    destination: Array
    steps: tuple[Step, ...]
    results: tuple[Value, ...]

    def count(self) -> Counter[str]:
        """How many steps use each resource (`shuffle`, `select`, `logic`, ...); free ones are left out."""
        resources = (OPCODES[step.opcode].resource for step in self.steps)
        return Counter(resource for resource in resources if resource != "free")

    def __str__(self) -> str:
        stores = (f"{self.destination.name}[{index}] = {value}" for index, value in enumerate(self.results))
        return "\n".join([*(str(step) for step in self.steps), *stores])
