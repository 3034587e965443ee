"""Write a program step by step; the same step on the same operands is written once.

    >>> b = ProgramBuilder("copy", 32, Array("source", "b32", 2), Array("destination", "b32", 2))
    >>> b.step("word", (), (1,)) is b.step("word", (), (1,))
    True

Numbering values like this removes common work (a predicate that all fragments of a tile share is set
once) and keeps the lane arithmetic apart from the words, so that compilers hoist it out of loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.programs.opcodes import OPCODES
from regweave.programs.program import Array, Program, Step, Value
from regweave.programs.verifier import check_program


class ProgramBuilder:
    """Collects steps; `finish` returns the verified program without the steps that nothing needs."""

    def __init__(self, name: str, lanes: int, source: Array, destination: Array) -> None:
        self._name, self._lanes = name, lanes
        self._source, self._destination = source, destination
        self._steps: dict[tuple[str, tuple[Value, ...], tuple[int, ...]], Step] = {}

    def step(self, opcode: str, operands: Sequence[Value] = (), numbers: Sequence[int] = ()) -> Value:
        """The value of this step, defined now unless an equal step already did."""
        key = opcode, tuple(operands), tuple(numbers)
        if key not in self._steps:
            kind = OPCODES[opcode].result
            result = Value(len(self._steps), self._source.type if kind == "any" else kind)
            self._steps[key] = Step(*key, result)
        return self._steps[key].result

    def constant(self, value: int) -> Value:
        """A 32-bit constant, the same in every lane."""
        return self.step("constant", (), (value & 0xFFFFFFFF,))

    def word(self, index: int) -> Value:
        """Word `index` of the source, with the source's type."""
        return self.step("word", (), (index,))

    def finish(self, results: Sequence[Value]) -> Program:
        """The program whose destination words are `results`."""
        needed = {value.number for value in results}
        kept: list[Step] = []
        for step in reversed(self._steps.values()):
            if step.result.number in needed:
                kept.append(step)
                needed.update(operand.number for operand in step.operands)
        program = Program(
            self._name, self._lanes, self._source, self._destination, tuple(reversed(kept)), tuple(results)
        )
        return check_program(program)
