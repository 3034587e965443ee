"""Means over many pixels on AVX2: no lanes are masked, and a vector has eight sums along a row.

Two things differ from `masked_means`. What fills no vector at a row's end is done element by element. And the
sums along do not wait for one another from vector to vector: a block is as many vectors as fill whole pixels,
three of three channels, and what is added to a block are sums of the blocks before, one addition a block:

    block      r0 g0 b0 r1 g1 b1 r2 g2 | b2 ..     sums within the block
    before     R  G  B  R  G  B  R  G  | B  ..     of the blocks before, in every lane that of its channel

Quotients of 16-bit numbers are rounded as `doubles` rounds them.
"""

from __future__ import annotations

import struct
from math import gcd

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.photographs.doubles import DoubleMath
from regweave.kernels.photographs.running import Means
from regweave.kernels.photographs.words import PATTERNS
from regweave.machines.instructions import Pattern

#: Vectors of bytes and of sums: their elements.
_LANES, _FLOAT = 8, 4

_LOADS = {
    False: Pattern("d:v from:a", "vpmovzxbw %=0, xmmword ptr %1"),
    True: Pattern("d:v from:a", "vpmovzxwd %=0, xmmword ptr %1"),
}
_ELEMENTS = {
    False: Pattern("d:r from:a", "movzx %=0:d, byte ptr %1"),
    True: Pattern("d:r from:a", "movzx %=0:d, word ptr %1"),
}
_ADDS = {
    False: Pattern("to:a x:r", "add word ptr %0, %1:w", flags="lost"),
    True: Pattern("to:a x:r", "add dword ptr %0, %1:d", flags="lost"),
}
_LOAD_WORDS = Pattern("d:v from:a", "vpmovzxwd %=0, xmmword ptr %1")
_PERMUTE = Pattern("d:v index:m a:v", ("vmovaps %=0, %1", "vpermd %+0, %+0, %2"))
#: Elements in order again after packs within 128 bits.
_STORE_BYTES = Pattern(
    "to:a a:v b:v c:v d:v order:m ~t:v ~u:v",
    (
        "vpackusdw %=6, %1, %2",
        "vpackusdw %=7, %3, %4",
        "vpackuswb %+6, %+6, %7",
        "vmovaps %+7, %5",
        "vpermd %+6, %+7, %+6",
        "vmovups ymmword ptr %0, %6",
    ),
)
_STORE_WORDS = Pattern(
    "to:a a:v b:v ~t:v",
    ("vpackusdw %=3, %1, %2", "vpermq %+3, %+3, 216", "vmovups ymmword ptr %0, %3"),
)


def _up(lanes: int) -> Pattern:
    """Moves lanes up by so many, and zeros behind them: half a vector, then the rest of the way."""
    lines = ["vperm2i128 %=0, %1, %1, 8"]
    if lanes < _LANES // 2:
        lines.append(f"vpalignr %+0, %1, %+0, {_FLOAT * (_LANES // 2 - lanes)}")
    elif lanes > _LANES // 2:
        lines.append(f"vpslldq %+0, %+0, {_FLOAT * (lanes - _LANES // 2)}")
    return Pattern("d:v a:v", tuple(lines), latency=4)


