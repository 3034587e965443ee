"""Elements of less than a byte that travel together, brought into bytes of their own lane by lane.

A byte of eight bits travels whole where one lane wants all of them, side by side. Where that is not so, one
of the three bits of the place within a byte changes places with a bit of the byte's number before the way,
another after it; two words at once in six instructions:

    t = ((low >> 1) ^ high) & 0x55555555     low = low ^ (t << 1)     high = high ^ t

    place 0 1 2 of a source byte    column 0, row 3, column 3     a lane wants one of both columns 0
    travelling                      row 7,    row 3, column 3     all three are wanted by one lane
    a destination byte              row 0, row 1, row 2           after three changes

Fragments of an odd number of half-bytes have no such bytes everywhere. There half-bytes are paired first, in
words as spreading.py takes apart and joins.

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
from regweave.layouts.numbers import divided, row_blocks
from regweave.programs import ProgramBuilder, Value
from regweave.rearrangement.holders import nearest_holders
from regweave.rearrangement.networks.assembling import Held, assemble
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.spreading import join, spread

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
        return divided(numbers, layout.shape[1])[self.axis] >> self.bit & 1

    def keeps_lanes(self, layout: Layout, lane_of: NDArray[np.int32]) -> bool:
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

    Bytes keep their numbers in all swaps; elements have `bits` bits. Where half-bytes must be paired first,
    `halves` are those of the source in the order in which they make its bytes.
    """

    relation: Relation
    bits: int
    before: tuple[Swap, ...]
    after: tuple[Swap, ...]
    halves: tuple[int, ...] = ()

    @property
    def least(self) -> int:
        """Instructions of all swaps, permutes not counted."""
        return sum(SWAP * -(-len(swap.low) // _WORD_BYTES) for swap in self.before + self.after)

    def sent(self, builder: ProgramBuilder, held: Held) -> Held:
        """The bytes that travel, from the source's."""
        given = _paired(builder, held, self.halves) if self.halves else held
        return _swapped(builder, given, self.before, self.bits)

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
        words = _words(builder, rows[0] + rows[1], held)
        for number, (lows, highs) in enumerate(zip(*rows, strict=True)):
            low, high = words[number], words[number + len(rows[0])]
            moved = builder.step("xor", (builder.step("shift_right", (low, shift)), high))
            changed = builder.step("and", (moved, mask))
            high = builder.step("xor", (high, changed))
            low = builder.step("xor", (low, builder.step("shift_left", (changed, shift))))
            held.update([(at, (low, _BYTE * place)) for place, at in enumerate(lows)])
            held.update([(at, (high, _BYTE * place)) for place, at in enumerate(highs)])
    return held


def _words(builder: ProgramBuilder, rows: Sequence[Sequence[int]], held: Held) -> list[Value]:
    """The words of these bytes; what a permute of two words makes is nothing to search for together."""
    few = [len({held[byte][0] for byte in row}) <= 2 for row in rows]
    parts = {
        alike: iter(
            assemble(
                builder, [row for row, is_few in zip(rows, few, strict=True) if is_few == alike], held, _BYTE
            )
        )
        for alike in (True, False)
    }
    return [next(parts[is_few]) for is_few in few]


def _paired(builder: ProgramBuilder, held: Held, halves: Sequence[int]) -> Held:
    """The bytes of half-bytes in this order; neighbours are bytes of a word, or of one half a byte on."""
    pairs = list(zip(halves[::2], halves[1::2], strict=True))
    further: dict[int, Value] = {}
    made: Held = {}
    for byte, (low, high) in enumerate(pairs):
        word, place = divmod(low, 2 * _WORD_BYTES)
        if high == low + 1 and low % 2 == 0:
            made[byte] = held[low // 2]
        elif high == low + 1:
            if word not in further:
                further[word] = _half_further(builder, held, word)
            made[byte] = further[word], place // 2 * _BYTE
    apart = [byte for byte in range(len(pairs)) if byte not in made]
    pieces: Held = {}
    for word in sorted({half // (2 * _WORD_BYTES) for byte in apart for half in pairs[byte]}):
        for odd, piece in enumerate(spread(builder, held[_WORD_BYTES * word][0], _BYTE // 2)):
            pieces.update([(8 * word + 2 * at + odd, (piece, _BYTE * at)) for at in range(_WORD_BYTES)])
    rows = [apart[first : first + _WORD_BYTES] for first in range(0, len(apart), _WORD_BYTES)]
    parts = iter(assemble(builder, [[pairs[at][odd] for at in row] for row in rows for odd in (0, 1)],
                          pieces, _BYTE))  # fmt: skip
    for row in rows:
        value = join(builder, (next(parts), next(parts)), _BYTE // 2)
        made.update([(byte, (value, _BYTE * at)) for at, byte in enumerate(row)])
    return made


def _half_further(builder: ProgramBuilder, held: Held, word: int) -> Value:
    """The word that begins half a byte after this one."""
    half, rest = builder.constant(_BYTE // 2), builder.constant(8 * _WORD_BYTES - _BYTE // 2)
    value = builder.step("shift_right", (held[_WORD_BYTES * word][0], half))
    following = held.get(_WORD_BYTES * (word + 1))
    if following is None:
        return value
    return builder.step("or", (value, builder.step("shift_left", (following[0], rest))))


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
    halves = None if _places(source, _BYTE // bits) else _halves(source, _BYTE // bits // 2)
    if halves is not None:
        items = halves[:, None] * (_BYTE // bits // 2) + np.arange(_BYTE // bits // 2)
        table = source.table[:, items.ravel()]
        source = Layout.derived(source.name, source.shape, source.dtype, table, source.axes)
    places = [_places(layout, _BYTE // bits) for layout in (source, destination)]
    if places[0] is None or places[1] is None:
        return None
    travelling = _travelling((source, destination), places[0], places[1])
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
    first = () if halves is None else tuple(halves.tolist())
    return Turned(found, bits, sides[0][0], sides[1][0], first)


def _halves(layout: Layout, size: int) -> NDArray[np.int64] | None:
    """The half-bytes, of `size` elements each, so that two and two differ by a bit; None if that cannot be.

    Of all bits it is that which pairs the most that are neighbours.
    """
    if _places(layout, size) is None:
        return None
    numbers = layout.table[:, ::size]
    pairs = [
        (np.count_nonzero(found[1] == found[0] + 1), -number, bit, found)
        for number, bit in enumerate(_bits_of(layout))
        if (found := _partners(numbers, bit, layout)) is not None
    ]
    if not pairs:
        return None
    _, _, bit, (low, high) = max(pairs, key=lambda pair: pair[:2])
    # bytes that lie side by side along the bit's axis come from the same words
    at = np.divmod(numbers[0, low], layout.shape[1])
    order = np.lexsort((at[bit.axis], at[1 - bit.axis]))
    return np.stack([low[order], high[order]], axis=1).ravel()


def _partners(
    numbers: NDArray[np.int64], bit: Bit, layout: Layout
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The columns without a bit, and those of the same elements with it; None unless all are such pairs."""
    low = np.flatnonzero(bit.of(numbers[0], layout) == 0)
    order = np.argsort(numbers[0])
    at = np.searchsorted(numbers[0], numbers[0, low] + bit.offset(layout), sorter=order)
    high = order[np.minimum(at, len(order) - 1)]
    together = 2 * len(low) == numbers.shape[1]
    if not together or (numbers[:, high] != numbers[:, low] + bit.offset(layout)).any():
        return None
    return low, high


def _bits_of(layout: Layout) -> list[Bit]:
    """All bits of rows and columns."""
    return [Bit(axis, bit) for axis in (0, 1) for bit in range((layout.shape[axis] - 1).bit_length())]


def _places(layout: Layout, size: int) -> list[Bit] | None:
    """The bit that each bit of a place within a byte of `size` elements stands for; None if there is none."""
    known = {bit.offset(layout): bit for bit in reversed(_bits_of(layout))}
    first, parts = layout.table[0], divided(layout.table[:, ::size], layout.shape[1])
    found = []
    for place in range(size.bit_length() - 1):
        bit = known.get(int(first[1 << place] - first[0]))
        if bit is None or (parts[bit.axis] >> bit.bit & 1).any():
            return None
        found.append(bit)
    further = np.zeros(1, dtype=layout.table.dtype)
    for bit in found:
        further = np.concatenate([further, further + bit.offset(layout)])
    for some in row_blocks(layout.table):
        held = np.ascontiguousarray(layout.table[some].reshape(-1, size).T)
        if (held - held[0] != further[:, None]).any():
            return None
    return found


def _travelling(sides: Sequence[Layout], sent: Sequence[Bit], wanted: Sequence[Bit]) -> list[Bit] | None:
    """The bits of places within bytes that travel whole: those of the source where that can be."""
    kept = [_kept_lanes(layout, own) for layout, own in zip(sides, (sent, wanted), strict=True)]
    common = [bit for bit in _bits_of(sides[0]) if bit in kept[0] and bit in kept[1]]
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


def _kept_lanes(layout: Layout, own: Sequence[Bit]) -> set[Bit]:
    """The bits by which elements may differ in one lane: those of places within bytes, and those of bytes."""
    held = _of_bytes(layout, layout.table[:, :: 1 << len(own)], own)
    lane_of = np.empty(held.elements, dtype=np.int32)
    lane_of[held.table] = np.arange(held.lanes)[:, None]
    found = set(own)
    for axis in (0, 1):
        others = [Bit(axis, bit) for bit in range((layout.shape[axis] - 1).bit_length())]
        others = [bit for bit in others if bit not in own]
        # a byte's number has one place less for each bit that lies within bytes
        found.update(bit for place, bit in enumerate(others) if Bit(axis, place).keeps_lanes(held, lane_of))
    return found


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
        found = _partners(numbers, other, layout)
        if found is None:
            return None
        low, high = found
        numbers[:, high] = numbers[:, low] + bit.offset(layout)
        swaps.append(Swap(1 << place, tuple(low.tolist()), tuple(high.tolist())))
    return tuple(swaps), numbers


def _of_bytes(layout: Layout, numbers: NDArray[np.int64], travelling: Sequence[Bit]) -> Layout:
    """The layout of bytes: the tile without the bits that lie within them."""
    parts, shape = list(divided(numbers, layout.shape[1])), list(layout.shape)
    for axis, bit in sorted(travelling, reverse=True):
        parts[axis] = parts[axis] >> (bit + 1) << bit | parts[axis] & (1 << bit) - 1
        shape[axis] //= 2
    table = parts[0] * shape[1] + parts[1]
    return Layout.derived(layout.name, (shape[0], shape[1]), "b8", table, layout.axes)
