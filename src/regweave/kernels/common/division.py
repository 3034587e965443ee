"""Dividing work over parts, and a part's rows into blocks.

A part takes units [count * part / parts, count * (part + 1) / parts): shares differ by one unit at most,
and parts beyond the number of units find nothing to do. Units are tiles of rows, panels of columns or
panels of pixels, so that dividing never makes a tile smaller.
"""

from __future__ import annotations

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.workspace import Workspace

#: Rows are divided over parts if there are at least this many tiles for each; else panels are.
_TILES_EACH = 4


def divide_up(w: Workspace, value: Variable, by: int) -> None:
    """value = ceil(value / by)."""
    b = w.b
    b.emit("add", value, by - 1)
    if by & (by - 1) == 0:
        b.emit("shr", value, by.bit_length() - 1)
        return
    divisor = b.general("divisor")
    b.emit("mov", divisor, by)
    b.emit("divide_unsigned", value, value, divisor)


def share(w: Workspace, count: Variable) -> tuple[Variable, Variable]:
    """(first, last): this part's units of `count`. For the start of a kernel: `args`, `part` are alive."""
    return share_among(w.b, count, w.field("parts", args=w.b["args"]))


def share_among(b: Builder, count: Variable, among: Memory) -> tuple[Variable, Variable]:
    """`share` for kernels without a workspace: `among` is the field that counts the parts."""
    first, last, parts = b.general("first"), b.general("last"), b.general("parts")
    b.emit("mov", parts, among)
    b.emit("mov", first, count)
    b.emit("imul", first, b["part"])
    b.emit("lea", last, b.at(first, index=count))
    b.emit("divide_unsigned", first, first, parts)
    b.emit("divide_unsigned", last, last, parts)
    return first, last


def share_rows(w: Workspace, rows: str) -> Variable:
    """Slots first and last: this part's rows, whole tiles of field `rows`; gives the number of tiles."""
    b, tile = w.b, w.geometry.scalars
    tiles, end = b.general("tiles"), b.general("end")
    b.emit("mov", tiles, w.field(rows, args=b["args"]))
    divide_up(w, tiles, tile)
    first, last = share(w, tiles)
    b.emit("mov", tiles, last)
    b.emit("sub", tiles, first)
    b.emit("imul", first, first, tile)
    b.emit("imul", last, last, tile)
    b.emit("mov", end, w.field(rows, args=b["args"]))
    b.emit("min", last, end)
    b.emit("mov", w.slot("first"), first)
    b.emit("mov", w.slot("last"), last)
    return tiles


def share_rows_or_panels(w: Workspace, rows: str, panels: Variable, done: str) -> Variable:
    """Slots first, last, first_panel, last_panel: this part's share of a single product; gives the tiles of
    rows.

    Rows are divided where there are enough of them; else panels are, and each part reads only its own share
    of the weights, which is what a product with few rows is bound by. To `done` if nothing is left for this
    part.
    """
    b, g = w.b, w.geometry
    args = b["args"]
    tiles, enough = b.general("tiles"), b.general("enough")
    by_panel, divided = b.fresh_label("by_panel"), b.fresh_label("divided")
    b.emit("mov", tiles, w.field(rows, args=args))
    divide_up(w, tiles, g.scalars)
    b.emit("imul", enough, w.field("parts", args=args), _TILES_EACH)
    b.emit("cmp", tiles, enough)
    b.emit("jump_less", by_panel)
    b.emit("mov", w.slot("first_panel"), 0)
    b.emit("mov", w.slot("last_panel"), panels)
    b.emit("mov", tiles, share_rows(w, rows))
    b.emit("jump", divided)
    b.label(by_panel)
    first, last = share(w, panels)
    b.emit("mov", w.slot("first_panel"), first)
    b.emit("mov", w.slot("last_panel"), last)
    b.emit("cmp", first, last)
    b.emit("jump_equal", done)
    b.emit("mov", w.slot("first"), 0)
    b.emit("mov", last, w.field(rows, args=args))
    b.emit("mov", w.slot("last"), last)
    b.label(divided)
    b.emit("cmp", tiles, 0)
    b.emit("jump_less_equal", done)
    return tiles


def take_rows(w: Workspace, most: int | Memory, done: str) -> Variable:
    """Slots begin and count: the next rows of [slot next, slot last), at most `most`; to `done` if none are
    left.

    Gives the row behind them, where slot `next` now stands.
    """
    b = w.b
    begin, count, limit = b.general("begin"), b.general("count"), b.general("limit")
    b.emit("mov", begin, w.slot("next"))
    b.emit("mov", count, w.slot("last"))
    b.emit("sub", count, begin)
    b.emit("jump_less_equal", done)
    b.emit("mov", limit, most)
    b.emit("min", count, limit)
    b.emit("mov", w.slot("begin"), begin)
    b.emit("mov", w.slot("count"), count)
    b.emit("add", begin, count)
    b.emit("mov", w.slot("next"), begin)
    return begin


def open_scratch(w: Workspace, scratch_bytes: int) -> None:
    """Slots args and scratch: this part's share of the scratch memory. A chain's kernel starts with it."""
    b = w.b
    scratch = b.general("scratch")
    b.emit("mov", w.slot("args"), b["args"])
    b.emit("imul", scratch, b["part"], scratch_bytes)
    b.emit("add", scratch, w.field("scratch", args=b["args"]))
    b.emit("mov", w.slot("scratch"), scratch)
