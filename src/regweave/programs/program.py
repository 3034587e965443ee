"""A program says what one lane does; all lanes of the warp (or of several warps) do it together.

Every step defines values, every value is defined once and has a type, so that a verifier can check a
program, an interpreter can run it on all lanes at once, and one printer per language can write it down.
The simple case rearranges registers: words of `source` come in and words of `destination` go out, arrays
whose indices are numbers known when the program is written, for a register cannot be indexed at run time
without moving to memory. Such a program is one device function.

    %0 = lane
    %1 = word index 0
    %2 = shuffle %1, %0 width 4
    destination[0] = %2

A kernel has no words: it reads and writes memories, and its steps are structured. A `Loop` runs its body a
known number of times with carried values; a `When` runs its body in the lanes whose predicate holds.

    %0 = lane
    loop %1 of 4 with %2 = %5:
        %3 = global_load a %0 bytes 4 offset 0
        %4 = add %3, %2
        next %4
    gives %6
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from regweave.machines.gpu import MatrixInstruction
from regweave.programs.opcodes import OPCODES

TYPES = ("f32", "b32", "predicate")
SPACES = ("global", "shared")


class Value(NamedTuple):
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


# what a kernel has in place of a source and a destination
NO_WORDS = Array("", "b32", 0)


@dataclass(frozen=True)
class Memory:
    """`bytes` bytes of `global` or `shared` memory that begin at a multiple of 16.

    Global memory is a pointer parameter. Shared memory is a pointer parameter of a device function, whose
    caller provides it, and an array that a kernel declares.
    """

    name: str
    space: str
    bytes: int


class Step(NamedTuple):
    """One step: an opcode on `operands`, with numbers known beforehand, defining `results`.

    `symbol` names what else it works on: a memory, a matrix instruction, or a barrier's scope.
    """

    opcode: str
    operands: tuple[Value, ...]
    numbers: tuple[int, ...]
    results: tuple[Value, ...]
    symbol: str = ""

    @property
    def result(self) -> Value:
        """The only value that it defines."""
        assert len(self.results) == 1, self
        return self.results[0]

    def __str__(self) -> str:
        names = OPCODES[self.opcode].numbers if self.opcode in OPCODES else ()
        words = [self.opcode, self.symbol, _commas(self.operands)]
        words += [f"{name} {number}" for name, number in zip(names, self.numbers, strict=False)]
        defined = f"{_commas(self.results)} = " if self.results else ""
        return defined + " ".join(word for word in words if word)


@dataclass(frozen=True)
class Carried:
    """A value that a loop hands on: `initial` before it, `inside` it, `following` for the next time.

    `result` is what is left after the last time.
    """

    initial: Value
    inside: Value
    following: Value
    result: Value


@dataclass(frozen=True)
class Loop:
    """`body`, `count` times, `index` counting from 0."""

    count: int
    index: Value
    carried: tuple[Carried, ...]
    body: tuple[Item, ...]


@dataclass(frozen=True)
class When:
    """`body` in those lanes whose `predicate` holds; nothing that it defines is known outside."""

    predicate: Value
    body: tuple[Item, ...]


Item = Step | Loop | When


@dataclass(frozen=True)
class Program:
    """Items from the words of `source` to `results`, the words of `destination`.

    `lanes` is the size of a warp and `warps` the number of warps that run it together; `memories` and
    `instructions` are those that steps name.
    """

    name: str
    lanes: int
    source: Array
    destination: Array
    steps: tuple[Item, ...]
    results: tuple[Value, ...]
    memories: tuple[Memory, ...] = ()
    instructions: tuple[MatrixInstruction, ...] = ()
    warps: int = 1

    @property
    def kernel(self) -> bool:
        """Whether this is a whole kernel and not a device function."""
        return self.source.words == 0 and self.destination.words == 0

    def memory(self, name: str) -> Memory | None:
        """The memory called `name`."""
        return self._memories.get(name)

    @cached_property
    def _memories(self) -> dict[str, Memory]:
        return {memory.name: memory for memory in reversed(self.memories)}

    def instruction(self, name: str) -> MatrixInstruction | None:
        """The matrix instruction called `name`."""
        return next((entry for entry in self.instructions if entry.name == name), None)

    def walk(self) -> Iterator[tuple[Step, int]]:
        """Every step, also those inside bodies, and how often it runs."""
        return iter(self._walked)

    @cached_property
    def _walked(self) -> tuple[tuple[Step, int], ...]:
        return tuple(_walk(self.steps, 1))

    def count(self) -> Counter[str]:
        """How many steps use each resource (`shuffle`, `select`, ...) in a run; free ones are left out."""
        counts: Counter[str] = Counter()
        alike = Counter([(step.opcode, times) for step, times in self._walked])
        for (opcode, times), steps in alike.items():
            counts[OPCODES[opcode].resource] += times * steps * OPCODES[opcode].instructions
        del counts["free"]
        return counts

    def __str__(self) -> str:
        stores = (f"{self.destination.name}[{index}] = {value}" for index, value in enumerate(self.results))
        memories = (f"{memory.space} {memory.name}: {memory.bytes} bytes" for memory in self.memories)
        return "\n".join([*memories, *_lines(self.steps, ""), *stores])


def _commas(values: tuple[Value, ...]) -> str:
    return ", ".join(str(value) for value in values)


def _walk(items: tuple[Item, ...], times: int) -> Iterator[tuple[Step, int]]:
    for item in items:
        if isinstance(item, Step):
            yield item, times
        else:
            yield from _walk(item.body, times * (item.count if isinstance(item, Loop) else 1))


def _lines(items: tuple[Item, ...], indent: str) -> Iterator[str]:
    inner = indent + "    "
    for item in items:
        if isinstance(item, Step):
            yield f"{indent}{item}"
        elif isinstance(item, When):
            yield f"{indent}when {item.predicate}:"
            yield from _lines(item.body, inner)
        else:
            carried = ", ".join(f"{value.inside} = {value.initial}" for value in item.carried)
            yield f"{indent}loop {item.index} of {item.count}" + (f" with {carried}:" if carried else ":")
            yield from _lines(item.body, inner)
            if item.carried:
                yield inner + "next " + _commas(tuple(value.following for value in item.carried))
                yield indent + "gives " + _commas(tuple(value.result for value in item.carried))
