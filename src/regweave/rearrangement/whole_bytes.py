"""Which bytes of elements travel whole: the search for what turning.py then does with words.

The elements of a byte differ by bits of their row and column, one for each bit of the place within the byte.
A byte can travel whole where both sides hold all that differs by these bits in one lane, whether in bytes or
not; where it is not in bytes there, bytes change places with others first.

    source        places column 0, row 3, column 3     lanes hold rows 3 and 7, columns 0 and 3
    destination   places row 0, row 1, row 2           lanes hold rows 0 to 3 and 7, column 3

Tiles have half a million elements, but mostly a lane holds those of the first one moved by a constant: then
one row tells what the elements of a lane differ by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regweave.layouts import Layout
from regweave.layouts.numbers import divided
from regweave.rearrangement.holders import nearest_holders
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.turning import Swap, Turned

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTE = 8


@lru_cache(maxsize=4)
def turned_bytes(relation: Relation) -> Turned | None:
    """The relation in bytes that travel whole; None where there are no such bytes.

    Both layouts must be bijections whose bytes hold elements that differ by bits of rows and columns.
    """
    source, destination = relation.source, relation.destination
    bits, per_register = destination.element_type.bits, destination.element_type.per_register
    if bits >= _BYTE or relation.packing is not None:
        return None
    if source.items % per_register or destination.items % per_register:
        return None
    if not (source.bijective and destination.bijective):
        return None
    sides = [_side(layout, _BYTE // bits) for layout in (source, destination)]
    halves: tuple[int, ...] = ()
    if sides[0].own is None:
        half = sides[0].halved()
        order = half.pairs()
        if order is None:
            return None
        sides[0], halves = half.paired(order), tuple(order.tolist())
    travelling = _travelling(sides[0], sides[1])
    if travelling is None:
        return None
    turned = [side.swaps(travelling) for side in sides]
    if turned[0] is None or turned[1] is None:
        return None
    (before, sent), (after, taken) = turned[0], turned[1]
    found = Relation(sent, taken, *nearest_holders(sent, taken), None)
    return Turned(found, bits, before, after, halves)


class _Bit(NamedTuple):
    """Bit `bit` of an element's row (axis 0) or column (axis 1)."""

    axis: int
    bit: int

    def offset(self, layout: Layout) -> int:
        """How much further the number of an element is that has it."""
        return (layout.shape[1] if self.axis == 0 else 1) << self.bit

    def of(self, numbers: NDArray[np.int64], layout: Layout) -> NDArray[np.int64]:
        """The bit of elements by their numbers."""
        return divided(numbers, layout.shape[1])[self.axis] >> self.bit & 1


