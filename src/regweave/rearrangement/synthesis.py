"""From a table to the cheapest index expression that computes it.

The table says what each lane needs (None: this lane does not care), the mask which bits matter (an exchange
inside segments of 4 lanes takes its index modulo 4). Four kinds of candidates are made:

- one operation on something known: `f_0 ^ 2`, `lane + 1`, `lane & 28`, and that on one shifted or masked
value;
- *affine* tables, each result bit being the xor of lane bits: the bits are grouped by how far they move, so
  0, 2, 1, 3 becomes `((lane >> 1) & 1) | (lane << 1)`;
- *look-ups*: all answers packed into one 32-bit constant that is rotated by the lane's number;
- two of the values above combined.

The cheapest under the machine's costs wins, plain arithmetic before look-ups. Every candidate is compared
with the table on every lane before it may win. A look-up per result bit fits any table of up to 32 lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import UnsupportedError, VerificationError
from regweave.machines.gpu import StepCosts
from regweave.rearrangement.expressions import (
    LANE,
    Binary,
    Constant,
    Expression,
    evaluate,
    expression_cost,
)
from regweave.rearrangement.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHEAP_ENOUGH = 2  # slots below which no pair of values can do better
_LOOKUP_WIDTHS = (1, 2, 4, 8, 16)


def synthesise(
    values: Sequence[int | None], mask: int, costs: StepCosts, known: Sequence[Expression] = ()
) -> Expression:
    """The cheapest expression equal to `values[lane]` in every lane that cares, on the bits of `mask`.

    `known` lists expressions that are computed anyway and cost nothing. Raises UnsupportedError for more than
    32 lanes where no arithmetic fits, since packed look-ups hold 32 bits.
    """
    return _synthesise(tuple(values), mask, costs, tuple(known))


@lru_cache(maxsize=4096)
def _synthesise(
    values: tuple[int | None, ...], mask: int, costs: StepCosts, known: tuple[Expression, ...]
) -> Expression:
    table = Table(values, mask)
    shifted, shifted_values = _shifted(table.lanes)
    pool = (*known, *shifted)
    pool_values = np.concatenate([*(evaluate(entry, table.lanes)[None] for entry in known), shifted_values])
    best: tuple[tuple[int, int, int], Expression] | None = None
    for make in (_last_step, _affine, _lookup, _pairs):
        if make is _pairs and best is not None and best[0][0] <= _CHEAP_ENOUGH:
            break
        for expression in make(table, pool, pool_values):
            text = str(expression)
            score = expression_cost(expression, costs, known), text.count("rotate"), len(text)
            if best is None or score < best[0]:
                best = score, expression
    if best is None:
        raise UnsupportedError(f"no index expression for a table of {len(values)} lanes", where=str(values))
    if not table.fits(evaluate(best[1], len(values))):
        raise VerificationError(f"{best[1]} does not compute its table", where=str(values))
    return best[1]


def _last_step(table: Table, pool: Sequence[Expression], values: NDArray[Any]) -> Iterator[Expression]:
    """A constant, a value of the pool, or one of them and a constant that is solved for."""
    constants, uniform = table.uniform(table.target[None])
    if uniform[0]:
        yield Constant(int(constants[0]))
    for number in np.flatnonzero(table.fits(values)).tolist():
        yield pool[number]
    solved = [("xor", table.uniform(values ^ table.target)), ("and", table.kept_bits(values)),
              ("or", table.set_bits(values))]  # fmt: skip
    if table.counts_up:
        solved.append(("add", table.uniform(table.target - values)))
        solved.append(("subtract", table.uniform(table.target + values)))
    for opcode, (constants, fits) in solved:
        for number in np.flatnonzero(fits).tolist():
            base, constant = pool[number], Constant(int(constants[number]))
            yield Binary(opcode, constant, base) if opcode == "subtract" else Binary(opcode, base, constant)
    for amount in range(1, max(table.lanes.bit_length(), 2)):
        for opcode, moved in (
            ("shift_left", values << np.uint32(amount)),
            ("shift_right", values >> np.uint32(amount)),
        ):
            for number in np.flatnonzero(table.fits(moved)).tolist():
                yield Binary(opcode, pool[number], Constant(amount))


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
    for entry in entries:
        found.setdefault(evaluate(entry, lanes).tobytes(), entry)
    return tuple(found.values()), np.stack([np.frombuffer(key, dtype=np.uint32) for key in found])


def _runs(bits: int) -> list[int]:
    """All masks of neighbouring ones within `bits` bits."""
    return [((1 << length) - 1) << low for length in range(1, bits + 1) for low in range(bits - length + 1)]


def _pairs(table: Table, pool: Sequence[Expression], values: NDArray[Any]) -> Iterator[Expression]:
    """Two values of the pool combined by xor, add or subtract."""
    keys = dict(zip(reversed(table.keys(values)), reversed(range(len(pool))), strict=True))
    needed = [("xor", values ^ table.target)]
    if table.counts_up:
        needed += [("add", table.target - values), ("subtract", values - table.target)]
    for opcode, others in needed:
        for number, key in enumerate(table.keys(others)):
            if key in keys:
                yield Binary(opcode, pool[number], pool[keys[key]])


def _affine(table: Table, pool: Sequence[Expression], values: NDArray[Any]) -> Iterator[Expression]:
    """The xor of lane bits that move: one shift, and perhaps one mask, for each distance."""
    terms = table.affine_terms()
    if terms is None:
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


def _lookup(table: Table, pool: Sequence[Expression], values: NDArray[Any]) -> Iterator[Expression]:
    """Fields of `width` bits, one per lane, in a constant that the lane rotates into place."""
    if table.lanes > 32:
        return
    for width in _LOOKUP_WIDTHS:
        fields = table.fields(width)
        if fields is None:
            continue
        amount = LANE if width == 1 else Binary("shift_left", LANE, Constant(width.bit_length() - 1))
        total: Expression | None = None
        for place, packed in fields.items():
            # rotated left by its place beforehand, the field arrives where it belongs
            ready = (packed << place | packed >> (32 - place)) & 0xFFFFFFFF if place else packed
            term: Expression = Binary("rotate_right", Constant(ready), amount)
            kept = ((1 << width) - 1) << place
            if table.mask & ~kept:
                term = Binary("and", term, Constant(kept))
            total = term if total is None else Binary("or", total, term)
        if total is not None:
            yield total
