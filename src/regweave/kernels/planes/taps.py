"""Sums of taps: what is left of a convolution of an enlarged image, its products done on the small one.

    enlarged twice, 3 x 3 taps     row 2i     = tap row 0 of i - 1, 1 of i, 2 of i
                                   row 2i + 1 = tap row 0 of i,     1 of i, 2 of i + 1      columns alike

Taps of one row of the image meet in few ways: from the row before, all in the row, from the row behind. For
each of those, and each of the same ways along the columns, a vector of sums is made of a vector of pixels;
then every pixel goes to as many places as the image is enlarged by, and the columns' ways take turns.

    enlarged 4 times    row 4i: before, rows 4i + 1 and 4i + 2: in the row (the same sums), row 4i + 3: behind

Outside the image there is nothing to add: masks leave it out, and the first column's left neighbour.
"""

from __future__ import annotations

import numpy as np

from regweave.assembly.variables import Variable
from regweave.kernels.planes.loops import PlaneLoops
from regweave.machines.x86 import VectorMachine
from regweave.operators import EnlargedTaps

_MOST_SIDE = 5

Ways = dict[tuple[int, ...], list[int]]


def can_sum(work: EnlargedTaps, machine: VectorMachine) -> bool:
    """Whether there is a kernel: no tap further away than a pixel's neighbour, vectors of whole pixels."""
    reaches = work.side // 2 <= work.scale and work.side % 2 == 1 and work.side <= _MOST_SIDE
    return reaches and work.scale > 1 and machine.lanes % work.scale == 0


