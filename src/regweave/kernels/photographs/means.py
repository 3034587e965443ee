"""Means over many pixels of 8 or 16 bits: sums that go down and along an image, as many steps for any size.

    down      V[q] += element of the row that comes in - element of the row that goes out
    beyond    V left and right of the row is V at other places of it, or 0
    along     P[q] = P[q - channels] + V[q]
    result    (P[e + (width - 1) channels] - P[e - channels]) / pixels, rounded

The sums along are made in registers: a vector is moved up by 1, 2, 4, 8 pixels and added each time, then the
last pixel of the vector before is added to all. They may overflow, their differences do not. A part of
the work is a range of rows; its sums V and P are memory of its own. AVX2 has a kernel of its own in
`narrow_means`.
"""

from __future__ import annotations

import ctypes
import struct
from functools import lru_cache
from typing import ClassVar

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import VectorMachine
from regweave.values import frozen

#: Elements of a vector of words, of 32 bits; bytes of such elements.
_WORDS, _DOUBLES, _WORD, _DOUBLE, _ADDRESS = 32, 16, 2, 4, 8
_LINE, _SLACK = 64, 2 * _WORDS

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
_LOAD_WORD = Pattern("d:r from:a", "movzx %=0:d, word ptr %1")
_STORE_WORD = Pattern("to:a x:r", "mov word ptr %0, %1:w")
_LOAD_DOUBLE = Pattern("d:r from:a", "mov %=0:d, dword ptr %1")
_STORE_DOUBLE = Pattern("to:a x:r", "mov dword ptr %0, %1:d")


class MeanArguments(ctypes.Structure):
    """What the kernel is called with, beside the number of the part.

    rows, outs    tables of addresses: of the image's rows from the first that is reached on, of the result's
    nought        address of a row of zeros
    length        elements of a row, `MeanFilter.least` or more
    count         rows of the result; `parts` share them
    borders       table of places in a row: what stands for the elements left of it, then right of it
    keep          all ones, or 0: then there are zeros left and right of the rows
    scratch       64-byte aligned, `step` bytes for each part: `MeanFilter.scratch_bytes`
    sums          `MeanFilter.sums`
    """

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "rows",
            "outs",
            "nought",
            "length",
            "count",
            "parts",
            "borders",
            "keep",
            "scratch",
            "step",
            "sums",
        )
    )


