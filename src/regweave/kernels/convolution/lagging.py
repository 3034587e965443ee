"""Blocks of one vector in a row, one after the other, each stored some blocks later.

Where rows of image and result start a multiple of 4096 bytes apart, loads and stores that follow each other
differ in the upper bits of their addresses only. Processors compare the lower twelve first, take such a load
for one that reads what was just stored, and let it wait: a 5 x 5 kernel on 4096 x 4096 then runs at 60 % of
the peak instead of 84 %. So results go to a ring of columns on the stack, and from there past the caches
while a column 384 bytes further on is computed:

    column t:  for each row:  result -> ring[t];  ring[t - 6] -> memory

For the first columns there is nothing to be stored yet; what is in the ring then goes to where the right
results follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.variables import Variable
from regweave.kernels.convolution.arguments import BlockEntry
from regweave.kernels.convolution.column import Column
from regweave.kernels.convolution.tile import ConvTile
from regweave.kernels.workspace import Workspace
from regweave.values import frozen

#: Columns from computing to storing; columns of the ring, a power of two above it.
_LAG, _RING = 6, 8


@frozen
class LaggingRun:
    """Routine: the blocks of the entry at register `near`, each one whole vector; else as Column."""

    tile: ConvTile

    @property
    def stem(self) -> str:
        return "lagging_run"

    def write(self, w: Workspace) -> None:
        b, r, tile, size = w.b, w.r, self.tile, w.geometry.vector_bytes
        column = Column(tile, 1, edge=False)
        slot = size * (1 << (tile.rows - 1).bit_length())
        ring = b.stack(_RING * slot, align=64)
        below, across, behind, to = (b.general(s) for s in ("below", "across", "behind", "to"))
        at = column.addresses(w, below)
        b.emit("mov", r.walk, w.slot("weights"))
        weights = column.weights(w)
        fresh, stale, value = b.general("fresh"), b.general("stale"), b.general("value")
        b.emit("mov", behind, w.slot("out_base"))
        b.emit("add", behind, b.at(r.near, BlockEntry.y.offset))
        b.emit("zero", across)
        b.emit("mov", value, b.at(r.near, BlockEntry.columns.offset))
        b.emit("shr", value, w.geometry.lanes.bit_length() - 1)
        b.emit("mov", w.slot("run_left"), value)
        b.emit("mov", w.slot("run_lag"), _LAG)
        b.emit("mov", w.slot("run_at"), 0)
        top = b.fresh_label("column")
        b.label(top)
        b.emit("mov", below, across)
        b.emit("mov", to, behind)
        for place, back in ((fresh, 0), (stale, _LAG)):
            self._ring_place(w, place, ring, slot, back)

        def finish(row: int, results: Sequence[Variable]) -> None:
            old = b.vector("old")
            b.emit("store", b.at(fresh, row * size), results[0])
            b.emit("load", old, b.at(stale, row * size))
            b.emit("store_stream", b.at(to), old)
            if row + 1 < tile.rows:
                b.emit("add", to, w.slot("y_row"))

        column.rows(w, at, below, weights, finish)
        b.emit("add", across, size)
        w.advance_slot("run_at", 1)
        self._move(w, behind, value)
        self._count_down(w, "run_left", value, top)
        self._rest(w, across, behind, stale, ring, slot)
        b.emit("ret")

    def _ring_place(self, w: Workspace, place: Variable, ring: object, slot: int, back: int) -> None:
        """place = the ring's memory for the column `back` before slot run_at."""
        b, value = w.b, w.b.general("number")
        b.emit("mov", place, w.slot("run_at"))
        b.emit("sub", place, back)
        b.emit("and", place, _RING - 1)
        b.emit("imul", place, place, slot)
        b.emit("lea", value, ring)
        b.emit("add", place, value)

    def _move(self, w: Workspace, behind: Variable, value: Variable) -> None:
        """`behind` to the next column, once the lag is over."""
        b, waiting = w.b, w.b.fresh_label("waiting")
        b.emit("mov", value, w.slot("run_lag"))
        b.emit("dec", value)
        b.emit("mov", w.slot("run_lag"), value)
        b.emit("jump_not_negative", waiting)
        b.emit("add", behind, w.geometry.vector_bytes)
        b.label(waiting)

    def _count_down(self, w: Workspace, slot: str, value: Variable, top: str) -> None:
        b = w.b
        b.emit("mov", value, w.slot(slot))
        b.emit("dec", value)
        b.emit("mov", w.slot(slot), value)
        b.emit("jump_nonzero", top)

    def _rest(
        self, w: Workspace, columns: Variable, behind: Variable, stale: Variable, ring: object, slot: int
    ) -> None:
        """The last columns, as many as the lag, or all where there were fewer."""
        b, size = w.b, w.geometry.vector_bytes
        most, to, old = b.general("most"), b.general("to"), b.vector("old")
        b.emit("shr", columns, size.bit_length() - 1)
        b.emit("mov", most, _LAG)
        b.emit("min", columns, most)
        top = b.fresh_label("rest")
        b.label(top)
        b.emit("mov", stale, w.slot("run_at"))
        b.emit("sub", stale, columns)
        b.emit("and", stale, _RING - 1)
        b.emit("imul", stale, stale, slot)
        b.emit("lea", most, ring)
        b.emit("add", stale, most)
        b.emit("mov", to, behind)
        for row in range(self.tile.rows):
            b.emit("load", old, b.at(stale, row * size))
            b.emit("store_stream", b.at(to), old)
            if row + 1 < self.tile.rows:
                b.emit("add", to, w.slot("y_row"))
        b.emit("add", behind, size)
        b.emit("dec", columns)
        b.emit("jump_nonzero", top)
