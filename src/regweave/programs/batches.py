"""Steps that can be taken at once: equal steps of one level, and accesses between two barriers.

A program of a large tile repeats every step for each copy of its group. None of these waits for another, so
that the interpreter takes them as one operation on all their words:

    %1 = word index 0        one batch of two
    %2 = word index 1
    %3 = shuffle %1, %0      another
    %4 = shuffle %2, %0

A step's *level* is one more than the highest of those that define its operands. Steps with an effect keep
their order; only accesses of one kind and size that follow one another share a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regweave.programs.opcodes import OPCODES
from regweave.programs.program import Step

# accesses that may be made together
_ACCESSES = frozenset({"shared_load", "shared_store"})
# free of surroundings, although the interpreter knows them alone
_PLAIN = frozenset({"word"})


@dataclass
class Batch:
    """Steps of one opcode and level, in their order; other numbers than an offset or index are equal."""

    level: int
    steps: list[Step] = field(default_factory=list)


def find_batches(steps: Sequence[Step]) -> list[Batch]:
    """The steps in batches, in an order in which they can be taken."""
    levels: dict[int, int] = {}
    batches: dict[object, Batch] = {}
    effects: list[Batch] = []
    kind: object = None
    for number, step in enumerate(steps):
        opcode = OPCODES[step.opcode]
        level = 1
        for operand in step.operands:
            level = max(level, levels.get(operand.number, 0) + 1)
        if opcode.effect:
            mine = (step.opcode, step.symbol, step.numbers[0]) if step.opcode in _ACCESSES else number
            last = effects[-1] if effects else None
            if last is None or mine != kind or (step.results and level > last.level):
                level = level if last is None else max(level, last.level + 1)
                effects.append(Batch(level))
            batch = effects[-1]
            kind, batch.level = mine, max(batch.level, level)
        else:
            plain = opcode.meaning is not None or step.opcode in _PLAIN
            numbers = () if step.opcode == "word" else step.numbers
            key = (level, step.opcode, numbers) if plain else number
            found = batches.get(key)
            if found is None:
                found = batches[key] = Batch(level)
            batch = found
        batch.steps.append(step)
        for result in step.results:
            levels[result.number] = batch.level
    return sorted([*batches.values(), *effects], key=lambda batch: batch.level)
