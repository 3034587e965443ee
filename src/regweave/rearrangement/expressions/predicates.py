"""Predicates of the lane number: which lanes do a thing, as one bit test.

    >>> find_predicate([bool(lane & 2) for lane in range(32)], costs)
    Predicate(expression=Lane(), mask=2, negated=False)

A set of lanes is often "some of these lane bits are set" (or none of them), which is one test. It may be
that lane bits have certain values (one xor before the test), that they are many enough to carry into a higher
bit (lanes 12 to 31 are those in which lane + 20 has bit 5), or that two of them differ. All sets of these
kinds are listed once, by cost; any other is looked up in a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.errors import UnsupportedError
from regweave.machines.gpu import StepCosts
from regweave.programs import ProgramBuilder, Value
from regweave.rearrangement.expressions.lookups import bit_lookup
from regweave.rearrangement.expressions.nodes import (
    LANE,
    Binary,
    Constant,
    Expression,
    expression_cost,
    lower_expression,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    """The cheapest predicate that is true in the lanes marked so; None marks lanes that do not care.

    Raises UnsupportedError for more than 64 lanes.
    """
    return _find(tuple(lanes), costs)


@lru_cache(maxsize=16384)
def _find(lanes: tuple[bool | None, ...], costs: StepCosts) -> Predicate:
    if len(lanes) > 64:
        raise UnsupportedError(f"no predicate for a set of {len(lanes)} lanes", where="at most 64 lanes")
    true = sum(1 << lane for lane, side in enumerate(lanes) if side)
    false = sum(1 << lane for lane, side in enumerate(lanes) if side is not None and not side)
    predicates, sets = _listed(len(lanes))
    found = np.flatnonzero(((sets & np.uint64(false)) | (np.uint64(true) & ~sets)) == 0)
    if found.size:
        return predicates[int(found[0])]
    return Predicate(bit_lookup(true, len(lanes)), 1, negated=False)


@lru_cache(maxsize=8)
def _listed(lanes: int) -> tuple[tuple[Predicate, ...], NDArray[np.uint64]]:
    """Predicates without look-ups, the cheap and simple ones first, and their sets of lanes as bit masks."""
    numbers = np.arange(lanes, dtype=np.uint32)
    weights = np.uint64(1) << np.arange(lanes, dtype=np.uint64)
    full = int(weights.sum())
    found: dict[int, Predicate] = {}
    for expression, values, mask in _tests(numbers, max((lanes - 1).bit_length(), 1)):
        members = int(weights[(values & np.uint32(mask)) != 0].sum())
        found.setdefault(members, Predicate(expression, mask, negated=False))
        found.setdefault(full & ~members, Predicate(expression, mask, negated=True))
    return tuple(found.values()), np.array(list(found), dtype=np.uint64)


def _tests(numbers: NDArray[np.uint32], bits: int) -> Iterator[tuple[Expression, NDArray[np.uint32], int]]:
    masks = sorted(range(1, 1 << bits), key=lambda mask: (mask.bit_count(), mask))
    for mask in masks:
        yield LANE, numbers, mask
    for mask in masks:
        for value in range(1, 1 << bits):
            if value & ~mask == 0:
                yield Binary("xor", LANE, Constant(value)), numbers ^ np.uint32(value), mask
    for amount in range(1, len(numbers)):
        for place in reversed(range(1, bits + 1)):
            yield Binary("add", LANE, Constant(amount)), numbers + np.uint32(amount), 1 << place
    for distance in range(1, bits):
        shifted = Binary("shift_right", LANE, Constant(distance))
        for place in range(bits - distance):
            yield Binary("xor", LANE, shifted), numbers ^ numbers >> np.uint32(distance), 1 << place
