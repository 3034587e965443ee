"""Between the convolutions of a region, plane by plane: nearest neighbours, the largest of a window, pixels
of several planes side by side.

    repeat (2, 2)     a b      a a b b        largest of 2x2, padded     a b c      . . .
                      c d  ->  a a b b        on the right and below     d e f  ->  e f f
                               c c d d                                              . . .
                               c c d d

Images are plain, rows one behind the other; planes of input and result may stand anywhere, so a result can be
the part of a concatenation. A part of the work is a range of planes, of every image.

`repeat (1, 1)` copies. Windows are in windows.py, sums of taps in taps.py.
"""

from __future__ import annotations

import numpy as np

from regweave.assembly import Listing
from regweave.assembly.variables import Variable
from regweave.kernels.planes.loops import PlaneLoops
from regweave.kernels.planes.taps import TapSums, can_sum
from regweave.kernels.planes.windows import Windows
from regweave.machines.x86 import VectorMachine
from regweave.operators import EnlargedTaps, PixelShuffle, PlaneWork, Repeat


def can_run(work: PlaneWork, machine: VectorMachine) -> bool:
    """Whether there is a kernel: vectors that hold whole repetitions, windows of few rows."""
    if isinstance(work, Repeat):
        return work.vertical >= 1 and work.horizontal >= 1 and machine.lanes % work.horizontal == 0
    if isinstance(work, PixelShuffle):
        return work.side in (1, 2, 4)
    if isinstance(work, EnlargedTaps):
        return can_sum(work, machine)
    return work.is_small


def plane_kernel(work: PlaneWork, machine: VectorMachine) -> Listing:
    """The kernel `void f(const PlaneArguments *, size_t part)`."""
    assert can_run(work, machine), "the engine asks first"
    if isinstance(work, PixelShuffle):
        return _Shuffling(work, machine).write()
    if isinstance(work, EnlargedTaps):
        return TapSums(work, machine).write()
    return _Repeating(work, machine).write() if isinstance(work, Repeat) else Windows(work, machine).write()


