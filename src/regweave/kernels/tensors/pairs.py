"""Products of pairs of matrices that are both computed: an attention's scores, and its sums of values.

    y[p] = alpha * a[p] @ b[p]      a [rows, depth] with any strides, b [depth, columns] and y in rows

    four rows of a, two vectors of b's columns     8 sums; for each k two vectors are loaded and four numbers
                                                   are repeated to all lanes

Where rows are no multiple of four the last four are taken again, where there are fewer each goes alone; the
last columns are done under a mask. These products are small (40 rows of 15 numbers for a line of text), so
nothing is packed, and nothing is blocked for the cache.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.division import share_among
from regweave.machines.x86 import VectorMachine

_ROWS, _VECTORS = 4, 2


class PairArguments(ctypes.Structure):
    """Addresses; how many pairs, and their sizes; bytes from one row of a to the next, from one column of a
    to the next, from one row of b, and of y; from one pair to the next; a number for all; parts."""

    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in (
                "a", "b", "y", "pairs", "rows", "depth", "columns", "a_row", "a_column", "b_row", "y_row",
                "a_pitch", "b_pitch", "y_pitch", "parts",
            )
        ),
        ("alpha", ctypes.c_float),
    )  # fmt: skip


def pair_kernel(machine: VectorMachine) -> Listing:
    """The kernel `void f(const PairArguments *, size_t part)`; a part does some of the pairs."""
    return _Pairs(machine).write()


class _Pairs:
    def __init__(self, machine: VectorMachine) -> None:
        self.machine, self.line = machine, machine.vector_bytes
        self.b = b = Builder(machine, name="rw_pairs", arguments=("args", "part"))
        self.place = {name: b.stack(8) for name in ("a", "b", "y", "left", "row", "last")}
        self.mask = b.mask("last_columns")

    def field(self, name: str) -> Memory:
        return self.b.at("args", getattr(PairArguments, name).offset)

    def write(self) -> Listing:
        b, place = self.b, self.place
        pair, done = b.fresh_label("pair"), b.fresh_label("done")
        count, rest = b.general("count"), b.general("rest")
        b.emit("mov", count, self.field("pairs"))
        first, last = share_among(b, count, self.field("parts"))
        b.emit("sub", last, first)
        b.emit("jump_less_equal", done)
        b.emit("mov", place["left"], last)
        for name in ("a", "b", "y"):
            b.emit("mov", count, first)
            b.emit("imul", count, self.field(f"{name}_pitch"))
            b.emit("add", count, self.field(name))
            b.emit("mov", place[name], count)
        b.emit("mov", rest, self.field("columns"))
        b.emit("and", rest, self.machine.lanes - 1)
        b.emit("mask_from_count", self.mask, rest)
        b.label(pair)
        self._pair()
        for name in ("a", "b", "y"):
            b.emit("mov", count, place[name])
            b.emit("add", count, self.field(f"{name}_pitch"))
            b.emit("mov", place[name], count)
        b.emit("mov", count, place["left"])
        b.emit("sub", count, 1)
        b.emit("mov", place["left"], count)
        b.emit("jump_nonzero", pair)
        b.label(done)
        b.emit("return")
        return b.finish()

    def _pair(self) -> None:
        """Four rows at a time, the last four again where some are left; single rows where there are fewer."""
        b, place = self.b, self.place
        few, end = b.fresh_label("few"), b.fresh_label("pair_done")
        row = b.general("row")
        b.emit("mov", row, self.field("rows"))
        b.emit("sub", row, _ROWS)
        b.emit("jump_less", few)
        b.emit("mov", place["last"], row)
        self._by_rows(_ROWS)
        b.emit("jump", end)
        b.label(few)
        row = b.general("row")
        b.emit("mov", row, self.field("rows"))
        b.emit("sub", row, 1)
        b.emit("mov", place["last"], row)
        self._by_rows(1)
        b.label(end)

    def _by_rows(self, rows: int) -> None:
        """Tiles of so many rows from 0 to `last`, which is the last one's first."""
        b, place = self.b, self.place
        again, enough = b.fresh_label("rows"), b.fresh_label("rows_done")
        row = b.general("row")
        b.emit("zero", row)
        b.emit("mov", place["row"], row)
        b.label(again)
        self._columns(rows)
        row, last = b.general("row"), b.general("last")
        b.emit("mov", row, place["row"])
        b.emit("mov", last, place["last"])
        b.emit("cmp", row, last)
        b.emit("jump_greater_equal", enough)
        b.emit("add", row, rows)
        b.emit("min", row, last)
        b.emit("mov", place["row"], row)
        b.emit("jump", again)
        b.label(enough)

    def _columns(self, rows: int) -> None:
        """All columns of some rows: pairs of vectors, one vector, and the last columns."""
        b, place = self.b, self.place
        a, to, at, left = b.general("a"), b.general("to"), b.general("at"), b.general("left")
        for address, name, row in ((a, "a", "a_row"), (to, "y", "y_row")):
            b.emit("mov", address, place["row"])
            b.emit("imul", address, self.field(row))
            b.emit("add", address, place[name])
        b.emit("mov", at, place["b"])
        b.emit("mov", left, self.field("columns"))
        two, one, some, done = (b.fresh_label(name) for name in ("two", "one", "some", "columns_done"))
        lanes = self.machine.lanes
        b.label(two)
        b.emit("cmp", left, _VECTORS * lanes)
        b.emit("jump_less", one)
        self._tile(rows, _VECTORS, a, at, to)
        for address in (at, to):
            b.emit("add", address, _VECTORS * self.line)
        b.emit("sub", left, _VECTORS * lanes)
        b.emit("jump", two)
        b.label(one)
        b.emit("cmp", left, lanes)
        b.emit("jump_less", some)
        self._tile(rows, 1, a, at, to)
        for address in (at, to):
            b.emit("add", address, self.line)
        b.emit("sub", left, lanes)
        b.label(some)
        b.emit("test", left, left)
        b.emit("jump_zero", done)
        self._tile(rows, 1, a, at, to, self.mask)
        b.label(done)

    def _tile(
        self,
        rows: int,
        vectors: int,
        a: Variable,
        at: Variable,
        to: Variable,
        mask: Variable | None = None,
    ) -> None:
        b = self.b
        sums = [b.vectors("sum", vectors) for _ in range(rows)]
        for row in sums:
            for total in row:
                b.emit("zero", total)
        source, weights, depth = b.general("source"), b.general("weights"), b.general("depth")
        again, empty = b.fresh_label("depth"), b.fresh_label("no_depth")
        b.emit("mov", depth, self.field("depth"))
        b.emit("test", depth, depth)
        b.emit("jump_zero", empty)
        b.emit("mov", source, a)
        b.emit("mov", weights, at)
        pitch = b.general("pitch")
        b.emit("mov", pitch, self.field("a_row"))
        thrice = b.general("thrice")
        b.emit("imul", thrice, pitch, 3)
        steps = ((None, 1), (pitch, 1), (pitch, 2), (thrice, 1))
        places = [b.at(source, index=index, scale=scale) for index, scale in steps]
        b.label(again)
        loaded = b.vectors("columns", vectors)
        for index, value in enumerate(loaded):
            where = b.at(weights, index * self.line)
            if mask is None:
                b.emit("load", value, where)
            else:
                b.emit("load_masked", value, where, mask)
        for row, place in zip(sums, places, strict=False):
            number = b.vector("number")
            b.emit("broadcast", number, place)
            for total, value in zip(row, loaded, strict=True):
                b.emit("fma", total, number, value)
        b.emit("add", source, self.field("a_column"))
        b.emit("add", weights, self.field("b_row"))
        b.emit("dec", depth)
        b.emit("jump_nonzero", again)
        b.label(empty)
        alpha = b.vector("alpha")
        b.emit("broadcast", alpha, self.field("alpha"))
        out = b.general("out")
        b.emit("mov", out, to)
        for index, row in enumerate(sums):
            if index:
                b.emit("add", out, self.field("y_row"))
            self._store(row, alpha, out, mask)

    def _store(self, row: Sequence[Variable], alpha: Variable, out: Variable, mask: Variable | None) -> None:
        b = self.b
        for index, total in enumerate(row):
            b.emit("mul", total, total, alpha)
            where = b.at(out, index * self.line)
            if mask is None:
                b.emit("store", where, total)
            else:
                b.emit("store_masked", where, total, mask)
