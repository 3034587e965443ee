"""The largest, or the mean, of every window of an image in blocks as wide as a vector.

    2 x 2 windows, 2 apart     every lane is a channel, so a window is as many loads as it has pixels
        a b c d
        e f g h   ->   max(a, b, e, f)  max(c, d, g, h)

Windows end where the image does: padding is never the largest, and counts in a mean only where that is asked
for. Of a number and NaN the largest is the later one, as in onnxruntime's blocked kernel.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.division import share_among
from regweave.machines.x86 import VectorMachine

#: What is below every number that is not infinite; onnxruntime begins with it.
_LOWEST = -3.4028234663852886e38


class PoolArguments(ctypes.Structure):
    """Addresses; blocks of all images; rows and columns of a plane before and after; parts."""

    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("x", "y", "blocks", "rows", "columns", "high", "wide", "parts")
    )


@dataclass(frozen=True)
class Pool:
    """Windows of `kernel` rows and columns, `strides` apart, on images with `pads` above, to the left, below
    and to the right. A mean is over the pixels of the image in the window, or over all with
    `counts_padding`."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    mean: bool = False
    counts_padding: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every window has a pixel of the image: there is a kernel for such pools."""
        top, left, bottom, right = self.pads
        return max(top, bottom) < self.kernel[0] and max(left, right) < self.kernel[1]

    def size(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of the result; at least 0."""
        top, left, bottom, right = self.pads
        spare = rows + top + bottom - self.kernel[0], columns + left + right - self.kernel[1]
        high, wide = (max(0, s // stride + 1) for s, stride in zip(spare, self.strides, strict=True))
        return high, wide


def pool_kernel(pool: Pool, machine: VectorMachine) -> Listing:
    """The kernel `void f(const PoolArguments *, size_t part)`; a part does some blocks."""
    assert pool.is_whole, "the engine asks first"
    return _Pooling(pool, machine).write()


class _Pooling:
    def __init__(self, pool: Pool, machine: VectorMachine) -> None:
        self.pool, self.line = pool, machine.vector_bytes
        self.b = b = Builder(machine, name="rw_pool", arguments=("args", "part"))
        self.source, self.to, self.pitch = b.general("source"), b.general("to"), b.general("pitch")

    def _field(self, name: str) -> Memory:
        return self.b.at("args", getattr(PoolArguments, name).offset)

    def write(self) -> Listing:
        b, left, plane = self.b, self.b.general("left"), self.b.general("plane")
        block, done = b.fresh_label("block"), b.fresh_label("done")
        b.emit("mov", self.pitch, self._field("columns"))
        b.emit("imul", self.pitch, self.pitch, self.line)
        b.emit("mov", plane, self.pitch)
        b.emit("imul", plane, self._field("rows"))
        self._range(left, plane)
        b.emit("test", left, left)
        b.emit("jump_less_equal", done)
        size, blocks = b.stack(8), b.stack(8)  # registers are few
        b.emit("mov", size, plane)
        b.emit("mov", blocks, left)
        b.label(block)
        self._plane()
        b.emit("add", self.source, size)
        self._count_down(blocks)
        b.emit("jump_nonzero", block)
        b.label(done)
        b.emit("return")
        return b.finish()

    def _range(self, left: Variable, plane: Variable) -> None:
        """How many blocks the part does, and where the first one lies."""
        b, count = self.b, self.b.general("count")
        b.emit("mov", count, self._field("blocks"))
        first, last = share_among(b, count, self._field("parts"))
        b.emit("mov", left, last)
        b.emit("sub", left, first)
        b.emit("mov", self.source, first)
        b.emit("imul", self.source, plane)
        b.emit("add", self.source, self._field("x"))
        b.emit("mov", self.to, first)
        for name in ("high", "wide"):
            b.emit("imul", self.to, self._field(name))
        b.emit("imul", self.to, self.to, self.line)
        b.emit("add", self.to, self._field("y"))

    def _plane(self) -> None:
        """All results of a block, row by row."""
        b, (down, across) = self.b, self.pool.strides
        (top, left, _, _), (high, wide) = self.pool.pads, self.pool.kernel
        row, column = b.general("row"), b.general("column")
        start, end = b.general("start"), b.general("end")
        first, last = b.general("first_row"), b.general("last_row")
        rows, columns = b.stack(8), b.stack(8)
        line, result = b.fresh_label("line"), b.fresh_label("result")
        b.emit("mov", row, -top)
        b.emit("mov", start, self._field("high"))
        b.emit("mov", rows, start)
        b.label(line)
        self._inside(first, last, row, high, "rows")
        for edge in (first, last):
            b.emit("imul", edge, self.pitch)
            b.emit("add", edge, self.source)
        b.emit("mov", column, -left)
        b.emit("mov", start, self._field("wide"))
        b.emit("mov", columns, start)
        b.label(result)
        self._inside(start, end, column, wide, "columns")
        for edge in (start, end):
            b.emit("imul", edge, edge, self.line)
        b.emit("store", b.at(self.to), self._window(first, last, start, end))
        b.emit("add", self.to, self.line)
        b.emit("add", column, across)
        self._count_down(columns)
        b.emit("jump_nonzero", result)
        b.emit("add", row, down)
        self._count_down(rows)
        b.emit("jump_nonzero", line)

    def _count_down(self, counter: Memory) -> None:
        value = self.b.general("left_over")
        self.b.emit("mov", value, counter)
        self.b.emit("dec", value)
        self.b.emit("mov", counter, value)

    def _inside(self, first: Variable, last: Variable, start: Variable, size: int, bound: str) -> None:
        """The window's rows or columns that the image has, the last one excluded."""
        b, limit = self.b, self.b.general("limit")
        b.emit("lea", last, b.at(start, size))
        b.emit("mov", limit, self._field(bound))
        b.emit("min", last, limit)
        b.emit("zero", first)
        b.emit("max", first, start)

    def _window(self, first: Variable, last: Variable, start: Variable, end: Variable) -> Variable:
        b, pool, total = self.b, self.pool, self.b.vector("total")
        row, at = b.general("at_row"), b.general("at")
        count = b.general("taken") if pool.mean and not pool.counts_padding else None
        line, pixel = b.fresh_label("window_row"), b.fresh_label("pixel")
        if pool.mean:
            b.emit("zero", total)
        else:
            b.emit("broadcast", total, b.constant(_LOWEST))
        if count is not None:
            b.emit("zero", count)
        b.emit("mov", row, first)
        b.label(line)
        b.emit("mov", at, start)
        b.label(pixel)
        b.emit("add" if pool.mean else "max", total, total, b.at(row, index=at))
        if count is not None:
            b.emit("inc", count)
        b.emit("add", at, self.line)
        b.emit("cmp", at, end)
        b.emit("jump_less", pixel)
        b.emit("add", row, self.pitch)
        b.emit("cmp", row, last)
        b.emit("jump_less", line)
        if pool.mean:
            divisor = b.vector("divisor")
            if count is None:
                b.emit("broadcast", divisor, b.constant(float(pool.kernel[0] * pool.kernel[1])))
            else:
                b.emit("broadcast", divisor, count)
                b.emit("from_int", divisor, divisor)
            b.emit("div", total, total, divisor)
        return total
