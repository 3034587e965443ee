"""New layouts from old ones: compose, product, repeat.

*Compose* renames the elements: a fold reads column k of A as true column 0, 2, 4, 6, 1, 3, 5, 7 of the
product, which is the A fragment composed with that permutation. *Product* puts a small layout inside
a large one: lanes, items and tile sizes multiply, the inner one counting fastest. *Repeat* is the
product with a layout of one lane: fragments side by side in the registers of the same lanes form a
warp tile, fragment (0, 1) taking the registers after fragment (0, 0).

    >>> tile = repeat(c, 1, 4)          # 16 x 8 fragments into a 16 x 32 warp tile
    >>> tile.shape, tile.items, tile.element(0, 5)
    ((16, 32), 16, (0, 9))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regweave.errors import InputError
from regweave.layouts.checking import number_kind
from regweave.layouts.layout import Layout
from regweave.layouts.numbers import check_slots, divided, whole_numbers, whole_pair

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def compose(layout: Layout, elements: ArrayLike, name: str | None = None) -> Layout:
    """The layout whose slots hold `elements[e]` where `layout` has element number e.

    `elements` is a permutation of the tile's element numbers; anything else is an InputError.
    """
    renamed = whole_numbers(elements, f"compose({layout.name})")
    if renamed.shape != (layout.elements,) or not np.array_equal(
        np.sort(renamed), np.arange(layout.elements)
    ):
        raise InputError(
            "not a permutation of the tile's elements",
            where=f"compose({layout.name})",
            expected=f"the numbers 0 to {layout.elements - 1}, each once",
        )
    return Layout.derived(name or layout.name, layout.shape, layout.dtype, renamed[layout.table], layout.axes)


def product(inner: Layout, outer: Layout, name: str | None = None) -> Layout:
    """`inner` placed at every element of `outer`: sizes multiply, inner lanes and items count fastest.

    The element type and the axes are the inner layout's.
    """
    check_slots(inner.table.size * outer.table.size, f"{inner.name} in {outer.name}")
    rows, columns = inner.shape
    shape = rows * outer.shape[0], columns * outer.shape[1]
    row, column = divided(inner.table, columns)
    inside = row * shape[1] + column
    row, column = divided(outer.table, outer.shape[1])
    outside = row * rows * shape[1] + column * columns
    # axes: outer lane, inner lane, outer item, inner item
    table = np.empty((outer.lanes, inner.lanes, outer.items, inner.items), dtype=number_kind(shape))
    np.add(inside[None, :, None, :], outside[:, None, :, None], out=table, casting="same_kind")
    table = table.reshape(inner.lanes * outer.lanes, inner.items * outer.items)
    return Layout.derived(name or f"{inner.name} in {outer.name}", shape, inner.dtype, table, inner.axes)


def repeat(layout: Layout, rows: int, columns: int) -> Layout:
    """`rows` x `columns` copies of `layout` side by side, one after the other along each row of copies.

    Raises InputError for fewer than one copy.
    """
    rows, columns = whole_pair((rows, columns), f"copies of {layout.name}", "rows and columns of copies")
    if rows < 1 or columns < 1:
        raise InputError(
            f"{rows} x {columns} copies of {layout.name}", expected="at least one in each direction"
        )
    if rows == columns == 1:
        return layout
    check_slots(layout.table.size * rows * columns, f"copies of {layout.name}")
    grid = Layout("grid", (rows, columns), layout.dtype, np.arange(rows * columns)[None, :])
    return product(layout, grid, f"{layout.name} x {rows}x{columns}")
