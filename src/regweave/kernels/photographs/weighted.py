"""Filters of any weights, in f32, of images of bytes, of 16-bit numbers and of f32 as they lie in memory.

An image's rows are done segment by segment, so that all that a segment needs stays near:

    line       a row's pixels, and what the kernel reaches beside them, as f32
    ring       the last rows: these lines, or where the kernel is a column times a row of weights, the sums
               along them
    results    rows of the ring times weights, a few vectors at once; as the image's own type, rounded

Channels stay interleaved: the pixel beside is `channels` elements further. Beyond an image's edges tables
name other rows, and other elements of a row. The last segment ends with the row and does some elements again.

    void weighted(const WeightedArguments *args, size_t part)           part: the number of the band
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import VectorMachine
from regweave.values import frozen

Kind = Literal["u8", "u16", "f32"]

_NAMES = ("rows", "outs", "length", "last", "borders", "keep", "weights")
#: Rows of the result in a band, elements of a segment.
ROWS, SEGMENT = 64, 256
#: Vectors of results at once: as many products as are under way. Bytes of the stack for the ring.
_VECTORS, _MOST_RING = 8, 48 << 10
#: Bytes: so far ahead of where they are read and written, rows are asked for.
_AHEAD = 256
_FLOAT, _ADDRESS = 4, 8
_SIZES = {"u8": 1, "u16": 2, "f32": 4}
_MOSTS = {"u8": 255.0, "u16": 65535.0}

_LOADS = {
    ("u8", 8): ("vpmovzxbd %=0, qword ptr %1", "vcvtdq2ps %+0, %+0"),
    ("u8", 16): ("vpmovzxbd %=0, xmmword ptr %1", "vcvtdq2ps %+0, %+0"),
    ("u16", 8): ("vpmovzxwd %=0, xmmword ptr %1", "vcvtdq2ps %+0, %+0"),
    ("u16", 16): ("vpmovzxwd %=0, ymmword ptr %1", "vcvtdq2ps %+0, %+0"),
    ("f32", 8): ("vmovups %=0, ymmword ptr %1",),
    ("f32", 16): ("vmovups %=0, zmmword ptr %1",),
}
_ELEMENTS = {
    "u8": Pattern("d:r from:a", "movzx %=0:d, byte ptr %1"),
    "u16": Pattern("d:r from:a", "movzx %=0:d, word ptr %1"),
    "f32": Pattern("d:r from:a", "mov %=0:d, dword ptr %1"),
}
_TO_FLOAT = Pattern(
    "to:a x:r ~t:v",
    ("vmovd %=2:x, %1:d", "vcvtdq2ps %+2:x, %+2:x", "vmovss dword ptr %0, %2:x"),
)
_AS_IT_IS = Pattern("to:a x:r", "mov dword ptr %0, %1:d")
_ROUND = Pattern("d:v a:v", "vcvtps2dq %=0, %1", latency=4)
#: On 256 bits, packs mix halves up: which parts go where.
_MEND = (0, 4, 1, 5, 2, 6, 3, 7)
_STORES = {
    ("u8", 8): Pattern(
        "to:a a:v b:v c:v d:v order:v ~t:v ~u:v",
        (
            "vpackusdw %=6, %1, %2",
            "vpackusdw %=7, %3, %4",
            "vpackuswb %+6, %+6, %7",
            "vpermd %+6, %5, %+6",
            "vmovups ymmword ptr %0, %6",
        ),
    ),
    ("u16", 8): Pattern(
        "to:a a:v b:v ~t:v",
        ("vpackusdw %=3, %1, %2", "vpermq %+3, %+3, 216", "vmovups ymmword ptr %0, %3"),
    ),
    ("u8", 16): Pattern("to:a a:v", "vpmovusdb xmmword ptr %0, %1"),
    ("u16", 16): Pattern("to:a a:v", "vpmovusdw ymmword ptr %0, %1"),
    ("f32", 8): Pattern("to:a a:v", "vmovups ymmword ptr %0, %1"),
    ("f32", 16): Pattern("to:a a:v", "vmovups zmmword ptr %0, %1"),
}
#: Vectors that one of these stores takes.
_STORED = {("u8", 8): 4, ("u16", 8): 2}


class WeightedArguments(ctypes.Structure):
    """What the kernel is called with.

    rows, outs   tables of addresses: of the image's rows from the first that is reached on, of the result's
    length       elements of a row, `SEGMENT` or more
    last         the first row of the last band: bands may overlap
    borders      table of elements of a row: what stands for those left of it, then right of it
    keep         all ones, or 0: then elements left and right of the rows are 0
    weights      f32: per response a column of weights and a row of them, or all rows of weights
    """

    _fields_ = tuple((name, ctypes.c_int64) for name in _NAMES)


@frozen
class WeightedFilter:
    """A filter of images of a kind, each of its one or two responses `height` x `width` weights, or if
    `separable` a column and a row of them. One response may be its `magnitude`, of two the root of the sum of
    squares is taken."""

    kind: Kind
    channels: int
    height: int
    width: int
    responses: int = 1
    separable: bool = False
    magnitude: bool = False

    @property
    def left(self) -> int:
        """Elements that it reaches to the left."""
        return self.width // 2 * self.channels

    @property
    def right(self) -> int:
        """Elements that it reaches to the right."""
        return (self.width - 1) * self.channels - self.left

    @property
    def line(self) -> int:
        """Elements that a segment reads."""
        return SEGMENT + self.left + self.right

    @property
    def ring_row(self) -> int:
        """Bytes of a row of the ring."""
        size = SEGMENT * self.responses if self.separable else self.line
        return -(-size * _FLOAT // 64) * 64

    def fits(self) -> bool:
        """Whether the last rows find room on the stack, and what lies beside a segment in a segment."""
        room = self.ring_row * self.height + self.line * _FLOAT
        return room <= _MOST_RING and max(self.left, self.right) <= SEGMENT and self.responses <= 2


@lru_cache(maxsize=64)
def weighted_kernel(filter: WeightedFilter, machine: VectorMachine) -> Listing:
    """The kernel, of a filter that fits."""
    return _Weighted(filter, machine).b.finish()


class _Weighted:
    """Writes the kernel."""

    def __init__(self, filter: WeightedFilter, machine: VectorMachine) -> None:
        self.filter, self.lanes = filter, machine.lanes
        self.size = _SIZES[filter.kind]
        self.b = b = Builder(machine, name="rw_weighted", arguments=("args", "part"))
        self.ring = b.stack(filter.ring_row * filter.height, align=64)
        self.line = b.stack(filter.line * _FLOAT, align=64) if filter.separable else None
        self.places = b.stack(filter.height * _ADDRESS)
        self.slots = {name: b.stack(_ADDRESS) for name in _NAMES}
        for name in ("at", "left", "row", "lines", "begin", "end"):
            self.slots[name] = b.stack(_ADDRESS)
        self.order = b.vector("order")
        if (filter.kind, self.lanes) == ("u8", 8):
            b.emit("load", self.order, b.data(np.array(_MEND, np.int32).tobytes()))
        self._arguments()
        self._segments()

    def _arguments(self) -> None:
        """To slots; tables from this band's first row on."""
        b, first, value = self.b, self.b.general("first"), self.b.general("value")
        for name in _NAMES:
            b.emit("mov", value, b.at("args", getattr(WeightedArguments, name).offset))
            b.emit("mov", self.slots[name], value)
        b.emit("imul", first, b["part"], ROWS)
        b.emit("mov", value, self.slots["last"])
        b.emit("min", first, value)
        b.emit("shl", first, 3)
        for name in ("rows", "outs"):
            b.emit("mov", value, self.slots[name])
            b.emit("add", value, first)
            b.emit("mov", self.slots[name], value)

    def _read(self, name: str) -> Variable:
        found = self.b.general(name)
        self.b.emit("mov", found, self.slots[name])
        return found

    def _loop(self, stem: str, body: Callable[[], None], again: Callable[[str], None]) -> None:
        top = self.b.fresh_label(stem)
        self.b.emit("align", 32)
        self.b.label(top)
        body()
        again(top)

    def _segments(self) -> None:
        """From the row's first element on; the last segment ends with it."""
        b, at = self.b, self.b.general("at")
        b.emit("zero", at)
        b.emit("mov", self.slots["at"], at)
        top, done = b.fresh_label("segment"), b.fresh_label("done")
        b.label(top)
        self._reach()
        self._begin_ring()
        self._rows()
        at, last = self._read("at"), self._read("length")
        b.emit("sub", last, SEGMENT)
        b.emit("cmp", at, last)
        b.emit("jump_greater_equal", done)
        b.emit("add", at, SEGMENT)
        b.emit("min", at, last)
        b.emit("mov", self.slots["at"], at)
        b.emit("jump", top)
        b.label(done)

    def _reach(self) -> None:
        """The elements that the row has of those that a segment reads: from `begin`, the last vector of
        them at `end`."""
        b, filter = self.b, self.filter
        begin, nought = self._read("at"), b.general("nought")
        end, length = b.general("end"), self._read("length")
        b.emit("lea", end, b.at(begin, SEGMENT + filter.right))
        b.emit("min", end, length)
        b.emit("sub", end, self.lanes)
        b.emit("mov", self.slots["end"], end)
        b.emit("sub", begin, filter.left)
        b.emit("zero", nought)
        b.emit("max", begin, nought)
        b.emit("mov", self.slots["begin"], begin)

    def _begin_ring(self) -> None:
        b, place = self.b, self.b.general("place")
        for row in range(self.filter.height):
            b.emit("lea", place, self.ring + row * self.filter.ring_row)
            b.emit("mov", self.places + row * _ADDRESS, place)

    def _rows(self) -> None:
        """Down the rows of the band, with those above that it needs."""
        b, filter, count = self.b, self.filter, self.b.general("count")
        b.emit("zero", count)
        b.emit("mov", self.slots["row"], count)
        top, above = b.fresh_label("row"), b.fresh_label("above")
        b.label(top)
        newest = self._turn()
        line = newest
        if self.line is not None:
            line = b.general("line")
            b.emit("lea", line, self.line)
        self._convert(line)
        self._beside(line)
        if self.line is not None:
            self._along(newest, line)
        row = self._read("row")
        b.emit("sub", row, filter.height - 1)
        b.emit("jump_below", above)
        self._results(row)
        b.label(above)
        row = self._read("row")
        b.emit("inc", row)
        b.emit("mov", self.slots["row"], row)
        b.emit("cmp", row, ROWS + filter.height - 1)
        b.emit("jump_less", top)

    def _turn(self) -> Variable:
        """The oldest row of the ring becomes the newest: its place."""
        b, newest, other = self.b, self.b.general("newest"), self.b.general("other")
        b.emit("mov", newest, self.places)
        for row in range(1, self.filter.height):
            b.emit("mov", other, self.places + row * _ADDRESS)
            b.emit("mov", self.places + (row - 1) * _ADDRESS, other)
        b.emit("mov", self.places + (self.filter.height - 1) * _ADDRESS, newest)
        return newest

    def _source(self) -> Variable:
        b, row, rows = self.b, self._read("row"), self._read("rows")
        source = b.general("source")
        b.emit("mov", source, b.at(rows, index=row, scale=8))
        return source

    def _convert(self, line: Variable) -> None:
        """The row's own elements as f32, the last vector of them once more."""
        b, filter = self.b, self.filter
        source, at, end, to = self._source(), self._read("begin"), self._read("end"), b.general("to")
        b.emit("mov", to, at)
        b.emit("sub", to, self.slots["at"])
        b.emit("lea", to, b.at(line, _FLOAT * filter.left, index=to, scale=_FLOAT))
        load = Pattern("d:v from:a", _LOADS[filter.kind, self.lanes], latency=12)

        def some(place: Variable) -> None:
            vector = b.vector("pixels")
            b.emit_template(load, vector, b.at(source, index=place, scale=self.size))
            b.emit("store", b.at(to), vector)

        def body() -> None:
            some(at)
            b.emit("prefetch", b.at(source, _AHEAD, index=at, scale=self.size))
            b.emit("add", at, self.lanes)
            b.emit("add", to, _FLOAT * self.lanes)

        def again(top: str) -> None:
            b.emit("cmp", at, end)
            b.emit("jump_less", top)

        self._loop("convert", body, again)
        b.emit("sub", at, end)
        b.emit("shl", at, 2)
        b.emit("sub", to, at)
        some(end)

    def _beside(self, line: Variable) -> None:
        """Elements that lie beyond the row's ends."""
        b, filter = self.b, self.filter
        for count, first in ((filter.left, 0), (filter.right, filter.left)):
            if not count:
                continue
            # numbers of elements beyond: [n, more), the first of them at `to`
            n, more, to = b.general("n"), b.general("more"), b.general("to")
            if first:
                b.emit("mov", n, self.slots["length"])
                b.emit("sub", n, self.slots["at"])
                b.emit("lea", to, b.at(line, _FLOAT * filter.left, index=n, scale=_FLOAT))
                b.emit("mov", more, SEGMENT + filter.right)
                b.emit("sub", more, n)
                b.emit("zero", n)
            else:
                b.emit("mov", n, self.slots["at"])
                b.emit("mov", more, count)
                b.emit("mov", to, line)
            done, top = b.fresh_label("beside"), b.fresh_label("beyond")
            b.emit("cmp", n, more)
            b.emit("jump_greater_equal", done)
            source, borders, keep = self._source(), self._read("borders"), self._read("keep")
            b.label(top)
            place, element = b.general("place"), b.general("element")
            b.emit("mov", place, b.at(borders, _ADDRESS * first, index=n, scale=8))
            b.emit_template(_ELEMENTS[filter.kind], element, b.at(source, index=place, scale=self.size))
            b.emit("and", element, keep)
            b.emit_template(_AS_IT_IS if filter.kind == "f32" else _TO_FLOAT, b.at(to), element)
            b.emit("add", to, _FLOAT)
            b.emit("inc", n)
            b.emit("cmp", n, more)
            b.emit("jump_less", top)
            b.label(done)

    def _along(self, newest: Variable, line: Variable) -> None:
        """Sums along the line with each response's row of weights."""
        filter = self.filter
        for response in range(filter.responses):
            first = response * (filter.height + filter.width) + filter.height
            self._along_one(newest, line, response * SEGMENT, first)

    def _along_one(self, newest: Variable, line: Variable, place: int, first: int) -> None:
        """With the row that begins with that weight, to that element of the ring's row."""
        b, filter, weights, at = self.b, self.filter, self._read("weights"), self.b.general("along")
        b.emit("zero", at)

        def body() -> None:
            sums = b.vectors("sum", _VECTORS)
            for n in range(filter.width):
                weight = b.at(weights, _FLOAT * (first + n))
                self._products(sums, weight, line, at, n * filter.channels, n == 0)
            for v, vector in enumerate(sums):
                b.emit("store", b.at(newest, _FLOAT * (place + v * self.lanes), index=at), vector)
            b.emit("add", at, _FLOAT * _VECTORS * self.lanes)

        def again(top: str) -> None:
            b.emit("cmp", at, _FLOAT * SEGMENT)
            b.emit("jump_less", top)

        self._loop("along", body, again)

    def _products(
        self,
        sums: list[Variable],
        weight: Memory,
        base: Variable,
        at: Variable,
        element: int,
        first: bool,
    ) -> None:
        """To each sum its vector times a weight."""
        b, factor = self.b, self.b.vector("weight")
        b.emit("broadcast", factor, weight)
        for v, vector in enumerate(sums):
            place = b.at(base, _FLOAT * (element + v * self.lanes), index=at)
            b.emit("mul" if first else "fma", vector, factor, place)

    def _results(self, row: Variable) -> None:
        """A row of results, to that number of the table of results."""
        b, filter = self.b, self.filter
        out, outs, at = b.general("out"), self._read("outs"), b.general("result")
        b.emit("mov", out, b.at(outs, index=row, scale=8))
        start = self._read("at")
        b.emit("lea", out, b.at(out, index=start, scale=self.size))
        b.emit("zero", at)
        each = _VECTORS // filter.responses

        def body() -> None:
            sums = [b.vectors(f"response{n}_", each) for n in range(filter.responses)]
            for vectors in sums:
                for vector in vectors:
                    b.emit("zero", vector)
            self._down(sums, at)
            if len(sums) > 1:
                for one, other in zip(*sums, strict=True):
                    b.emit("mul", one, one, one)
                    b.emit("fma", one, other, other)
                    b.emit("sqrt", one, one)
            elif filter.magnitude:
                for vector in sums[0]:
                    b.emit("abs", vector, vector)
            self._store(sums[0], out)
            b.emit("prefetch", b.at(out, _AHEAD))
            b.emit("add", out, each * self.lanes * self.size)
            b.emit("add", at, _FLOAT * each * self.lanes)

        def again(top: str) -> None:
            b.emit("cmp", at, _FLOAT * SEGMENT)
            b.emit("jump_less", top)

        self._loop("results", body, again)

    def _down(self, sums: list[list[Variable]], at: Variable) -> None:
        """Products with the rows of the ring, one after the other."""
        b, filter = self.b, self.filter
        place, weights, left = b.general("place"), self._read("weights"), b.general("left")
        b.emit("lea", place, self.places)
        b.emit("mov", left, filter.height)
        taps = 1 if filter.separable else filter.width
        apart = filter.height + filter.width if filter.separable else filter.height * filter.width

        def body() -> None:
            ring = b.general("ring")
            b.emit("mov", ring, b.at(place))
            for response, vectors in enumerate(sums):
                for n in range(taps):
                    element = response * SEGMENT if filter.separable else n * filter.channels
                    weight = b.at(weights, _FLOAT * (response * apart + n))
                    self._products(vectors, weight, ring, at, element, False)
            b.emit("add", place, _ADDRESS)
            b.emit("add", weights, _FLOAT * taps)

        def again(top: str) -> None:
            b.emit("dec", left)
            b.emit("jump_nonzero", top)

        self._loop("down", body, again)

    def _store(self, sums: list[Variable], out: Variable) -> None:
        """Sums as the image's type: clamped (a NaN is 0), rounded to even."""
        b, filter = self.b, self.filter
        if filter.kind != "f32":
            nought, most = b.vector("nought"), b.vector("most")
            b.emit("zero", nought)
            b.emit("broadcast", most, b.constant(_MOSTS[filter.kind]))
            for vector in sums:
                b.emit("max", vector, vector, nought)
                b.emit("min", vector, vector, most)
                b.emit_template(_ROUND, vector, vector)
        key = filter.kind, self.lanes
        count = _STORED.get(key, 1)
        for first in range(0, len(sums), count):
            place = b.at(out, first * self.lanes * self.size)
            extra = [self.order] if key == ("u8", 8) else []
            b.emit_template(_STORES[key], place, *sums[first : first + count], *extra)
