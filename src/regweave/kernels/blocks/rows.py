"""The rows of results of all planes, as parts: each part does some, one after the other.

    rows of 3 planes of 4 rows, in 2 parts:   0.0 0.1 0.2 0.3 1.0 1.1  |  1.2 1.3 2.0 2.1 2.2 2.3

A part may begin and end within a plane, so that threads have equal shares of few planes as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable


class PlaneRows:
    """The loop of a kernel `void f(const Args *args, size_t part)`; `plane` and `row` hold where it is."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.left, self.row, self.plane = b.stack(8), b.stack(8), b.stack(8)

    def write(
        self,
        planes: Sequence[Memory],
        rows: tuple[Memory, int],
        parts: Memory,
        line: Callable[[], None],
        begin: Callable[[Variable], None] = lambda first: None,
    ) -> None:
        """The whole function: `line` writes a row's work. There are as many planes as the product of
        `planes`, each of `rows`: a field times a number. `begin` writes what comes first, given the register
        that holds which of all rows is the first one."""
        b = self.b
        again, done, same = b.fresh_label("line"), b.fresh_label("done"), b.fresh_label("same")
        first, last, height, plane = (b.general(name) for name in ("first", "last", "rows", "plane"))
        divisor = b.general("parts")
        self._height(height, rows)
        b.emit("mov", last, height)
        for count in planes:
            b.emit("imul", last, count)
        b.emit("mov", first, last)
        b.emit("imul", first, b["part"])
        b.emit("add", last, first)
        b.emit("mov", divisor, parts)
        b.emit("divide_unsigned", first, first, divisor)
        b.emit("divide_unsigned", last, last, divisor)
        b.emit("sub", last, first)
        b.emit("jump_less_equal", done)
        b.emit("mov", self.left, last)
        b.emit("divide_unsigned", plane, first, height)
        b.emit("mov", self.plane, plane)
        begin(first)
        b.emit("imul", height, plane)
        b.emit("sub", first, height)
        b.emit("mov", self.row, first)
        b.label(again)
        line()
        count, height = b.general("count"), b.general("rows")
        self._height(height, rows)
        b.emit("mov", count, self.row)
        b.emit("add", count, 1)
        b.emit("cmp", count, height)
        b.emit("jump_less", same)
        b.emit("mov", count, self.plane)
        b.emit("add", count, 1)
        b.emit("mov", self.plane, count)
        b.emit("zero", count)
        b.label(same)
        b.emit("mov", self.row, count)
        b.emit("mov", count, self.left)
        b.emit("sub", count, 1)
        b.emit("mov", self.left, count)
        b.emit("jump_nonzero", again)
        b.label(done)
        b.emit("return")

    def _height(self, height: Variable, rows: tuple[Memory, int]) -> None:
        self.b.emit("mov", height, rows[0])
        if rows[1] != 1:
            self.b.emit("imul", height, height, rows[1])