class TapSums(PlaneLoops):
    """The kernel, see above."""

    def __init__(self, work: EnlargedTaps, machine: VectorMachine) -> None:
        super().__init__(machine, "rw_taps", work.side**2)
        self.work, b = work, self.b
        self.addend = b.general("addend") if work.added else None
        if self.addend is not None:
            self.pointers.append((self.addend, "addend"))
        # the ways in which taps meet, each with the phases that do so
        self.ways: Ways = {}
        for phase in range(work.scale):
            self.ways.setdefault(work.offsets(phase), []).append(phase)
        lanes = np.arange(machine.lanes, dtype=np.int32)
        self.places = [
            b.data(((part * machine.lanes + lanes) // work.scale).tobytes()) for part in range(work.scale)
        ]
        self.own = [
            b.data(np.where(np.isin(lanes % work.scale, phases), -1, 0).astype(np.int32).tobytes())
            for phases in self.ways.values()
        ]
        self.before = b.data(np.maximum(lanes - 1, 0).tobytes())
        self.not_first = b.data(np.where(lanes > 0, -1, 0).astype(np.int32).tobytes())

    def plane(self) -> None:
        b, lanes, scale = self.b, self.machine.lanes, self.work.scale
        row, at, line = b.general("row"), b.general("at"), b.general("line")
        b.emit("zero", row)
        with self.loop(row, self.field("rows"), "row"):
            b.emit("zero", at)
            self._vectors(row, at, first=True)
            b.emit("mov", at, lanes)
            with self.loop(at, self.field("columns"), "vector", lanes):
                self._vectors(row, at, first=False)
            b.emit("mov", line, self.field("columns"))
            b.emit("shl", line, 2)
            b.emit("add", self.source, line)
            b.emit("imul", line, line, scale**2)
            for pointer in filter(None, (self.to, self.addend)):
                b.emit("add", pointer, line)

    def _vectors(self, row: Variable, at: Variable, *, first: bool) -> None:
        """All results of one vector of pixels of a row, the first one of its row or not."""
        b = self.b
        rest = b.stack(8)
        count = b.general("count")
        b.emit("mov", count, self.field("columns"))
        b.emit("sub", count, at)
        b.emit("mov", rest, count)
        for rows, phases in self.ways.items():
            sums = self._sums(row, at, rows, first)
            for part in range(self.work.scale):
                self._store(at, part, phases, self._result(part, sums), rest)

    def _sums(self, row: Variable, at: Variable, rows: tuple[int, ...], first: bool) -> list[Variable]:
        """For each way along the columns the sums of a vector of pixels, for one way along the rows."""
        b, side = self.b, self.work.side
        sums = b.vectors("sum", len(self.ways))
        for total in sums:
            b.emit("zero", total)
        plane = b.general("plane")
        b.emit("lea", plane, b.at(self.source, index=at, scale=4))
        for tap_row, offset in enumerate(rows):
            here, count = b.general("here"), b.general("count")
            b.emit("mov", here, plane)
            b.emit("mov", count, self.field("columns"))
            if offset:
                line = b.general("line")
                b.emit("lea", line, b.at(count, index=count))
                b.emit("add", line, line)
                b.emit("add" if offset > 0 else "sub", here, line)
            b.emit("sub", count, at)
            if offset:
                self._drop_outside(count, row, offset)
            mask, shifted = b.mask("lanes"), b.mask("shifted")
            b.emit("mask_from_count", mask, count)
            b.emit("sub", count, 1)
            none = b.general("none")
            b.emit("zero", none)
            b.emit("max", count, none)
            b.emit("mask_from_count", shifted, count)
            for tap in range(side):
                for offset_columns in sorted({columns[tap] for columns in self.ways}):
                    value = self._pixels(here, offset_columns, shifted if offset_columns > 0 else mask, first)
                    for total, columns in zip(sums, self.ways, strict=True):
                        if columns[tap] == offset_columns:
                            b.emit("add", total, total, value)
                b.emit("add", here, self.field("x_plane"))
            if tap_row + 1 < side:
                step = b.general("step")
                b.emit("mov", step, self.field("x_plane"))
                b.emit("imul", step, step, side)
                b.emit("add", plane, step)
        return sums

    def _drop_outside(self, count: Variable, row: Variable, offset: int) -> None:
        """`count` = 0 where the row before or behind does not exist."""
        b, inside = self.b, self.b.fresh_label("inside")
        edge = b.general("edge")
        b.emit("mov", edge, row)
        if offset < 0:
            b.emit("add", edge, self.field("above"))
            b.emit("cmp", edge, 0)
        else:
            b.emit("sub", edge, self.field("below"))
            b.emit("add", edge, 1)
            b.emit("cmp", edge, self.field("rows"))
        b.emit("jump_not_equal", inside)
        b.emit("zero", count)
        b.label(inside)

    def _pixels(self, here: Variable, offset: int, mask: Variable, first: bool) -> Variable:
        """A vector of a tap's plane, `offset` columns on."""
        b, value = self.b, self.b.vector("value")
        if first and offset < 0:
            index = b.vector("index")
            b.emit("load_masked", value, b.at(here), mask)
            b.emit("load", index, self.before)
            b.emit("permute", value, index, value)
            b.emit("and", value, value, self.not_first)
        else:
            b.emit("load_masked", value, b.at(here, 4 * offset), mask)
        return value

    def _result(self, part: int, sums: list[Variable]) -> Variable:
        """Vector `part` of the results: every pixel as often as needed, each phase from its own sums."""
        b, index = self.b, self.b.vector("index")
        b.emit("load", index, self.places[part])
        result = None
        for total, own in zip(sums, self.own, strict=True):
            moved = b.vector("moved")
            b.emit("permute", moved, index, total)
            if len(sums) > 1:
                b.emit("and", moved, moved, own)
            if result is not None:
                b.emit("or", moved, moved, result)
            result = moved
        assert result is not None, "there is at least one way"
        return result

    def _store(self, at: Variable, part: int, phases: list[int], result: Variable, rest: object) -> None:
        """A vector of results to the rows of these phases, with what is added to it."""
        b, lanes, scale = self.b, self.machine.lanes, self.work.scale
        count, none = b.general("count"), b.general("none")
        b.emit("mov", count, rest)
        b.emit("imul", count, count, scale)
        b.emit("sub", count, part * lanes)
        b.emit("zero", none)
        b.emit("max", count, none)
        mask = self.mask(count)
        line, from_row = b.general("line"), b.general("from_row")
        b.emit("mov", line, self.field("columns"))
        b.emit("imul", line, line, 4 * scale)
        b.emit("imul", from_row, line, phases[0])
        b.emit("imul", count, at, 4 * scale)
        b.emit("add", from_row, count)
        zero = b.vector("nought")
        b.emit("zero", zero)
        for number in range(len(phases)):
            value = result
            if self.addend is not None:
                value = b.vector("value")
                b.emit("load_masked", value, b.at(self.addend, part * self.size, index=from_row), mask)
                b.emit("add", value, value, result)
            if self.work.positive:
                limited = b.vector("limited")
                b.emit("max", limited, zero, value)  # NaN where the value is
                value = limited
            b.emit("store_masked", b.at(self.to, part * self.size, index=from_row), value, mask)
            if number + 1 < len(phases):
                b.emit("add", from_row, line)
