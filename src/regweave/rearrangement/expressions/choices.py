"""Tables of few different values as choices between constants, such as the selectors of byte permutes.

Two values are one choice, by the predicate of the lanes that want the first. A few more are decided lane bit
by lane bit, equal parts once; and where every lane bit flips fixed bits of the answer, those may be put
together by xor, one choice for each lane bit that counts:

    (lane & 1 ? 0x00002222 : 0) ^ (lane & 2 ? 0x00005410 : 0x00007632)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regweave.errors import UnsupportedError
from regweave.machines.gpu import StepCosts
from regweave.rearrangement.expressions.nodes import LANE, Binary, Constant, Expression, Select
from regweave.rearrangement.expressions.predicates import find_predicate
from regweave.rearrangement.expressions.tables import Table

_MOST_VALUES = 4


def chosen_constants(table: Table, costs: StepCosts) -> Iterator[Expression]:
    """Expressions of this kind that compute `table`; none if it has many different values."""
    distinct = np.unique(table.target[table.cares]).tolist()
    if not 2 <= len(distinct) <= _MOST_VALUES:
        return
    if len(distinct) == 2:
        yield from _two(table, distinct[0], distinct[1], costs)
        return
    yield from _decided(table)
    yield from _put_together(table)


def _two(table: Table, low: int, high: int, costs: StepCosts) -> Iterator[Expression]:
    lanes = zip(table.target.tolist(), table.cares.tolist(), strict=True)
    wanted = [value == high if cares else None for value, cares in lanes]
    try:
        predicate = find_predicate(wanted, costs)
    except UnsupportedError:
        return
    sides = Constant(high), Constant(low)
    if predicate.negated:
        sides = sides[1], sides[0]
    yield Select(predicate.expression, predicate.mask, *sides)


def _decided(table: Table) -> Iterator[Expression]:
    """Asking the lane bits that matter, from the highest."""
    values = [int(v) if c else None for v, c in zip(table.target.tolist(), table.cares.tolist(), strict=True)]

    def decide(members: list[int], bit: int) -> Expression | None:
        wanted = {values[lane] for lane in members} - {None}
        if len(wanted) <= 1:
            return Constant(wanted.pop() or 0) if wanted else None
        mask = 1 << bit
        low = decide([lane for lane in members if not lane & mask], bit - 1)
        high = decide([lane for lane in members if lane & mask], bit - 1)
        if low is None or high is None or low == high:
            return high if low is None else low
        return Select(LANE, mask, high, low)

    found = decide(list(range(table.lanes)), max((table.lanes - 1).bit_length() - 1, 0))
    if found is not None:
        yield found


def _put_together(table: Table) -> Iterator[Expression]:
    images = table.images()
    if images is None:
        return
    constant, flips = images
    total: Expression | None = None
    for bit, flipped in flips.items():
        # the first choice takes the constant along
        sides = (flipped, 0) if total is not None else (constant ^ flipped, constant)
        term = Select(LANE, 1 << bit, Constant(sides[0]), Constant(sides[1]))
        total = term if total is None else Binary("xor", total, term)
    if total is not None:
        yield total
