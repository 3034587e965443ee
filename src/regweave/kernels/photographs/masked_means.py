"""Means over many pixels on AVX-512: lanes are masked, and any are moved.

A row's last elements are a masked vector. Sums along are made in a register of 16: it is moved up by 1, 2, 4,
8 pixels under a mask and added each time, then the last pixel of the vector before is added to all.
"""

from __future__ import annotations

import struct

from regweave.assembly.variables import Variable
from regweave.kernels.photographs.running import Means
from regweave.machines.instructions import Pattern

#: Elements of a vector of words, of 32 bits; bytes of such elements.
_WORDS, _DOUBLES, _WORD, _DOUBLE = 32, 16, 2, 4

_LOAD = Pattern("d:v from:a", "vpmovzxbw %=0, ymmword ptr %1")
_LOAD_SOME = Pattern("d:v from:a lanes:k", "vpmovzxbw %=0{%2}{z}, ymmword ptr %1")
_LOAD_WORDS = Pattern("d:v from:a", "vpmovzxwd %=0, ymmword ptr %1")
_ADD = Pattern("d:v a:v b:v|m", "vpaddw %=0, %1, %2")
_SUB = Pattern("d:v a:v b:v", "vpsubw %=0, %1, %2")
_UP = Pattern("d:v index:v a:v lanes:k", "vpermd %=0{%3}{z}, %1, %2")
_LAST = Pattern("d:v index:v a:v", "vpermd %=0, %1, %2")
_MASK = Pattern("d:k bits:r", "kmovd %=0, %1:d")
_STORE = Pattern(
    "to:a a:v scale:v ~t:v",
    ("vcvtdq2ps %=3, %1", "vmulps %+3, %+3, %2", "vcvtps2dq %+3, %+3", "vpmovusdb xmmword ptr %0, %3"),
)


class MaskedMeans(Means):
    """Writes the kernel."""

    def _hold(self) -> None:
        """What lanes are moved by; the factor; the mask of a row's last bytes."""
        b, channels = self.b, self.filter.channels
        lanes = range(_DOUBLES)
        self.moves = []
        shift = channels
        while shift < _DOUBLES:
            index, bits, mask = b.vector("move"), b.general("bits"), b.mask("moved")
            b.emit("load", index, b.data(struct.pack("<16I", *(max(lane - shift, 0) for lane in lanes))))
            b.emit("mov", bits, (1 << _DOUBLES) - (1 << shift))
            b.emit_template(_MASK, mask, bits)
            self.moves.append((index, mask))
            shift *= 2
        self.last = b.vector("last")
        ends = [_DOUBLES - channels + lane % channels for lane in lanes]
        b.emit("load", self.last, b.data(struct.pack("<16I", *ends)))
        self.scale = b.vector("scale")
        b.emit("broadcast", self.scale, b.constant(1 / (self.filter.height * self.filter.width)))
        bits, rest = b.general("bits"), b.general("rest")
        b.emit("mov", rest, self.length)
        b.emit("and", rest, _WORDS - 1)
        b.emit("mov", bits, 1)
        b.emit("shl", bits, rest)
        b.emit("dec", bits)
        self.ragged = b.mask("ragged")
        b.emit_template(_MASK, self.ragged, bits)

    def _down(self, new: Variable, old: Variable) -> None:
        """A row comes into the sums down the columns, another one leaves."""
        b, at, end, top = self.b, self.b.general("at"), self.b.general("end"), self.b.fresh_label("down")
        behind = b.fresh_label("ragged")
        b.emit("zero", at)
        b.emit("mov", end, self.length)
        b.emit("and", end, -_WORDS)
        b.emit("jump_zero", behind)
        b.label(top)
        self._down_some(new, old, at, None)
        b.emit("add", at, _WORDS)
        b.emit("cmp", at, end)
        b.emit("jump_less", top)
        b.label(behind)
        self._down_some(new, old, at, self.ragged)

    def _down_some(self, new: Variable, old: Variable, at: Variable, mask: Variable | None) -> None:
        b = self.b
        loaded = []
        for row in (new, old):
            loaded.append(b.vector("bytes"))
            if mask is None:
                b.emit_template(_LOAD, loaded[-1], b.at(row, index=at))
            else:
                b.emit_template(_LOAD_SOME, loaded[-1], b.at(row, index=at), mask)
        change, total = b.vector("change"), b.vector("total")
        place = b.at(self.down, _WORD * self.filter.left, index=at, scale=2)
        b.emit_template(_SUB, change, *loaded)
        b.emit_template(_ADD, total, change, place)
        b.emit("store", place, total)

    def _along(self) -> None:
        """The sums along the row, from the first place beyond it on."""
        b, filter, at, end = self.b, self.filter, self.b.general("at"), self.b.general("end")
        before, top = b.vector("before"), b.fresh_label("along")
        b.emit("zero", before)
        b.emit("zero", at)
        b.emit("lea", end, b.at(self.length, filter.left + filter.right))
        b.label(top)
        total = b.vector("total")
        b.emit_template(_LOAD_WORDS, total, b.at(self.down, index=at, scale=2))
        for index, mask in self.moves:
            moved, former, total = b.vector("moved"), total, b.vector("total")
            b.emit_template(_UP, moved, index, former, mask)
            b.emit("add_int", total, former, moved)
        carried = b.vector("carried")
        b.emit_template(_LAST, carried, self.last, before)
        b.emit("add_int", before, total, carried)
        b.emit("store", b.at(self.along, index=at, scale=4), before)
        b.emit("add", at, _DOUBLES)
        b.emit("cmp", at, end)
        b.emit("jump_less", top)

    def _results(self, to: Variable) -> None:
        """A row of the result; its last vector overlaps."""
        b, at, end = self.b, self.b.general("at"), self.b.general("end")
        top, done = b.fresh_label("result"), b.fresh_label("complete")
        b.emit("zero", at)
        b.emit("lea", end, b.at(self.length, -_DOUBLES))
        b.label(top)
        b.emit("min", at, end)
        reach = (self.filter.width - 1) * self.filter.channels
        total, mean = b.vector("total"), b.vector("mean")
        b.emit("load", total, b.at(self.along, _DOUBLE * reach, index=at, scale=4))
        b.emit("sub_int", mean, total, b.at(self.along, -_DOUBLE * self.filter.channels, index=at, scale=4))
        b.emit_template(_STORE, b.at(to, index=at), mean, self.scale)
        b.emit("cmp", at, end)
        b.emit("jump_greater_equal", done)
        b.emit("add", at, _DOUBLES)
        b.emit("jump", top)
        b.label(done)