class NarrowMeans(Means):
    """Writes the kernel."""

    def _hold(self) -> None:
        """What is made of sums; the sums of the blocks before."""
        b, channels = self.b, self.filter.channels
        self.math = DoubleMath(b, {})
        self.block = channels // gcd(channels, _LANES)
        self.before = b.vectors("before", self.block)

    def _down(self, new: Variable, old: Variable) -> None:
        """A row comes into the sums down the columns, another one leaves."""
        b, size, deep = self.b, self.filter.sum_bytes, self.filter.deep
        each = b.machine.vector_bytes // size
        at, end = b.general("at"), b.general("end")
        top, rest, done = (b.fresh_label(name) for name in ("down", "ragged", "down_done"))
        add, sub = ("add_double", "sub_int") if deep else ("add", "sub")
        b.emit("zero", at)
        b.emit("lea", end, b.at(self.length, -each))
        b.label(top)
        rows = []
        for row in (new, old):
            rows.append(b.vector("row"))
            b.emit_template(_LOADS[deep], rows[-1], b.at(row, index=at, scale=self.filter.element))
        place = b.at(self.down, size * self.filter.left, index=at, scale=size)
        if deep:
            b.emit(sub, rows[0], *rows)
        else:
            b.emit_template(PATTERNS[sub], rows[0], *rows)
        b.emit_template(PATTERNS[add], rows[0], rows[0], place)
        b.emit("store", place, rows[0])
        b.emit("add", at, each)
        b.emit("cmp", at, end)
        b.emit("jump_less_equal", top)
        b.emit("cmp", at, self.length)
        b.emit("jump_greater_equal", done)
        b.label(rest)
        change, other = b.general("change"), b.general("other")
        for element, row in ((change, new), (other, old)):
            b.emit_template(_ELEMENTS[deep], element, b.at(row, index=at, scale=self.filter.element))
        b.emit("sub", change, other)
        b.emit_template(_ADDS[deep], place, change)
        b.emit("inc", at)
        b.emit("cmp", at, self.length)
        b.emit("jump_less", rest)
        b.label(done)

    def _along(self) -> None:
        """The sums along the row, from the first place beyond it on."""
        b, filter, at, end = self.b, self.filter, self.b.general("at"), self.b.general("end")
        for vector in self.before:
            b.emit("zero", vector)
        b.emit("zero", at)
        b.emit("lea", end, b.at(self.length, filter.left + filter.right))
        top = b.fresh_label("along")
        b.label(top)
        last: Variable | None = None
        for n, before in enumerate(self.before):
            total = self._within(n, at)
            if last is not None:
                b.emit("add_int", total, total, self._moved(last, self._ends(0)))
            last = total
            made = b.vector("along")
            b.emit("add_int", made, total, before)
            b.emit("store", b.at(self.along, _FLOAT * n * _LANES, index=at, scale=_FLOAT), made)
        assert last is not None, "a block has vectors"
        for n, before in enumerate(self.before):
            b.emit("add_int", before, before, self._moved(last, self._ends(n)))
        b.emit("add", at, _LANES * self.block)
        b.emit("cmp", at, end)
        b.emit("jump_less", top)

    def _within(self, n: int, at: Variable) -> Variable:
        """Sums within the block's vector of that number."""
        b, size = self.b, self.filter.sum_bytes
        total, shift = b.vector("total"), self.filter.channels
        place = b.at(self.down, size * n * _LANES, index=at, scale=size)
        if self.filter.deep:
            b.emit("load", total, place)
        else:
            b.emit_template(_LOAD_WORDS, total, place)
        while shift < _LANES:
            moved = b.vector("moved")
            b.emit_template(_up(shift), moved, total)
            b.emit("add_int", total, total, moved)
            shift *= 2
        return total

    def _ends(self, n: int) -> list[int]:
        """For each lane of the block's vector of that number, the last vector's lane of its channel."""
        channels = self.filter.channels
        return [_LANES - channels + (n * _LANES + lane) % channels for lane in range(_LANES)]

    def _moved(self, vector: Variable, lanes: list[int]) -> Variable:
        moved = self.b.vector("moved")
        self.b.emit_template(_PERMUTE, moved, self._data(lanes), vector)
        return moved

    def _data(self, numbers: list[int]) -> Memory:
        return self.b.data(struct.pack(f"<{_LANES}i", *numbers))

    def _results(self, to: Variable) -> None:
        """A row of the result; its last vector overlaps."""
        b, filter = self.b, self.filter
        vectors = 2 if filter.deep else 4
        at, end = b.general("at"), b.general("end")
        top, done = b.fresh_label("result"), b.fresh_label("complete")
        pixels, reach = filter.height * filter.width, (filter.width - 1) * filter.channels
        b.emit("zero", at)
        b.emit("lea", end, b.at(self.length, -vectors * _LANES))
        b.label(top)
        b.emit("min", at, end)
        means = []
        for n in range(vectors):
            total = b.vector("total")
            places = [n * _LANES + first for first in (reach, -filter.channels)]
            taken, left = (b.at(self.along, _FLOAT * place, index=at, scale=_FLOAT) for place in places)
            b.emit("load", total, taken)
            b.emit("sub_int", total, total, left)
            if filter.deep:
                means.append(self.math.quotient(total, pixels))
            else:
                whole = self.math.made("float", total)
                means.append(self.math.made("scale", whole, self.math.float(1 / pixels)))
        place = b.at(to, index=at, scale=filter.element)
        if filter.deep:
            b.emit_template(_STORE_WORDS, place, *means)
        else:
            b.emit_template(_STORE_BYTES, place, *means, self._data([0, 4, 1, 5, 2, 6, 3, 7]))
        b.emit("cmp", at, end)
        b.emit("jump_greater_equal", done)
        b.emit("add", at, vectors * _LANES)
        b.emit("jump", top)
        b.label(done)
