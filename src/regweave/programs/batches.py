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
ACCESSES = frozenset({"shared_load", "shared_store"})
# free of surroundings but for a number of their own, so that the interpreter knows them alone
_NUMBERED = frozenset({"word", "constant"})
# how steps of each opcode are taken: with an effect in order, alone, with any numbers or with the same ones
_KINDS = {
    name: "effect"
    if opcode.effect
    else "numbered"
    if name in _NUMBERED
    else "alone"
    if opcode.meaning is None
    else "same"
    for name, opcode in OPCODES.items()
}
# byte permutes for each selector from which they are taken by themselves
_WORTH_PARTING = 8


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
        name, operands, numbers, results, symbol = step
        level = 1
        for operand in operands:
            above = levels.get(operand[0], 0)
            if above >= level:
                level = above + 1
        how = _KINDS[name]
        if how == "effect":
            mine = (name, symbol, numbers[0]) if name in ACCESSES else number
            last = effects[-1] if effects else None
            if last is None or mine != kind or (results and level > last.level):
                level = level if last is None else max(level, last.level + 1)
                effects.append(Batch(level))
            batch = effects[-1]
            kind, batch.level = mine, max(batch.level, level)
        else:
            key = number if how == "alone" else (level, name) if how == "numbered" else (level, name, numbers)
            found = batches.get(key)
            if found is None:
                found = batches[key] = Batch(level)
            batch = found
        batch.steps.append(step)
        for result in results:
            levels[result[0]] = batch.level
    pure = [part for batch in batches.values() for part in _by_selector(batch)]
    return sorted([*pure, *effects], key=lambda batch: batch.level)


def _by_selector(batch: Batch) -> list[Batch]:
    """Byte permutes of one selector each, where there are few of them."""
    if batch.steps[0].opcode != "byte_permute":
        return [batch]
    parts: dict[int, list[Step]] = {}
    for step in batch.steps:
        parts.setdefault(step.operands[2].number, []).append(step)
    few = len(parts) <= len(batch.steps) // _WORTH_PARTING
    return [Batch(batch.level, steps) for steps in parts.values()] if few else [batch]
