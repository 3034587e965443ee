"""Predicates of the lane number: which lanes do a thing, as one bit test.

    >>> find_predicate([bool(lane & 2) for lane in range(32)], costs)
    Predicate(expression=Lane(), mask=2, negated=False)

A set of lanes is often "some of these lane bits are set" (or none of them), which is one test. Any other
set is computed as an index expression of one bit first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from regweave.machines.gpu import StepCosts
from regweave.programs import ProgramBuilder, Value
from regweave.rearrangement.expressions import LANE, Expression, evaluate, expression_cost, lower_expression
from regweave.rearrangement.synthesis import synthesise


@dataclass(frozen=True)
class Predicate:
    """True where `expression & mask` is not zero; where it is zero if `negated`."""

    expression: Expression
    mask: int
    negated: bool

    def cost(self, costs: StepCosts) -> int:
        """Issue slots of setting the predicate."""
        return expression_cost(self.expression, costs) + costs.test

    def lower(self, builder: ProgramBuilder) -> Value:
        """Write the test into a program; where `negated`, the reader takes the other side of its select."""
        return builder.step("test", (lower_expression(self.expression, builder),), (self.mask,))


def find_predicate(lanes: Sequence[bool | None], costs: StepCosts) -> Predicate:
    """The cheapest predicate that is true in the lanes marked so; None marks lanes that do not care."""
    return _find(tuple(lanes), costs)


@lru_cache(maxsize=4096)
def _find(lanes: tuple[bool | None, ...], costs: StepCosts) -> Predicate:
    numbers = evaluate(LANE, len(lanes))
    for negated in (False, True):
        true = np.array([side is not None and side != negated for side in lanes])
        false = np.array([side is not None and side == negated for side in lanes])
        unset = np.bitwise_or.reduce(numbers[false], initial=np.uint32(0))
        mask = np.uint32(len(lanes) - 1) & ~unset
        if mask and np.all(numbers[true] & mask):
            return Predicate(LANE, _fewest_bits(numbers[true], int(mask)), negated)
    bits = [None if side is None else int(side) for side in lanes]
    return Predicate(synthesise(bits, 1, costs), 1, negated=False)


def _fewest_bits(numbers: Sequence[int] | np.ndarray, mask: int) -> int:
    """`mask` without the bits that are not needed to tell `numbers` from zero."""
    for place in reversed(range(mask.bit_length())):
        smaller = mask & ~(1 << place)
        if smaller and all(int(number) & smaller for number in numbers):
            mask = smaller
    return mask