@dataclass(frozen=True, eq=False)
class _Side:
    """A layout whose lanes hold elements in parts of `size`.

    `rows` are those of its lanes, or the first of them where all others hold the same moved by a constant;
    `firsts[lane, part]` is the first element of each part.
    """

    layout: Layout
    size: int
    rows: NDArray[np.int64]
    firsts: NDArray[np.int64]

    @cached_property
    def bits(self) -> list[_Bit]:
        """All bits of rows and columns."""
        shape = self.layout.shape
        return [_Bit(axis, bit) for axis in (0, 1) for bit in range((shape[axis] - 1).bit_length())]

    @cached_property
    def _set(self) -> list[NDArray[np.int64]]:
        """The bits of row and of column that the first element of each part has in some lane."""
        return [np.bitwise_or.reduce(at, axis=0) for at in divided(self.firsts, self.layout.shape[1])]

    @cached_property
    def own(self) -> list[_Bit] | None:
        """The bit that each bit of a place within a part stands for; None if there is none."""
        known = {bit.offset(self.layout): bit for bit in reversed(self.bits)}
        first, further, found = self.rows[0], np.zeros(1, dtype=self.rows.dtype), list[_Bit]()
        for place in range(self.size.bit_length() - 1):
            bit = known.get(int(first[1 << place] - first[0]))
            if bit is None or (self._set[bit.axis] >> bit.bit & 1).any():
                return None
            found.append(bit)
            further = np.concatenate([further, further + bit.offset(self.layout)])
        parts = self.rows.reshape(len(self.rows), -1, self.size)
        return found if (parts - parts[..., :1] == further).all() else None

    @cached_property
    def kept(self) -> list[_Bit]:
        """The bits by which elements may differ in one lane: those of places within parts, and of parts."""
        firsts, found = self.rows[:, :: self.size], list(self.own or ())
        for bit in self.bits:
            pairs = None if bit in found else _partners(firsts, bit, self.layout)
            if pairs is not None and not (self._set[bit.axis][pairs[0]] >> bit.bit & 1).any():
                found.append(bit)
        return found

    def halved(self) -> _Side:
        """The side in parts half as large."""
        size = self.size // 2
        return replace(self, size=size, firsts=np.ascontiguousarray(self.layout.table[:, ::size]))

    def pairs(self) -> NDArray[np.int64] | None:
        """The parts so that two and two differ by a bit; None if that cannot be.

        Of all bits it is that which pairs the most that are neighbours.
        """
        if self.own is None:
            return None
        firsts = self.rows[:, :: self.size]
        pairs = [
            (np.count_nonzero(found[1] == found[0] + 1), -number, bit, found)
            for number, bit in enumerate(self.bits)
            if (found := _partners(firsts, bit, self.layout)) is not None
        ]
        if not pairs:
            return None
        _, _, bit, (low, high) = max(pairs, key=lambda pair: pair[:2])
        # bytes that lie side by side along the bit's axis come from the same words
        at = np.divmod(firsts[0, low], self.layout.shape[1])
        order = np.lexsort((at[bit.axis], at[1 - bit.axis]))
        return np.stack([low[order], high[order]], axis=1).ravel()

    def paired(self, order: NDArray[np.int64]) -> _Side:
        """The side in parts of two of these parts each."""
        items = (order[:, None] * self.size + np.arange(self.size)).ravel()
        return _Side(self.layout, 2 * self.size, self.rows[:, items], self.firsts[:, order[::2]])

    def apart(self, bit: _Bit) -> bool:
        """Whether elements that differ by the bit lie at different places within words."""
        row, layout = self.rows[0], self.layout
        at = np.flatnonzero(row == row[0] + (-1 if bit.of(row[:1], layout)[0] else 1) * bit.offset(layout))
        return int(at[0]) % layout.element_type.per_register != 0

    def swaps(self, travelling: Sequence[_Bit]) -> tuple[tuple[Swap, ...], Layout] | None:
        """What brings the travelling bits into the parts, and the layout of the parts then."""
        few, numbers, found = self.rows[:, :: self.size].copy(), self.firsts.copy(), list[Swap]()
        assert self.own is not None
        for place, (bit, other) in enumerate(zip(self.own, travelling, strict=True)):
            if bit == other:
                continue
            pairs = _partners(few, other, self.layout)
            if pairs is None:
                return None
            low, high = pairs
            for held in (few, numbers):
                held[:, high] = held[:, low] + bit.offset(self.layout)
            found.append(Swap(1 << place, tuple(low.tolist()), tuple(high.tolist())))
        return tuple(found), _of_bytes(self.layout, numbers, travelling)


def _side(layout: Layout, size: int) -> _Side:
    """A layout in parts of `size` items."""
    rows = layout.table[: 1 if layout.uniform else None]
    return _Side(layout, size, rows, np.ascontiguousarray(layout.table[:, ::size]))


def _partners(
    numbers: NDArray[np.int64], bit: _Bit, layout: Layout
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The columns without a bit, and those of the same elements with it; None unless all are such pairs."""
    low = np.flatnonzero(bit.of(numbers[0], layout) == 0)
    if 2 * len(low) != numbers.shape[1]:
        return None
    order = np.argsort(numbers[0])
    at = np.searchsorted(numbers[0], numbers[0, low] + bit.offset(layout), sorter=order)
    high = order[np.minimum(at, len(order) - 1)]
    if (numbers[:, high] != numbers[:, low] + bit.offset(layout)).any():
        return None
    return low, high


def _travelling(source: _Side, destination: _Side) -> list[_Bit] | None:
    """The bits of places within bytes that travel whole: those of the source where that can be."""
    if source.own is None or destination.own is None:
        return None
    common = [bit for bit in source.bits if bit in source.kept and bit in destination.kept]
    found: list[_Bit | None] = [bit if bit in common else None for bit in source.own]
    for place, bit in enumerate(destination.own):
        if found[place] is None and bit in common and bit not in found:
            found[place] = bit
    free = sorted(
        (bit for bit in common if bit not in found),
        key=lambda bit: source.apart(bit) + destination.apart(bit),
    )
    for place, bit in enumerate(found):
        if bit is None:
            if not free:
                return None
            found[place] = free.pop(0)
    return [bit for bit in found if bit is not None]


def _of_bytes(layout: Layout, numbers: NDArray[np.int64], travelling: Sequence[_Bit]) -> Layout:
    """The layout of bytes, by their first elements: the tile without the bits that lie within them."""
    parts, shape = list(divided(numbers, layout.shape[1])), list(layout.shape)
    for axis, bit in sorted(travelling, reverse=True):
        parts[axis] = parts[axis] >> (bit + 1) << bit | parts[axis] & (1 << bit) - 1
        shape[axis] //= 2
    table = parts[0] * shape[1] + parts[1]
    return Layout.derived(layout.name, (shape[0], shape[1]), "b8", table, layout.axes)
