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
from typing import TYPE_CHECKING, Any

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
    shifted, shifted_values = _shifted(table.lanes)
    pool, pool_values = shifted, shifted_values
    if known:
        pool, pool_values = (*known, *shifted), np.concatenate([_stack(known, table.lanes), shifted_values])
    # no single operation brings in bits that no value has
    reached = table.varying < 2 << int(pool_values.max()).bit_length()
    best: tuple[tuple[int, int, int], Expression] | None = None

    def consider(expressions: Iterator[Expression]) -> None:
        nonlocal best
        for expression in expressions:
            cost = expression_cost(expression, costs, known)
            if (best is None or cost <= best[0][0]) and table.fits(evaluate(expression, table.lanes)):
                text = str(expression)
                score = cost, text.count("rotate") + text.count("?"), len(text)
                if best is None or score < best[0]:
                    best = score, expression

    moved = table.moved
    if moved and not (known and table.fits(_stack(known, table.lanes)).any()):
        return Binary("xor", LANE, Constant(moved))  # no other operation says it in fewer letters
    if not table.varying:
        return Constant(int(table.target[table.cares][0]) if table.cares.any() else 0)
    if reached:
        consider(_last_step(table, pool, pool_values))
    if best is None or best[0][0] > 0:
        consider(_affine(table))
    if best is None or best[0][0] > _WORTH_A_CHOICE:
        consider(chosen_constants(table, costs))
    if best is None or best[0][0] > _CHEAP_ENOUGH:
        consider(packed_lookups(table))
        if reached:
            consider(_pairs(table, pool, pool_values))
    assert best is not None, f"a look-up per bit fits {values}"
    return best[1]


@lru_cache(maxsize=1024)
def _stack(known: tuple[Expression, ...], lanes: int) -> NDArray[Any]:
    return np.stack([evaluate(entry, lanes) for entry in known])


def _last_step(table: Table, pool: Sequence[Expression], values: NDArray[Any]) -> Iterator[Expression]:
    """A value of the pool, or one of them and a constant that is solved for; on a sample of the lanes."""
    lanes = table.samples()
    some, values = table.at(lanes), values[:, lanes]
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
    bases = np.array([at for at, entry in enumerate(pool) if not _is_masked(entry)])
    for opcode, moved in (
        ("shift_left", values[bases] << amounts),
        ("shift_right", values[bases] >> amounts),
    ):
        for at in np.argwhere(some.fits(moved))[:_MOST_TRIED].tolist():
            yield Binary(opcode, pool[int(bases[at[1]])], Constant(at[0] + 1))


def _is_masked(entry: Expression) -> bool:
    return isinstance(entry, Binary) and entry.opcode == "and"


def _first(fits: NDArray[np.bool_]) -> list[int]:
    return np.flatnonzero(fits)[:_MOST_TRIED].tolist()


@lru_cache(maxsize=8)
def _shifted(lanes: int) -> tuple[tuple[Expression, ...], NDArray[Any]]:
    """The lane itself, shifted, masked, both, or with a constant added; and the values of all these."""
    bits = max((lanes - 1).bit_length(), 1)
    entries: list[Expression] = [LANE]
    for amount in range(1, bits):
        entries += [Binary(opcode, LANE, Constant(amount)) for opcode in ("shift_left", "shift_right")]
    entries += [
        Binary("and", base, Constant(kept)) for base in tuple(entries) for kept in _runs(2 * bits - 1)
    ]
    entries += [Binary("add", LANE, Constant(amount)) for amount in range(1, lanes)]
    found: dict[bytes, Expression] = {}
    for entry in sorted(entries, key=lambda entry: (str(entry).count(" "), len(str(entry)))):
        found.setdefault(evaluate(entry, lanes).tobytes(), entry)
    return tuple(found.values()), np.stack([np.frombuffer(key, dtype=np.uint32) for key in found])


def _runs(bits: int) -> list[int]:
    """All masks of neighbouring ones within `bits` bits."""
    return [((1 << length) - 1) << low for length in range(1, bits + 1) for low in range(bits - length + 1)]


def _pairs(table: Table, pool: Sequence[Expression], values: NDArray[Any]) -> Iterator[Expression]:
    """Two values of the pool combined by xor, add or subtract."""
    keys = table.keys(values)
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
