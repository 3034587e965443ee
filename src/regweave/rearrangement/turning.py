"""Elements of less than a byte that travel together, brought into bytes of their own lane by lane.

A byte of eight bits travels whole where one lane wants all of them, side by side. Where that is not so, one
of the three bits of the place within a byte changes places with a bit of the byte's number before the way,
another after it; two words at once in six instructions:

    t = ((low >> 1) ^ high) & 0x55555555     low = low ^ (t << 1)     high = high ^ t

    place 0 1 2 of a source byte    column 0, row 3, column 3     a lane wants one of both columns 0
    travelling                      row 7,    row 3, column 3     all three are wanted by one lane
    a destination byte              row 0, row 1, row 2           after three changes

What travels then is a relation of whole bytes, an eighth of the elements, and no element needs a byte of its
own in memory (spreading.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regweave.layouts import Layout
from regweave.programs import ProgramBuilder
from regweave.rearrangement.holders import nearest_holders
from regweave.rearrangement.networks.assembling import Held, assemble
from regweave.rearrangement.relation import Relation

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTE, _WORD_BYTES = 8, 4
# instructions for two words
SWAP = 6


class Bit(NamedTuple):
    """Bit `bit` of an element's row (axis 0) or column (axis 1)."""

    axis: int
    bit: int

    def offset(self, layout: Layout) -> int:
        """How much further the number of an element is that has it."""
        return (layout.shape[1] if self.axis == 0 else 1) << self.bit

    def of(self, numbers: NDArray[np.int64], layout: Layout) -> NDArray[np.int64]:
        """The bit of elements by their numbers."""
        return np.divmod(numbers, layout.shape[1])[self.axis] >> self.bit & 1

    def keeps_lanes(self, layout: Layout, lane_of: NDArray[np.int16]) -> bool:
        """Whether elements that differ by it alone lie in one lane; `lane_of` is the lane of each element."""
        extent, size = layout.shape[self.axis], 1 << self.bit
        if extent % (2 * size):
            return False
        tile = lane_of.reshape(layout.shape)
        halves = (tile if self.axis else tile.T).reshape(-1, extent // (2 * size), 2, size)
        return bool((halves[:, :, 0] == halves[:, :, 1]).all())


@dataclass(frozen=True, eq=False)
class Swap:
    """Elements `place` apart in bytes `high` change places with those of bytes `low`."""

    place: int
    low: tuple[int, ...]
    high: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Turned:
    """The `relation` of bytes, what is done `before` they travel, and what after, undone from the end.

    Bytes keep their numbers in all swaps; elements have `bits` bits.
    """

    relation: Relation
    bits: int
    before: tuple[Swap, ...]
    after: tuple[Swap, ...]

    @property
    def least(self) -> int:
        """Instructions of all swaps, permutes not counted."""
        return sum(SWAP * -(-len(swap.low) // _WORD_BYTES) for swap in self.before + self.after)

    def sent(self, builder: ProgramBuilder, held: Held) -> Held:
        """The bytes that travel, from the source's."""
        return _swapped(builder, held, self.before, self.bits)

    def taken(self, builder: ProgramBuilder, held: Held) -> Held:
        """The destination's bytes, from those that have travelled."""
        return _swapped(builder, held, self.after[::-1], self.bits)


def _swapped(builder: ProgramBuilder, held: Held, swaps: Iterable[Swap], bits: int) -> Held:
    held = dict(held)
    for swap in swaps:
        distance = bits * swap.place
        part = sum(((1 << bits) - 1) << at for at in range(0, _BYTE, bits) if not at & distance)
        mask, shift = builder.constant(part * 0x01010101), builder.constant(distance)
        rows = [
            [side[first : first + _WORD_BYTES] for first in range(0, len(side), _WORD_BYTES)]
            for side in (swap.low, swap.high)
        ]
        words = assemble(builder, rows[0] + rows[1], held, _BYTE)
        for number, (lows, highs) in enumerate(zip(*rows, strict=True)):
            low, high = words[number], words[number + len(rows[0])]
            moved = builder.step("xor", (builder.step("shift_right", (low, shift)), high))
            changed = builder.step("and", (moved, mask))
            high = builder.step("xor", (high, changed))
            low = builder.step("xor", (low, builder.step("shift_left", (changed, shift))))
            held.update([(at, (low, _BYTE * place)) for place, at in enumerate(lows)])
            held.update([(at, (high, _BYTE * place)) for place, at in enumerate(highs)])
    return held


@lru_cache(maxsize=4)
def turned_bytes(relation: Relation) -> Turned | None:
    """The relation in bytes that travel whole; None where there are no such bytes.

    Both layouts must be bijections whose bytes hold elements that differ by bits of rows and columns.
    """
    source, destination = relation.source, relation.destination
    bits = destination.element_type.bits
    size = destination.element_type.per_register
    if bits >= _BYTE or relation.packing is not None or source.items % size or destination.items % size:
        return None
    if not (source.bijective and destination.bijective):
        return None
    places = [_places(layout, _BYTE // bits) for layout in (source, destination)]
    if places[0] is None or places[1] is None:
        return None
    travelling = _travelling(relation, places[0], places[1])
    if travelling is None:
        return None
    sides = [
        _swaps(layout, own, travelling, _BYTE // bits)
        for layout, own in zip((source, destination), (places[0], places[1]), strict=True)
    ]
    if sides[0] is None or sides[1] is None:
        return None
    layouts = [
        _of_bytes(layout, numbers, travelling)
        for layout, (_, numbers) in zip((source, destination), (sides[0], sides[1]), strict=True)
    ]
    found = Relation(layouts[0], layouts[1], *nearest_holders(layouts[0], layouts[1]), None)
    return Turned(found, bits, sides[0][0], sides[1][0])


def _bits_of(layout: Layout) -> list[Bit]:
    """All bits of rows and columns."""
    return [Bit(axis, bit) for axis in (0, 1) for bit in range((layout.shape[axis] - 1).bit_length())]


def _places(layout: Layout, size: int) -> list[Bit] | None:
    """The bit that each bit of a place within a byte of `size` elements stands for; None if there is none."""
    table = layout.table.reshape(layout.lanes, -1, size)
    known = {bit.offset(layout): bit for bit in reversed(_bits_of(layout))}
    found = []
    for place in range(size.bit_length() - 1):
        bit = known.get(int(table[0, 0, 1 << place] - table[0, 0, 0]))
        if bit is None or bit.of(table[:, :, 0], layout).any():
            return None
        found.append(bit)
    further = sum((np.arange(size) >> place & 1) * bit.offset(layout) for place, bit in enumerate(found))
    return found if bool((table == table[:, :, :1] + further).all()) else None


def _travelling(relation: Relation, sent: Sequence[Bit], wanted: Sequence[Bit]) -> list[Bit] | None:
    """The bits of places within bytes that travel whole: those of the source where that can be."""
    sides = relation.source, relation.destination
    lanes = np.arange(relation.lanes, dtype=np.int16)[:, None]
    lane_of = []
    for layout in sides:
        table = np.empty(layout.elements, dtype=np.int16)
        table[layout.table] = lanes
        lane_of.append(table)
    common = [
        bit
        for bit in _bits_of(relation.source)
        if all(bit.keeps_lanes(layout, table) for layout, table in zip(sides, lane_of, strict=True))
    ]
    found: list[Bit | None] = [bit if bit in common else None for bit in sent]
    for place, bit in enumerate(wanted):
        if found[place] is None and bit in common and bit not in found:
            found[place] = bit
    free = sorted((bit for bit in common if bit not in found), key=lambda bit: _within_words(bit, sides))
    for place, bit in enumerate(found):
        if bit is None:
            if not free:
                return None
            found[place] = free.pop(0)
    return [bit for bit in found if bit is not None]


def _within_words(bit: Bit, sides: Sequence[Layout]) -> int:
    """On how many sides elements that differ by the bit lie at different places within words."""
    count = 0
    for layout in sides:
        row = layout.table[0]
        at = np.flatnonzero(row == row[0] + (-1 if bit.of(row[:1], layout)[0] else 1) * bit.offset(layout))
        count += int(at[0]) % layout.element_type.per_register != 0
    return count


def _swaps(
    layout: Layout, own: Sequence[Bit], travelling: Sequence[Bit], size: int
) -> tuple[tuple[Swap, ...], NDArray[np.int64]] | None:
    """What brings the travelling bits into the bytes, and the number of each byte's first element then."""
    numbers = layout.table[:, ::size].copy()
    swaps = []
    for place, (bit, other) in enumerate(zip(own, travelling, strict=True)):
        if bit == other:
            continue
        low = np.flatnonzero(other.of(numbers[0], layout) == 0)
        order = np.argsort(numbers[0])
        at = np.searchsorted(numbers[0], numbers[0, low] + other.offset(layout), sorter=order)
        high = order[np.minimum(at, len(order) - 1)]
        if (
            2 * len(low) != numbers.shape[1]
            or (numbers[:, high] != numbers[:, low] + other.offset(layout)).any()
        ):
            return None
        numbers[:, high] = numbers[:, low] + bit.offset(layout)
        swaps.append(Swap(1 << place, tuple(low.tolist()), tuple(high.tolist())))
    return tuple(swaps), numbers


def _of_bytes(layout: Layout, numbers: NDArray[np.int64], travelling: Sequence[Bit]) -> Layout:
    """The layout of bytes: the tile without the bits that lie within them."""
    parts, shape = list(np.divmod(numbers, layout.shape[1])), list(layout.shape)
    for axis, bit in sorted(travelling, reverse=True):
        parts[axis] = parts[axis] >> (bit + 1) << bit | parts[axis] & (1 << bit) - 1
        shape[axis] //= 2
    return Layout(layout.name, (shape[0], shape[1]), "b8", parts[0] * shape[1] + parts[1], layout.axes)
