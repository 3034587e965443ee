"""Packed look-ups: the answers of all lanes in 32-bit constants that the lane's number rotates into place.

Sixteen answers of two bits fill a word, so 2, 0, 1, 2 is `rotate_right(0x92929292, lane << 1)` modulo 4.
Where one word is too short, lane bits choose among several: 64 lanes with one bit each are

    rotate_right(lane & 32 ? 0x00f00000 : 0x00001234, lane) & 1

Wider answers are put together from several look-ups. One of one bit per result bit fits any table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from regweave.rearrangement.expressions.nodes import LANE, Binary, Constant, Expression, Select
from regweave.rearrangement.expressions.tables import Table

_WIDTHS = (1, 2, 4, 8, 16)


def packed_lookups(table: Table) -> Iterator[Expression]:
    """Expressions of this kind that compute `table`."""
    bits = max(table.mask.bit_length(), 1)
    tried: set[int] = set()
    needed = max(table.period // 32, 2)  # one bit for each lane
    for words in (1, 2) if needed == 2 else (needed,):
        fitting = [width for width in _WIDTHS if width * table.period <= 32 * words]
        if fitting:
            # the narrowest field that needs no more look-ups than the widest that fits, and a plain rotation
            fewest = -(-bits // fitting[-1])
            tried |= {next(width for width in fitting if -(-bits // width) == fewest), fitting[0]}
    for width in sorted(tried):
        words = max(width * table.period // 32, 1)
        yield _lookup(table, width, table.fields(width, words))


def bit_lookup(members: int, lanes: int) -> Expression:
    """An expression whose lowest bit is bit `lane` of `members`, for up to 64 lanes."""
    low, high = Constant(members & 0xFFFFFFFF), Constant(members >> 32)
    word = low if lanes <= 32 or low == high else Select(LANE, 32, high, low)
    return Binary("rotate_right", word, LANE)


def _lookup(table: Table, width: int, fields: dict[int, tuple[int, ...]]) -> Expression:
    total: Expression | None = None
    for place, packed in fields.items():
        kept = ((1 << width) - 1) << place
        term = _field(width, place, packed, whole=not table.mask & ~kept)
        total = term if total is None else Binary("or", total, term)
    assert total is not None
    return total


@lru_cache(maxsize=1024)
def _field(width: int, place: int, packed: tuple[int, ...], *, whole: bool) -> Expression:
    """One field of the answers where it belongs; `whole` if nothing else matters. Tables often share some."""
    amount = LANE if width == 1 else Binary("shift_left", LANE, Constant(width.bit_length() - 1))
    # rotated left by its place beforehand, the field arrives where it belongs
    ready = [Constant((word << place | word >> (32 - place)) & 0xFFFFFFFF) for word in packed]
    term = Binary("rotate_right", _chosen(ready, 32 // width), amount)
    return term if whole else Binary("and", term, Constant(((1 << width) - 1) << place))


def _chosen(words: Sequence[Expression], bit: int) -> Expression:
    """The word of each lane: bit `bit` of its number and those above it say which."""
    if len(set(words)) == 1:
        return words[0]
    return _chosen([
        odd if even == odd else Select(LANE, bit, odd, even)
        for even, odd in zip(words[::2], words[1::2], strict=True)
    ], 2 * bit)  # fmt: skip
