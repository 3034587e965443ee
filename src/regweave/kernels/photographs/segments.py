"""The kernel of a filter of any weights (see `weighted`): down a band of rows, segment by segment.

    segment -> row -> the oldest row of the ring is written anew: a line, or sums along it
                      once the ring is full: the ring's rows times weights -> a row of results

A product takes a vector of the ring straight from memory, and its weight is broadcast once for eight vectors:
eight sums are under way, which hides what an FMA takes. With two responses these share the eight.
"""

from __future__ import annotations

from functools import lru_cache

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.photographs.floats import FloatPixels
from regweave.kernels.photographs.lines import AHEAD, Lines, Slots, loop
from regweave.kernels.photographs.weighted import NAMES, ROWS, SEGMENT, WeightedArguments, WeightedFilter
from regweave.machines.x86 import VectorMachine

#: Vectors of results at once: as many products as are under way.
_VECTORS = 8
_FLOAT, _ADDRESS = 4, 8


@lru_cache(maxsize=64)
def weighted_kernel(filter: WeightedFilter, machine: VectorMachine) -> Listing:
    """The kernel, of a filter that fits."""
    return _Weighted(filter, machine).b.finish()


class _Weighted:
    """Writes the kernel."""

    def __init__(self, filter: WeightedFilter, machine: VectorMachine) -> None:
        self.filter, self.lanes = filter, machine.lanes
        self.b = b = Builder(machine, name="rw_weighted", arguments=("args", "part"))
        self.ring = b.stack(filter.ring_row * filter.height, align=64)
        self.line = b.stack(filter.line * _FLOAT, align=64) if filter.separable else None
        self.places = b.stack(filter.height * _ADDRESS)
        self.slots = Slots(b, (*NAMES, "at", "left", "row", "lines", "begin", "end"))
        self.pixels = FloatPixels(b, filter.kind, self.lanes)
        self.lines = Lines(filter, self.pixels, self.slots)
        self._arguments()
        self._segments()

    def _arguments(self) -> None:
        """To slots; tables from this band's first row on."""
        b, first, value = self.b, self.b.general("first"), self.b.general("value")
        for name in NAMES:
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

    def _segments(self) -> None:
        """From the row's first element on; the last segment ends with it."""
        b, at = self.b, self.b.general("at")
        b.emit("zero", at)
        b.emit("mov", self.slots["at"], at)
        top, done = b.fresh_label("segment"), b.fresh_label("done")
        b.label(top)
        self.lines.reach()
        self._begin_ring()
        self._rows()
        at, last = self.slots.read("at"), self.slots.read("length")
        b.emit("sub", last, SEGMENT)
        b.emit("cmp", at, last)
        b.emit("jump_greater_equal", done)
        b.emit("add", at, SEGMENT)
        b.emit("min", at, last)
        b.emit("mov", self.slots["at"], at)
        b.emit("jump", top)
        b.label(done)

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
        self.lines.make(line)
        if self.line is not None:
            self._along(newest, line)
        row = self.slots.read("row")
        b.emit("sub", row, filter.height - 1)
        b.emit("jump_below", above)
        self._results(row)
        b.label(above)
        row = self.slots.read("row")
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

    def _along(self, newest: Variable, line: Variable) -> None:
        """Sums along the line with each response's row of weights."""
        filter = self.filter
        for response in range(filter.responses):
            first = response * (filter.height + filter.width) + filter.height
            self._along_one(newest, line, response * SEGMENT, first)

    def _along_one(self, newest: Variable, line: Variable, place: int, first: int) -> None:
        """With the row that begins with that weight, to that element of the ring's row."""
        b, filter, weights, at = self.b, self.filter, self.slots.read("weights"), self.b.general("along")
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

        loop(b, "along", body, again)

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
        out, outs, at = b.general("out"), self.slots.read("outs"), b.general("result")
        b.emit("mov", out, b.at(outs, index=row, scale=8))
        start = self.slots.read("at")
        b.emit("lea", out, b.at(out, index=start, scale=self.pixels.size))
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
            self.pixels.store(sums[0], out)
            b.emit("prefetch", b.at(out, AHEAD))
            b.emit("add", out, each * self.lanes * self.pixels.size)
            b.emit("add", at, _FLOAT * each * self.lanes)

        def again(top: str) -> None:
            b.emit("cmp", at, _FLOAT * SEGMENT)
            b.emit("jump_less", top)

        loop(b, "results", body, again)

    def _down(self, sums: list[list[Variable]], at: Variable) -> None:
        """Products with the rows of the ring, one after the other."""
        b, filter = self.b, self.filter
        place, weights, left = b.general("place"), self.slots.read("weights"), b.general("left")
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

        loop(b, "down", body, again)
