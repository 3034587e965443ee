"""Rows that two bands make: the last band ends with the image, the one before writes what both have.

    14 rows of results in bands of 4:   0-3   4-7   8-11   10-13      10 and 11 are written by the third band

Transformed rows round as their group of rows does, so the two bands' results differ in the last bits; if both
wrote them, the threads' order would decide. Groups that the band before has are passed over. Of a group that
it has in part, all rows are written from the first new one's place on: those that are not new go there too,
and the first new row, which comes behind them, overwrites them. So stores stay the same instructions, and
only the steps from row to row are other ones.

    rows 10, 11, 12, 13:  places 12, 12, 12, 13      steps 0, 0, y_row
"""

from __future__ import annotations

from regweave.assembly.variables import Memory
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.tile import ConvTile


def step_slot(w: Workspace, tile: ConvTile, row: int) -> Memory:
    """The slot of the bytes from where a row of the tile is written to the place of the next one."""
    return w.slot(f"y_step_{row}" if tile.overlaps else "y_row")


def whole_steps(w: Workspace, tile: ConvTile) -> None:
    """All rows of a tile are written, each to its own place."""
    for row in range(tile.out_rows - 1):
        w.copy_slot(f"y_step_{row}", "y_row")


def row_place(tile: ConvTile) -> str:
    """The slot that says where a row of results is written."""
    return "row_out" if tile.by_blocks else "out_base"


def begin_rows(w: Workspace, tile: ConvTile, passed: str) -> None:
    """To `passed` if the band before has all rows of the tile; slot `had_left` is how many rows it has from
    here on. If it has some of them, the place of the rows moves to the first new one."""
    b, rows = w.b, tile.out_rows
    had, step, whole = b.general("had"), b.general("step"), b.fresh_label("whole_tile")
    b.emit("mov", had, w.slot("had_left"))
    b.emit("cmp", had, 0)
    b.emit("jump_less_equal", whole)
    b.emit("cmp", had, rows)
    b.emit("jump_greater_equal", passed)
    for row in range(rows - 1):
        new = b.fresh_label("new_row")
        b.emit("cmp", had, row)
        b.emit("jump_less_equal", new)
        b.emit("mov", w.slot(f"y_step_{row}"), 0)
        b.label(new)
    b.emit("mov", step, w.slot("y_row"))
    b.emit("imul", step, had)
    w.advance_slot(row_place(tile), step)
    b.label(whole)


def end_rows(w: Workspace, tile: ConvTile) -> None:
    """What `begin_rows` has changed is as before; slot `had_left` stays."""
    b = w.b
    had, step, whole = b.general("had"), b.general("step"), b.fresh_label("whole_tile")
    b.emit("mov", had, w.slot("had_left"))
    b.emit("cmp", had, 0)
    b.emit("jump_less_equal", whole)
    whole_steps(w, tile)
    b.emit("imul", step, w.slot("y_row"), -1)
    b.emit("imul", step, had)
    w.advance_slot(row_place(tile), step)
    b.label(whole)
