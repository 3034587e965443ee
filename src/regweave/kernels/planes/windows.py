"""The largest of each window of a plane, windows 1, 2 or 4 columns apart.

    largest of 2x2, padded     a b c      . . .        2x2, 2 apart     a b c d      . .
    on the right and below     d e f  ->  e f f                         e f g h  ->  f h
                               (rising)   . . .

A window that hangs over the edge takes the nearest row and column inside in place of what is outside: the
window holds these as well, so its maximum stays.

Windows apart: of vectors that follow one another the even lanes are one vector, the odd ones another, and the
larger of both is what windows of two columns hold; of those that are four columns wide, once more.
"""

from __future__ import annotations

import numpy as np

from regweave.assembly.variables import Variable
from regweave.kernels.planes.loops import PlaneLoops
from regweave.machines.x86 import VectorMachine
from regweave.operators import Largest


class Windows(PlaneLoops):
    """One row of results after the other."""

    def __init__(self, work: Largest, machine: VectorMachine) -> None:
        super().__init__(machine, "rw_largest")
        b, self.work = self.b, work
        self.lines = [b.general(f"line{index}") for index in range(work.kernel[0])]
        self.halves: list[Variable] = []
        if work.strides[1] > 1 and machine.mask_class == "mask":
            for place in range(2):
                self.halves.append(b.vector("half"))
                lanes = np.arange(place, 2 * machine.lanes, 2, dtype=np.int32)
                b.emit("load", self.halves[-1], b.data(lanes.tobytes()))

    def plane(self) -> None:
        b, (height, width), (top, left, bottom, right) = self.b, self.work.kernel, self.work.pads
        row, at, last = b.general("row"), b.general("at"), b.general("last")
        rows = b.stack(8)
        self._results(last, "rows", top + bottom - height, self.work.strides[0])
        b.emit("mov", rows, last)
        b.emit("zero", row)
        with self.loop(row, rows, "row"):
            for index, line in enumerate(self.lines):
                self._clamped(line, row, self.work.strides[0], index - top, "rows")
                b.emit("imul", line, self.field("columns"))
                b.emit("shl", line, 2)
                b.emit("add", line, self.source)
            b.emit("zero", at)
            across = self.work.strides[1]
            if left:
                # on the left a window hangs over; what is left inside may be nothing
                self._results(last, "columns", left + right - width, across)
                bound = b.general("bound")
                b.emit("mov", bound, -(-left // across))
                b.emit("min", bound, last)
                with self.loop(at, bound, "left"):
                    self._edge(at)
            self._results(last, "columns", left - width, across)
            self._inside(at, last)
            if right:
                self._results(last, "columns", left + right - width, across)
                with self.loop(at, last, "right"):
                    self._edge(at)
            b.emit("shl", at, 2)
            b.emit("add", self.to, at)

    def _results(self, to: Variable, field: str, more: int, apart: int) -> None:
        """`to` = how many windows begin among so many rows or columns and `more`."""
        b = self.b
        b.emit("mov", to, self.field(field))
        b.emit("add", to, more)
        if apart > 1:
            b.emit("sar", to, apart.bit_length() - 1)
        b.emit("inc", to)

    def _clamped(self, to: Variable, at: Variable, apart: int, shift: int, field: str) -> None:
        """`to` = at * apart + shift, but from 0 to field - 1."""
        b, limit = self.b, self.b.general("limit")
        b.emit("imul", to, at, apart)
        b.emit("add", to, shift)
        b.emit("zero", limit)
        b.emit("max", to, limit)
        b.emit("mov", limit, self.field(field))
        b.emit("dec", limit)
        b.emit("min", to, limit)

    def _edge(self, at: Variable) -> None:
        """One result, of columns that are inside."""
        b, value, column = self.b, self.b.vector("value"), self.b.general("column")
        for shift in range(self.work.kernel[1]):
            self._clamped(column, at, self.work.strides[1], shift - self.work.pads[1], "columns")
            for index, line in enumerate(self.lines):
                if shift == index == 0:
                    b.emit("broadcast", value, b.at(line, index=column, scale=4, repeat=True))
                else:
                    b.emit("max", value, value, b.at(line, index=column, scale=4, repeat=True))
        b.emit("store_masked", b.at(self.to, index=at, scale=4), value, self.mask(1))

    def _inside(self, at: Variable, last: Variable) -> None:
        """Results from `at` to `last`, whose windows are whole; `last` is used up."""
        b, lanes, bound = self.b, self.machine.lanes, self.b.general("bound")
        b.emit("lea", bound, b.at(last, 1 - lanes))
        with self.loop(at, bound, "vector", lanes):
            b.emit("store", b.at(self.to, index=at, scale=4), self._windows(at, None))
        whole = b.fresh_label("whole")
        b.emit("sub", last, at)
        b.emit("jump_less_equal", whole)
        b.emit("store_masked", b.at(self.to, index=at, scale=4), self._windows(at, last), self.mask(last))
        b.emit("add", at, last)
        b.label(whole)

    def _windows(self, at: Variable, rest: Variable | None) -> Variable:
        """The maxima of a vector of windows, of which `rest` exist."""
        b, apart, width = self.b, self.work.strides[1], self.work.kernel[1]
        first = at
        if apart > 1:
            first = b.general("first")
            b.emit("imul", first, at, apart)
        masks = [None] * apart if rest is None else [self._part(rest, part) for part in range(apart)]
        if apart == 1:
            value = self._column(first, 0, masks[0])
            for shift in range(1, width):
                b.emit("max", value, value, self._column(first, shift, masks[0]))
            return value
        lanes = self.machine.lanes
        values = [self._column(first, part * lanes, mask) for part, mask in enumerate(masks)]
        while len(values) > 1:
            values = [self._paired(*values[index : index + 2]) for index in range(0, len(values), 2)]
        [value] = values
        if width > apart:  # a third column: the odd lanes from the second one on
            low, high = (self._column(first, 1 + part * lanes, mask) for part, mask in enumerate(masks))
            b.emit("max", value, value, self._half(1, low, high))
        return value

    def _part(self, rest: Variable, part: int) -> Variable:
        """The mask of vector `part` of those that `rest` windows read."""
        b, count, limit = self.b, self.b.general("count"), self.b.general("limit")
        b.emit("imul", count, rest, self.work.strides[1])
        b.emit("sub", count, part * self.machine.lanes)
        b.emit("zero", limit)
        b.emit("max", count, limit)
        b.emit("mov", limit, self.machine.lanes)
        b.emit("min", count, limit)
        mask = b.mask("lanes")
        b.emit("mask_from_count", mask, count)
        return mask

    def _column(self, first: Variable, shift: int, mask: Variable | None) -> Variable:
        """The maxima of columns from number first + shift - padding on."""
        b, value = self.b, self.b.vector("value")
        for index, line in enumerate(self.lines):
            where = b.at(line, 4 * (shift - self.work.pads[1]), index=first, scale=4)
            other = value if index == 0 else b.vector("other")
            if mask is None:
                b.emit("load", other, where)
            else:
                b.emit("load_masked", other, where, mask)
            if index:
                b.emit("max", value, value, other)
        return value

    def _paired(self, low: Variable, high: Variable) -> Variable:
        """The larger one of each two lanes of two vectors."""
        value = self.b.vector("value")
        self.b.emit("max", value, self._half(0, low, high), self._half(1, low, high))
        return value

    def _half(self, place: int, low: Variable, high: Variable) -> Variable:
        """The even lanes (place 0) of two vectors, or the odd ones."""
        b, value = self.b, self.b.vector("value")
        if self.halves:
            b.emit("pick", value, low, self.halves[place], high)
            return value
        b.emit("shuffle_within", value, low, high, 0x88 if place == 0 else 0xDD)
        b.emit("permute_pairs", value, value, 0xD8)
        return value
