"""New layouts from old ones."""

import numpy as np
import pytest

from regweave.errors import InputError
from regweave.layouts import Layout, compose, product, repeat


def grid(rows, columns, name="grid"):
    return Layout(name, (rows, columns), "b32", np.arange(rows * columns).reshape(rows, columns))


def test_composing_renames_elements():
    layout = grid(2, 2)
    turned = compose(layout, [0, 2, 1, 3], "turned")
    assert turned.element(0, 1) == (1, 0)
    assert compose(turned, [0, 2, 1, 3]) == layout
    with pytest.raises(InputError, match="not a permutation"):
        compose(layout, [0, 0, 1, 2])


def test_a_product_multiplies_lanes_items_and_tiles():
    inner, outer = grid(2, 3, "inner"), grid(4, 5, "outer")
    both = product(inner, outer)
    assert (both.shape, both.lanes, both.items) == ((8, 15), 8, 15)
    # outer lane 3, item 2 and inner lane 1, item 1
    assert both.element(1 + 2 * 3, 1 + 3 * 2) == (3 * 2 + 1, 2 * 3 + 1)
    assert both.bijective


def test_repeating_fills_the_registers_of_the_same_lanes():
    tile = repeat(grid(2, 3), 2, 2)
    assert (tile.shape, tile.lanes, tile.items) == ((4, 6), 2, 12)
    assert [tile.element(1, register) for register in (0, 3, 6, 9)] == [(1, 0), (1, 3), (3, 0), (3, 3)]
    assert tile == grid(2, 3).repeat(2, 2)
    assert repeat(tile, 1, 1) is tile
    with pytest.raises(InputError, match="at least one"):
        repeat(tile, 0, 1)


def test_the_transposed_tile_holds_every_element_the_other_way_round():
    layout = Layout.linear("L", (4, 2), "f16", lane=[(1, 0), (2, 0)], item=[(0, 1)], axes=("m", "k"))
    turned = layout.transpose()
    assert turned.shape == (2, 4)
    assert turned.axes == ("k", "m")
    assert all(turned.element(i, 0, p) == layout.element(i, 0, p)[::-1] for i in range(4) for p in range(2))
    assert turned.transpose() == layout


def test_retyped_slots_share_registers_anew():
    layout = Layout.linear("L", (4, 4), "s32", lane=[(1, 0), (2, 0)], item=[(0, 1), (0, 2)])
    narrow = layout.retype("s8")
    assert (layout.registers, narrow.registers) == (4, 1)
    assert narrow.element(3, 0, 2) == (3, 2)
