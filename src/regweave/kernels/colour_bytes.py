"""Interleaved bytes to one f32 vector per channel and back, a tile of as many pixels as a vector has lanes.

Three channels of four pixels are three words of 32 bits. One pick of words gives every 128 bits of a vector
four pixels, then shuffles inside 128 bits do the rest:

    in memory          r0 g0 b0 r1  g1 b1 r2 g2  b2 r3 g3 b3 | r4 ...
    words, by 128 bits r0 g0 b0 r1  g1 b1 r2 g2  b2 r3 g3 b3  .  .  .  .    r4 g4 ...
    green              g0 0 0 0  g1 0 0 0  g2 0 0 0  g3 0 0 0               g4 0 0 0 ...

Back: sums become whole numbers, are packed with saturation to four bytes of each result in every 128 bits,
shuffled into the order of pixels, and the words are picked together. Numbers beyond 65535 count as that
much, so that no conversion overflows; a NaN becomes 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.machines.instructions import Pattern

_WORDS = 4  # of 128 bits, and bytes of a word
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
_PICK_WORDS = Pattern("d:v index:v a:v", "vpermd %=0, %1, %2")
_SPREAD = Pattern("d:v a:v mask:v|m", ("vpshufb %=0, %1, %2", "vcvtdq2ps %+0, %+0"))
_WHOLE = Pattern("d:v most:v a:v", ("vminps %=0, %1, %2", "vcvtps2dq %+0, %+0"))
_TO_WORDS = Pattern("d:v a:v b:v", "vpackssdw %=0, %1, %2")
_TO_BYTES = Pattern("d:v a:v b:v", "vpackuswb %=0, %1, %2")
_SHUFFLE = Pattern("d:v a:v mask:v|m", "vpshufb %=0, %1, %2")


class ByteReader:
    """Loads tiles of `channels` interleaved bytes. Made before the loop: it holds what shuffles are told."""

    def __init__(self, b: Builder, channels: int) -> None:
        self.b, self.channels = b, channels
        quarters = b.machine.lanes // _WORDS
        words = np.arange(_WORDS)
        # words of the 128 bits beyond those that pixels fill hold whatever there is
        picked = np.minimum(channels * np.arange(quarters)[:, None] + words, b.machine.lanes - 1)
        self.words = _held(b, picked.astype(np.uint32)) if channels < _WORDS else None
        self.masks = []
        for k in range(channels):
            mask = np.full((_WORDS, 4), _ZERO, np.uint8)
            mask[:, 0] = channels * words + k
            self.masks.append(_place(b, np.tile(mask, (quarters, 1))))

    def load(self, source: Variable) -> Variable:
        """The bytes of a tile."""
        loaded = self.b.vector("bytes")
        pattern = _LOADS[self.b.machine.name][self.channels]
        self.b.emit_template(pattern, loaded, *_places(self.b, source, self.channels))
        return loaded

    def planes(self, loaded: Variable) -> list[Variable]:
        """One vector per channel."""
        b = self.b
        if self.words is not None:
            spread = b.vector("spread")
            b.emit_template(_PICK_WORDS, spread, self.words, loaded)
            loaded = spread
        found = b.vectors("channel", self.channels)
        for plane, mask in zip(found, self.masks, strict=True):
            b.emit_template(_SPREAD, plane, loaded, mask)
        return found


class ByteWriter:
    """Stores tiles of `results` interleaved bytes."""

    def __init__(self, b: Builder, results: int) -> None:
        self.b, self.results = b, results
        quarters = b.machine.lanes // _WORDS
        mask = np.full(4 * _WORDS, _ZERO, np.uint8)
        for pixel in range(_WORDS):
            for n in range(results):
                mask[results * pixel + n] = _WORDS * n + pixel
        self.mask = _place(b, np.tile(mask, quarters))
        picked = np.zeros(b.machine.lanes, np.uint32)
        word = np.arange(results * quarters)
        picked[: len(word)] = word // results * _WORDS + word % results
        self.words = _held(b, picked) if results < _WORDS else None
        self.most = b.vector("most")
        b.emit("broadcast", self.most, b.constant(_MOST))

    def store(self, target: Variable, sums: Sequence[Variable]) -> None:
        """The tile's results, rounded to even and clamped to 0 .. 255."""
        b = self.b
        whole = b.vectors("whole", len(sums))
        for value, number in zip(sums, whole, strict=True):
            b.emit_template(_WHOLE, number, self.most, value)
        low, high, packed, ordered = (b.vector(name) for name in ("low", "high", "packed", "ordered"))
        b.emit_template(_TO_WORDS, low, whole[0], whole[min(1, len(whole) - 1)])
        if len(whole) > 2:
            b.emit_template(_TO_WORDS, high, whole[2], whole[-1])
        b.emit_template(_TO_BYTES, packed, low, high if len(whole) > 2 else low)
        b.emit_template(_SHUFFLE, ordered, packed, self.mask)
        if self.words is not None:
            together = b.vector("together")
            b.emit_template(_PICK_WORDS, together, self.words, ordered)
            ordered = together
        pattern = _STORES[b.machine.name][self.results]
        b.emit_template(pattern, *_places(b, target, self.results), ordered)


def _places(b: Builder, first: Variable, channels: int) -> list[Memory]:
    """A tile's bytes, and of three channels its last third."""
    places = [b.at(first)]
    if channels == 3:
        places.append(b.at(first, 2 * b.machine.lanes))
    return places


def _place(b: Builder, content: np.ndarray) -> Memory:
    return b.data(np.ascontiguousarray(content).tobytes())


def _held(b: Builder, content: np.ndarray) -> Variable:
    """A vector that holds something from before the loop on."""
    held = b.vector("words")
    b.emit("load", held, _place(b, content))
    return held