class _Repeating(PlaneLoops):
    def __init__(self, work: Repeat, machine: VectorMachine) -> None:
        super().__init__(machine, "rw_repeat")
        self.work, self.taken = work, self.size // work.horizontal
        b = self.b
        self.index, self.some = b.vector("index"), None
        if work.horizontal > 1:
            lanes = np.arange(machine.lanes, dtype=np.int32) // work.horizontal
            b.emit("load", self.index, b.data(lanes.tobytes()))
            self.some = self.mask(self.taken // 4)

    def plane(self) -> None:
        b, work = self.b, self.work
        row, at, width, bound = b.general("row"), b.general("at"), b.general("width"), b.general("bound")
        b.emit("mov", width, self.field("columns"))
        b.emit("imul", width, width, 4 * work.horizontal)
        b.emit("zero", row)
        with self.loop(row, self.field("rows"), "row"):
            b.emit("zero", at)
            b.emit("mov", bound, width)
            b.emit("sub", bound, self.size - 1)
            with self.loop(at, bound, "vector", self.size):
                self._vector(at, width, self.some, None)
                b.emit("add", self.source, self.taken)
            whole = b.fresh_label("whole")
            b.emit("mov", bound, width)
            b.emit("sub", bound, at)
            b.emit("jump_less_equal", whole)
            b.emit("shr", bound, 2)
            rest = self.mask(bound)
            b.emit("mov", bound, width)
            b.emit("sub", bound, at)
            if work.horizontal > 1:
                b.emit("shr", bound, work.horizontal.bit_length() - 1)
            source = b.general("elements")
            b.emit("mov", source, bound)
            b.emit("shr", source, 2)
            self._vector(at, width, self.mask(source), rest)
            b.emit("add", self.source, bound)
            b.label(whole)
            b.emit("imul", bound, width, work.vertical)
            b.emit("add", self.to, bound)

    def _vector(self, at: Variable, width: Variable, taken: Variable | None, given: Variable | None) -> None:
        b, value, to = self.b, self.b.vector("value"), self.b.general("line")
        if taken is None:
            b.emit("load", value, b.at(self.source))
        else:
            b.emit("load_masked", value, b.at(self.source), taken)
        if self.work.horizontal > 1:
            b.emit("permute", value, self.index, value)
        b.emit("lea", to, b.at(self.to, index=at))
        for index in range(self.work.vertical):
            if given is None:
                b.emit("store", b.at(to), value)
            else:
                b.emit("store_masked", b.at(to), value, given)
            if index + 1 < self.work.vertical:
                b.emit("add", to, width)


class _Shuffling(PlaneLoops):
    """Vectors of neighbouring planes, one of each, become as many vectors of a row: pixels move to where they
    belong, those of the other planes are masked away."""

    def __init__(self, work: PixelShuffle, machine: VectorMachine) -> None:
        super().__init__(machine, "rw_shuffle", work.side**2)
        self.side, b = work.side, self.b
        self.lines = [b.general(f"line{column}") for column in range(self.side)]
        lanes = np.arange(machine.lanes, dtype=np.int32)
        self.indices = [b.vector(f"index{part}") for part in range(self.side)]
        for part, index in enumerate(self.indices):
            b.emit("load", index, b.data(((part * machine.lanes + lanes) // self.side).tobytes()))
        self.own = [
            b.data(np.where(lanes % self.side == column, -1, 0).astype(np.int32).tobytes())
            for column in range(self.side)
        ]

    def plane(self) -> None:
        b = self.b
        row, at, bound = b.general("row"), b.general("at"), b.general("bound")
        b.emit("zero", row)
        with self.loop(row, self.field("rows"), "row"):
            for index in range(self.side):
                for column, line in enumerate(self.lines):
                    b.emit("mov", line, self.field("x_plane"))
                    b.emit("imul", line, line, index * self.side + column)
                    b.emit("add", line, self.source)
                b.emit("zero", at)
                b.emit("mov", bound, self.field("columns"))
                b.emit("sub", bound, self.machine.lanes - 1)
                with self.loop(at, bound, "vector", self.machine.lanes):
                    self._vectors(at, None)
                whole, rest = b.fresh_label("whole"), b.general("rest")
                b.emit("mov", rest, self.field("columns"))
                b.emit("sub", rest, at)
                b.emit("jump_less_equal", whole)
                self._vectors(at, rest)
                b.label(whole)
            b.emit("mov", bound, self.field("columns"))
            b.emit("shl", bound, 2)
            b.emit("add", self.source, bound)

    def _vectors(self, at: Variable, rest: Variable | None) -> None:
        """A vector of each plane from column `at`, of which `rest` exist, as part of a row."""
        b, lanes = self.b, self.machine.lanes
        taken = None if rest is None else self.mask(rest)
        values = []
        for line in self.lines:
            values.append(b.vector("value"))
            where = b.at(line, index=at, scale=4)
            if taken is None:
                b.emit("load", values[-1], where)
            else:
                b.emit("load_masked", values[-1], where, taken)
        for part, index in enumerate(self.indices):
            result = None
            for value, own in zip(values, self.own, strict=True):
                moved = b.vector("moved")
                b.emit("permute", moved, index, value)
                b.emit("and", moved, moved, own)
                if result is not None:
                    b.emit("or", moved, moved, result)
                result = moved
            assert result is not None, "there is at least one plane"
            if rest is None:
                b.emit("store", b.at(self.to), result)
                b.emit("add", self.to, self.size)
                continue
            count, limit = b.general("count"), b.general("limit")
            b.emit("imul", count, rest, self.side)
            b.emit("sub", count, part * lanes)
            b.emit("zero", limit)
            b.emit("max", count, limit)
            b.emit("mov", limit, lanes)
            b.emit("min", count, limit)
            b.emit("store_masked", b.at(self.to), result, self.mask(count))
            b.emit("shl", count, 2)
            b.emit("add", self.to, count)
