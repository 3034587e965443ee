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

from regweave.programs import OPCODES, ProgramBuilder, Value
from regweave.rearrangement.networks.assembling import Held, assemble
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.spreading import join, spread

_BYTE, _WORD_BYTES = 8, 4
#: Instructions for two words.
SWAP = OPCODES["bit_swap"].instructions


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
        numbers = distance, part * 0x01010101
        rows = [
            [side[first : first + _WORD_BYTES] for first in range(0, len(side), _WORD_BYTES)]
            for side in (swap.low, swap.high)
        ]
        words = _words(builder, rows[0] + rows[1], held)
        for number, (lows, highs) in enumerate(zip(*rows, strict=True)):
            low, high = words[number], words[number + len(rows[0])]
            low, high = builder.apply("bit_swap", (low, high), numbers)
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
