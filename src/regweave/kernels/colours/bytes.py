"""Interleaved bytes to one f32 vector per channel and back, one or two tiles at a time, of a pixel per lane.

Three channels of four pixels are three words of 32 bits. One pick of words gives every 128 bits of a vector
four pixels, then shuffles inside 128 bits do the rest:

    in memory          r0 g0 b0 r1  g1 b1 r2 g2  b2 r3 g3 b3 | r4 ...
    words, by 128 bits r0 g0 b0 r1  g1 b1 r2 g2  b2 r3 g3 b3  .  .  .  .    r4 g4 ...
    green              g0 0 0 0  g1 0 0 0  g2 0 0 0  g3 0 0 0               g4 0 0 0 ...

Back: sums become whole numbers, are packed with saturation to four bytes of each result in every 128 bits,
shuffled into the order of pixels, and the words are picked together. Numbers beyond 65535 count as that
much, so that no conversion overflows (unless it is known that none is as large); a NaN becomes 0.

Two tiles at a time share what one leaves unused, where a vector is 64 bytes: of three channels the tiles lie
in bytes 0 and 16 of loads at 0 and 32, so that none needs a third part put in; four sums fill the 128 bits
that a pack gives, be they of one tile or of two:

    packed, by 128 bits, of two results   a0 a0 a0 a0  a1 a1 a1 a1  b0 b0 b0 b0  b1 b1 b1 b1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.machines.instructions import Pattern

_WORDS = 4  # of 128 bits, and bytes of a word
_PAIR = 2  # tiles at a time where there are more than one
_SECOND = 32  # where the load of a second tile of three channels begins
#: A byte that a shuffle leaves zero.
_ZERO = 0x80
_MOST = 65535.0

# exactly the bytes of a tile's pixels, by channels; `behind` is where the last third is of three channels
_LOADS = {
    "avx512": {
        1: Pattern("d:v from:a", "vmovdqu %=0:x, xmmword ptr %1"),
        2: Pattern("d:v from:a", "vmovdqu %=0:y, ymmword ptr %1"),
        3: Pattern(
            "d:v from:a behind:a",
            ("vmovdqu %=0:y, ymmword ptr %1", "vinserti32x4 %+0, %+0, xmmword ptr %2, 2"),
        ),
        4: Pattern("d:v from:a", "vmovdqu32 %=0, zmmword ptr %1"),
    },
    "avx2": {
        1: Pattern("d:v from:a", "vmovq %=0:x, qword ptr %1"),
        2: Pattern("d:v from:a", "vmovdqu %=0:x, xmmword ptr %1"),
        3: Pattern(
            "d:v from:a behind:a ~t:v",
            ("vmovq %=3:x, qword ptr %2", "vmovdqu %=0:x, xmmword ptr %1", "vinserti128 %+0, %+0, %3:x, 1"),
        ),
        4: Pattern("d:v from:a", "vmovdqu %=0, ymmword ptr %1"),
    },
}
_STORES = {
    "avx512": {
        1: Pattern("to:a x:v", "vmovdqu xmmword ptr %0, %1:x"),
        2: Pattern("to:a x:v", "vmovdqu ymmword ptr %0, %1:y"),
        3: Pattern(
            "to:a behind:a x:v",
            ("vmovdqu ymmword ptr %0, %2:y", "vextracti32x4 xmmword ptr %1, %2, 2"),
        ),
        4: Pattern("to:a x:v", "vmovdqu32 zmmword ptr %0, %1"),
    },
    "avx2": {
        1: Pattern("to:a x:v", "vmovq qword ptr %0, %1:x"),
        2: Pattern("to:a x:v", "vmovdqu xmmword ptr %0, %1:x"),
        3: Pattern(
            "to:a behind:a x:v ~t:v",
            ("vextracti128 %=3:x, %2, 1", "vmovdqu xmmword ptr %0, %2:x", "vmovq qword ptr %1, %3:x"),
        ),
        4: Pattern("to:a x:v", "vmovdqu ymmword ptr %0, %1"),
    },
}
_STORE_HALF = Pattern("to:a x:v", "vmovdqu64 ymmword ptr %0, %1:y")
_PICK_WORDS = Pattern("d:v index:v a:v", "vpermd %=0, %1, %2")
_PICK_LOADED = Pattern("d:v index:v from:a", "vpermd %=0, %1, zmmword ptr %2")
_PICK_BOTH = Pattern("d:v index:v a:v b:v", ("vmovdqa64 %=0, %2", "vpermt2d %+0, %1, %3"))
_SPREAD = Pattern("d:v a:v mask:v|m", ("vpshufb %=0, %1, %2", "vcvtdq2ps %+0, %+0"))
_WHOLE = Pattern("d:v most:v a:v", ("vminps %=0, %1, %2", "vcvtps2dq %+0, %+0"))
_ROUND = Pattern("d:v a:v", "vcvtps2dq %=0, %1")
_TO_WORDS = Pattern("d:v a:v b:v", "vpackssdw %=0, %1, %2")
_TO_BYTES = Pattern("d:v a:v b:v", "vpackuswb %=0, %1, %2")
_SHUFFLE = Pattern("d:v a:v mask:v|m", "vpshufb %=0, %1, %2")


class ByteReader:
    """Loads tiles of `channels` interleaved bytes, one or two at a time. Made before the loop: it holds what
    shuffles are told."""

    def __init__(self, b: Builder, channels: int, tiles: int = 1) -> None:
        self.b, self.channels, self.tiles = b, channels, tiles
        self.whole = tiles == _PAIR and channels == _WORDS - 1
        lanes = b.machine.lanes
        quarters = lanes // _WORDS
        words = np.arange(_WORDS)
        # words of the 128 bits beyond those that pixels fill hold whatever there is
        picked = np.minimum(channels * np.arange(quarters)[:, None] + words, lanes - 1)
        starts = (0, _WORDS) if self.whole else (0,)
        self.words = [
            _held(b, np.minimum(picked + start, lanes - 1).astype(np.uint32))
            for start in starts
            if channels < _WORDS
        ]
        self.masks = []
        for k in range(channels):
            mask = np.full((_WORDS, 4), _ZERO, np.uint8)
            mask[:, 0] = channels * words + k
            self.masks.append(_place(b, np.tile(mask, (quarters, 1))))

    def load(self, source: Variable) -> list[Variable]:
        """The bytes of the tiles."""
        b, loaded = self.b, self.b.vectors("bytes", self.tiles)
        pattern = _LOADS[b.machine.name][self.channels]
        for tile, vector in enumerate(loaded):
            if self.whole:
                b.emit_template(_PICK_LOADED, vector, self.words[tile], b.at(source, tile * _SECOND))
            else:
                at = tile * self.channels * b.machine.lanes
                b.emit_template(pattern, vector, *_places(b, source, self.channels, at))
        return loaded

    def planes(self, loaded: Variable) -> list[Variable]:
        """One vector per channel of a tile."""
        b = self.b
        if self.words and not self.whole:
            spread = b.vector("spread")
            b.emit_template(_PICK_WORDS, spread, self.words[0], loaded)
            loaded = spread
        found = b.vectors("channel", self.channels)
        for plane, mask in zip(found, self.masks, strict=True):
            b.emit_template(_SPREAD, plane, loaded, mask)
        return found


class ByteWriter:
    """Stores tiles of `results` interleaved bytes, one or two at a time; `bounded` says that no sum is as
    large as 2 ** 31."""

    def __init__(self, b: Builder, results: int, tiles: int = 1, *, bounded: bool = False) -> None:
        self.b, self.results, self.tiles = b, results, tiles
        #: tiles whose sums are packed together
        self.together = tiles if tiles * results <= _WORDS else 1
        self.shared = tiles > self.together and results < _WORDS
        first = [*range(results)]
        self.masks = [self._mask(self.together, first)]
        if self.shared:  # the second tile's last sums stand behind those of the first
            self.masks.append(self._mask(1, [*first[:-1], results]))
        self.words: list[Variable] = []
        if results < _WORDS:
            order = self._order(self.together)
            parts = (order, _turned(order, b.machine.lanes)) if self.shared else (order,)
            self.words = [_held(b, part.astype(np.uint32)) for part in parts]
        self.most = None
        if not bounded:
            self.most = b.vector("most")
            b.emit("broadcast", self.most, b.constant(_MOST))

    def _mask(self, tiles: int, sums: Sequence[int]) -> Memory | None:
        """Bytes in the order of pixels, of sums that stand by fours in every 128 bits; None if they do so."""
        if len(sums) == 1:
            return None
        mask = np.full(4 * _WORDS, _ZERO, np.uint8)
        for tile in range(tiles):
            for pixel in range(_WORDS):
                for n, place in enumerate(sums):
                    at = (tile * _WORDS + pixel) * self.results + n
                    mask[at] = _WORDS * (tile * self.results + place) + pixel
        return _place(self.b, np.tile(mask, self.b.machine.lanes // _WORDS))

    def _order(self, tiles: int) -> np.ndarray:
        """Words of the tiles one after the other; as many as a vector has, zeros behind."""
        lanes = self.b.machine.lanes
        per_tile = self.results * lanes // _WORDS
        word = np.arange(tiles * per_tile)
        tile, inside = word // per_tile, word % per_tile
        found = np.zeros(lanes, np.int64)
        found[: len(word)] = inside // self.results * _WORDS + tile * self.results + inside % self.results
        return found

    def store(self, target: Variable, sums: Sequence[Sequence[Variable]]) -> None:
        """The tiles' results, rounded to even and clamped to 0 .. 255."""
        whole = [[self._whole(value) for value in tile] for tile in sums]
        if self.shared:
            self._store_shared(target, *whole)
            return
        step = self.results * self.b.machine.lanes
        for first in range(0, self.tiles, self.together):
            packed = [value for tile in whole[first : first + self.together] for value in tile]
            ordered = self._shuffled(self._packed(packed), 0)
            if self.words:
                ordered = self._made(_PICK_WORDS, self.words[0], ordered)
            self._store(target, first * step, ordered)

    def _store_shared(self, target: Variable, first: Sequence[Variable], second: Sequence[Variable]) -> None:
        """Two tiles of three results: the last ones of both are packed together."""
        b, both = self.b, self._made(_TO_WORDS, first[-1], second[-1])
        tiles = [
            self._shuffled(self._made(_TO_BYTES, self._made(_TO_WORDS, *tile[:-1]), both), n)
            for n, tile in enumerate((first, second))
        ]
        front = self._made(_PICK_BOTH, self.words[0], *tiles)
        behind = self._made(_PICK_WORDS, self.words[1], tiles[1])
        b.emit_template(_STORES[b.machine.name][_WORDS], b.at(target), front)
        b.emit_template(_STORE_HALF, b.at(target, b.machine.vector_bytes), behind)

    def _store(self, target: Variable, at: int, ordered: Variable) -> None:
        """Bytes of the tiles that were packed together."""
        b, channels = self.b, self.together * self.results
        b.emit_template(_STORES[b.machine.name][channels], *_places(b, target, channels, at), ordered)

    def _whole(self, value: Variable) -> Variable:
        if self.most is None:
            return self._made(_ROUND, value)
        return self._made(_WHOLE, self.most, value)

    def _packed(self, sums: Sequence[Variable]) -> Variable:
        """Four bytes of each of up to four sums in every 128 bits."""
        low = self._made(_TO_WORDS, sums[0], sums[min(1, len(sums) - 1)])
        high = self._made(_TO_WORDS, sums[2], sums[-1]) if len(sums) > _PAIR else low
        return self._made(_TO_BYTES, low, high)

    def _shuffled(self, packed: Variable, number: int) -> Variable:
        mask = self.masks[number]
        return packed if mask is None else self._made(_SHUFFLE, packed, mask)

    def _made(self, pattern: Pattern, *operands: Variable | Memory) -> Variable:
        """A new vector that an instruction writes."""
        found = self.b.vector("packed")
        self.b.emit_template(pattern, found, *operands)
        return found


def _turned(order: np.ndarray, lanes: int) -> np.ndarray:
    """Put the first words of a second tile behind those of a first one, in place; where the others stand."""
    words = (_WORDS - 1) * lanes // _WORDS
    own, rest = order[:words].copy(), lanes - words
    order[words:] = lanes + own[:rest]
    found = np.zeros(lanes, np.int64)
    found[: words - rest] = own[rest:]
    return found


def _places(b: Builder, first: Variable, channels: int, at: int = 0) -> list[Memory]:
    """A tile's bytes, and of three channels its last third."""
    places = [b.at(first, at)]
    if channels == _WORDS - 1:
        places.append(b.at(first, at + 2 * b.machine.lanes))
    return places


def _place(b: Builder, content: np.ndarray) -> Memory:
    return b.data(np.ascontiguousarray(content).tobytes())


def _held(b: Builder, content: np.ndarray) -> Variable:
    """A vector that holds something from before the loop on."""
    held = b.vector("words")
    b.emit("load", held, _place(b, content))
    return held