@frozen
class MeanFilter:
    """The mean of `height` x `width` pixels, an odd number below 16384, of bytes of up to 8 channels, or if
    `deep` of 16-bit numbers."""

    channels: int
    height: int
    width: int
    deep: bool = False

    #: Elements that a row must have.
    least: ClassVar[int] = 32

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return 2 if self.deep else 1

    @property
    def sum_bytes(self) -> int:
        """Bytes of a sum down the columns."""
        return _DOUBLE if self.deep else _WORD

    @property
    def left(self) -> int:
        """Elements that it reaches to the left."""
        return self.width // 2 * self.channels

    @property
    def right(self) -> int:
        """Elements that it reaches to the right."""
        return (self.width - 1) * self.channels - self.left

    def sums(self, length: int) -> int:
        """Bytes of the sums down the columns, whole cache lines."""
        return -(-self.sum_bytes * (length + self.left + self.right + _SLACK) // _LINE) * _LINE

    def scratch_bytes(self, length: int) -> int:
        """Bytes of memory of its own that a part needs, for rows of so many elements."""
        return self.sums(length) * (1 + _DOUBLE // self.sum_bytes) + _LINE


@lru_cache(maxsize=32)
def mean_filter_kernel(filter: MeanFilter, machine: VectorMachine) -> Listing:
    """The kernel `void f(const MeanArguments *, size_t part)`."""
    if machine.name == "avx512":
        return Means(filter, machine).b.finish()
    from regweave.kernels.photographs.narrow_means import NarrowMeans  # it builds on this module

    return NarrowMeans(filter, machine).b.finish()


class Means:
    """Writes the kernel, for AVX-512: lanes are masked, and any are moved."""

    def __init__(self, filter: MeanFilter, machine: VectorMachine) -> None:
        self.filter = filter
        self.b = b = Builder(machine, name="rw_mean_filter", arguments=("args", "part"))
        self.down, self.along, self.length = (b.general(name) for name in ("down", "along", "length"))
        first, last = b.general("first"), b.general("last")
        self._share(first, last)
        self._clear()
        self._hold()
        self._rows(first, last)

    def _field(self, name: str) -> Memory:
        return self.b.at("args", getattr(MeanArguments, name).offset)

    def _share(self, first: Variable, last: Variable) -> None:
        """This part's rows of the result, and its memory."""
        b, value = self.b, self.b.general("value")
        b.emit("mov", value, self._field("count"))
        b.emit("mov", first, b["part"])
        b.emit("imul", first, value)
        b.emit("lea", last, b.at(first, index=value))
        b.emit("mov", value, self._field("parts"))
        b.emit("divide_unsigned", first, first, value)
        b.emit("divide_unsigned", last, last, value)
        b.emit("mov", self.length, self._field("length"))
        b.emit("imul", b["part"], self._field("step"))
        b.emit("mov", self.down, self._field("scratch"))
        b.emit("add", self.down, b["part"])
        b.emit("mov", self.along, self.down)
        b.emit("add", self.along, self._field("sums"))
        b.emit("add", self.along, _LINE)

    def _clear(self) -> None:
        """All sums are 0; those along begin behind one vector of zeros."""
        b, at, nought, top = (
            self.b,
            self.b.general("at"),
            self.b.vector("nought"),
            self.b.fresh_label("clear"),
        )
        b.emit("zero", nought)
        b.emit("mov", at, self.down)
        b.label(top)
        b.emit("store", b.at(at), nought)
        b.emit("add", at, b.machine.vector_bytes)
        b.emit("cmp", at, self.along)
        b.emit("jump_less", top)

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

    def _rows(self, first: Variable, last: Variable) -> None:
        """Rows come in from `first` on; with the last of a window's rows a row of the result is complete."""
        b, height = self.b, self.filter.height
        row, new, old = b.general("row"), b.general("new"), b.general("old")
        top, done, more, begun = (b.fresh_label(name) for name in ("row", "done", "more", "begun"))
        b.emit("cmp", first, last)
        b.emit("jump_greater_equal", done)
        b.emit("mov", row, first)
        b.emit("add", last, height - 1)
        b.label(top)
        b.emit("mov", old, self._field("nought"))
        b.emit("mov", new, row)
        b.emit("sub", new, height)
        b.emit("cmp", new, first)
        b.emit("jump_less", begun)
        b.emit("mov", old, self._field("rows"))
        b.emit("mov", old, b.at(old, index=new, scale=8))
        b.label(begun)
        b.emit("mov", new, self._field("rows"))
        b.emit("mov", new, b.at(new, index=row, scale=8))
        self._down(new, old)
        b.emit("mov", new, row)
        b.emit("sub", new, height - 1)
        b.emit("cmp", new, first)
        b.emit("jump_less", more)
        self._beyond()
        self._along()
        b.emit("mov", old, self._field("outs"))
        b.emit("mov", old, b.at(old, index=new, scale=8))
        self._results(old)
        b.label(more)
        b.emit("inc", row)
        b.emit("cmp", row, last)
        b.emit("jump_less", top)
        b.label(done)

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

    def _beyond(self) -> None:
        """The sums left and right of the row."""
        b, filter = self.b, self.filter
        for count, border, behind in ((filter.left, 0, False), (filter.right, filter.left, True)):
            if not count:
                continue
            to, n, place, word, borders = (
                b.general(name) for name in ("to", "n", "place", "word", "borders")
            )
            b.emit("mov", to, self.down)
            size = filter.sum_bytes
            if behind:
                b.emit("lea", to, b.at(to, size * filter.left, index=self.length, scale=size))
            b.emit("mov", borders, self._field("borders"))
            b.emit("zero", n)
            top = b.fresh_label("beyond")
            b.label(top)
            b.emit("mov", place, b.at(borders, border * _ADDRESS, index=n, scale=8))
            load, store = (_LOAD_DOUBLE, _STORE_DOUBLE) if filter.deep else (_LOAD_WORD, _STORE_WORD)
            b.emit_template(load, word, b.at(self.down, size * filter.left, index=place, scale=size))
            b.emit("and", word, self._field("keep"))
            b.emit_template(store, b.at(to, index=n, scale=size), word)
            b.emit("inc", n)
            b.emit("cmp", n, count)
            b.emit("jump_less", top)

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
