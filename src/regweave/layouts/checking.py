"""What a layout's table must be: numbers of elements of the tile, each of them in at least one slot.

    tile of 2 x 2      [[0, 1], [2, 3]]      2 lanes of 2 items
                       [[0, 1], [2, 2]]      no slot holds element (1, 1); lane 1 item 1 holds (1, 0), as
                                             lane 1 item 0 does
                       [[0, 1], [2, 4]]      lane 1 item 1 holds element 4; expected 0 to 3

A wrong table is found where it is given, with the slot that is meant, and not where a plan goes wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import InputError
from regweave.layouts.numbers import whole_pair

if TYPE_CHECKING:
    from numpy.typing import NDArray


def number_kind(shape: tuple[int, int]) -> type[np.signedinteger[Any]]:
    """The type of the numbers of a tile's elements."""
    return np.int32 if shape[0] * shape[1] <= 1 << 31 else np.int64


def tile_sizes(shape: Any, where: str) -> tuple[int, int]:
    """The sizes of a tile, checked; element numbers fit into 64 bits."""
    rows, columns = whole_pair(shape, where, "a tile (rows, columns)")
    if rows < 1 or columns < 1 or rows * columns >= 1 << 62:
        raise InputError(
            f"a {rows} x {columns} tile",
            where=where,
            expected="at least one row and column, under 2^62 elements",
        )
    return rows, columns


def checked_table(table: NDArray[np.int64], shape: tuple[int, int], where: str) -> NDArray[Any]:
    """The table, not to be written to any more. Errors: InputError, for what is said above."""
    rows, columns = shape
    if table.ndim != 2 or table.size == 0:
        raise InputError(
            f"a table of shape {table.shape}",
            where=where,
            expected="a table [lanes, items] with at least one slot",
        )
    if int(table.min()) < 0 or int(table.max()) >= rows * columns:
        wrong = np.argwhere((table < 0) | (table >= rows * columns))
        lane, item = (int(number) for number in wrong[0])
        raise InputError(
            f"lane {lane} item {item} holds element {int(table[lane, item])}",
            where=where,
            expected=f"0 to {rows * columns - 1}, row * {columns} + column",
        )
    # n slots leave one of the first n + 1 elements out, if there are as many
    held = np.zeros(min(rows * columns, table.size + 1), dtype=bool)
    held[table if held.size == rows * columns else table[table < held.size]] = True
    if not held.all():
        row, column = divmod(int(held.argmin()), columns)
        raise InputError(
            f"no slot holds element ({row}, {column}){_held_again(table, columns)}",
            where=where,
            expected="every element of the tile in at least one slot",
        )
    table = table.astype(number_kind(shape))
    table.setflags(write=False)
    return table


def _held_again(table: NDArray[np.int64], columns: int) -> str:
    """Which slot holds what another one does, where there is one: it may be meant for what nobody holds."""
    flat = table.ravel()
    _, first = np.unique(flat, return_index=True)
    again = np.setdiff1d(np.arange(flat.size), first)
    if not again.size:
        return ""
    places = np.flatnonzero(flat == flat[again[0]])[:2]
    (other, at), (lane, item) = (divmod(int(place), table.shape[1]) for place in places)
    row, column = divmod(int(flat[again[0]]), columns)
    return f"; lane {lane} item {item} holds ({row}, {column}), as lane {other} item {at} does"
