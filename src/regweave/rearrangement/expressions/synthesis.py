"""From a table to the cheapest index expression that computes it.

The table says what each lane needs (None: this lane does not care), the mask which bits matter (an exchange
inside segments of 4 lanes takes its index modulo 4). Five kinds of candidates are made:

- one operation on something known: `f_0 ^ 2`, `lane + 1`, `lane & 28`, and that on one shifted or masked
value;
- *affine* tables, each result bit being the xor of lane bits: the bits are grouped by how far they move, so
  0, 2, 1, 3 becomes `((lane >> 1) & 1) | (lane << 1)`;
- *choices* between few constants: the two selectors of a byte permute are `lane & 4 ? 0x7632 : 0x5410`;
- *look-ups*: all answers packed into 32-bit constants that are rotated by the lane's number;
- two of the values above combined.

The cheapest under the machine's costs wins, plain arithmetic before choices and look-ups. Every candidate is
compared with the table on every lane before it may win. A look-up per result bit fits any table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.machines.gpu import StepCosts
from regweave.rearrangement.expressions.choices import chosen_constants
from regweave.rearrangement.expressions.lookups import packed_lookups
from regweave.rearrangement.expressions.nodes import (
    LANE,
    Binary,
    Constant,
    Expression,
    evaluate,
    expression_cost,
)
from regweave.rearrangement.expressions.pool import Pool, pool_of
from regweave.rearrangement.expressions.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHEAP_ENOUGH = 2  # slots below which no pair of values can do better
# slots up to which arithmetic is preferred to a test and a select
_WORTH_A_CHOICE = 3
# expressions that later ones are derived from: more would make long chains of dependent steps
_MOST_KNOWN = 8
# distances that lane bits move in an expression without look-ups, where look-ups are possible
_MOST_MOVES = 8
# values of a pool, cheapest first, that are tried where many fit
_MOST_TRIED = 4


def synthesise(
    values: Sequence[int | None], mask: int, costs: StepCosts, known: Sequence[Expression] = ()
) -> Expression:
    """The cheapest expression equal to `values[lane]` in every lane that cares, on the bits of `mask`.

    `known` lists expressions that are computed anyway and cost nothing; the first few are used.
    """
    return _synthesise(tuple(values), mask, costs, tuple(known[:_MOST_KNOWN]))


@lru_cache(maxsize=16384)
def _synthesise(
    values: tuple[int | None, ...], mask: int, costs: StepCosts, known: tuple[Expression, ...]
) -> Expression:
    table = Table(values, mask)
    pool = pool_of(known, table.lanes)
    # no single operation brings in bits that no value has
    reached = table.varying < 2 << int(pool.values.max()).bit_length()
    best = _Best(table, costs, known)
    moved = table.moved
    if moved and not (known and table.fits(pool.values[: len(known)]).any()):
        return Binary("xor", LANE, Constant(moved))  # no other operation says it in fewer letters
    if not table.varying:
        return Constant(int(table.target[table.cares][0]) if table.cares.any() else 0)
    if reached:
        best.consider(_last_step(table, pool))
    if best.above(0):
        best.consider(_affine(table))
    if best.above(_WORTH_A_CHOICE):
        best.consider(chosen_constants(table, costs))
    if best.above(_CHEAP_ENOUGH):
        best.consider(packed_lookups(table))
        if reached:
            best.consider(_pairs(table, pool))
    assert best.found is not None, f"a look-up per bit fits {values}"
    return best.found


class _Best:
    """The cheapest expression `found` so far that fits a table; its cost is asked if there are others."""

    def __init__(self, table: Table, costs: StepCosts, known: tuple[Expression, ...]) -> None:
        self._table, self._costs, self._known = table, costs, known
        self.found: Expression | None = None
        self._cost: int | None = None

    def consider(self, expressions: Iterator[Expression]) -> None:
        """Take one of these if it is cheaper, or as cheap and sooner said."""
        for expression in expressions:
            cost = None if self.found is None else self._price(expression)
            if cost is not None and cost > self.cost:
                continue
            if not self._table.fits(evaluate(expression, self._table.lanes)):
                continue
            if self.found is None or cost != self.cost or _length(expression) < _length(self.found):
                self.found, self._cost = expression, cost

    def above(self, slots: int) -> bool:
        """Whether nothing is found yet, or what costs more than so many slots."""
        return self.found is None or self.cost > slots

    @property
    def cost(self) -> int:
        """Slots of what is found."""
        assert self.found is not None
        if self._cost is None:
            self._cost = self._price(self.found)
        return self._cost

    def _price(self, expression: Expression) -> int:
        return expression_cost(expression, self._costs, self._known)


def _length(expression: Expression) -> tuple[int, int]:
    """Look-ups and choices, then letters."""
    text = str(expression)
    return text.count("rotate") + text.count("?"), len(text)


def _last_step(table: Table, pool: Pool) -> Iterator[Expression]:
    """A value of the pool, or one of them and a constant that is solved for; on a sample of the lanes."""
    lanes = table.samples()
    some, values, bases = table.at(lanes), pool.values[:, lanes], pool.bases
    for number in _first(some.fits(values)):
        yield pool[number]
    kept, shared = np.full(len(pool), table.kept), np.full(len(pool), table.shared)
    solved = [("xor", some.uniform(values ^ some.target)),
              ("and", (kept, some.fits(values & np.uint32(table.kept)))),
              ("or", (shared, some.fits(values | np.uint32(table.shared))))]  # fmt: skip
    if table.counts_up:
        solved.append(("add", some.uniform(some.target - values)))
        solved.append(("subtract", some.uniform(some.target + values)))
    for opcode, (constants, fits) in solved:
        for number in _first(fits):
            base, constant = pool[number], Constant(int(constants[number]))
            yield Binary(opcode, constant, base) if opcode == "subtract" else Binary(opcode, base, constant)
    amounts = np.arange(1, max(table.lanes.bit_length(), 2), dtype=np.uint32)[:, None, None]
    # shifting what is shifted and masked already gives nothing new
    for opcode, moved in (
        ("shift_left", values[bases] << amounts),
        ("shift_right", values[bases] >> amounts),
    ):
        for at in np.argwhere(some.fits(moved))[:_MOST_TRIED].tolist():
            yield Binary(opcode, pool[int(bases[at[1]])], Constant(at[0] + 1))


def _first(fits: NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(fits)[:_MOST_TRIED].tolist()


def _pairs(table: Table, pool: Pool) -> Iterator[Expression]:
    """Two values of the pool combined by xor, add or subtract."""
    values, keys = pool.values, table.keys(pool.values)
    order = np.argsort(keys, kind="stable")
    needed = [("xor", values ^ table.target)]
    if table.counts_up:
        needed += [("add", table.target - values), ("subtract", values - table.target)]
    for opcode, others in needed:
        wanted = table.keys(others)
        places = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
        found = np.flatnonzero(keys[places] == wanted)
        for number in found[np.argsort(found + places[found], kind="stable")][:_MOST_TRIED].tolist():
            yield Binary(opcode, pool[number], pool[int(places[number])])


def _affine(table: Table) -> Iterator[Expression]:
    """The xor of lane bits that move: one shift, and perhaps one mask, for each distance."""
    terms = table.affine_terms()
    if terms is None or (len(terms[1]) > _MOST_MOVES and table.lanes <= 64):
        return
    constant, moves = terms
    total: Expression | None = None
    taken = 0
    for distance, bits in sorted(moves.items()):
        opcode = "shift_left" if distance > 0 else "shift_right"
        term: Expression = LANE if distance == 0 else Binary(opcode, LANE, Constant(abs(distance)))
        if np.any(evaluate(term, table.lanes) & np.uint32(table.mask & ~bits)):
            term = Binary("and", term, Constant(bits))
        total = term if total is None else Binary("xor" if taken & bits else "or", total, term)
        taken |= bits
    if total is None:
        return
    yield total if constant == 0 else Binary("xor", total, Constant(constant))
