"""Layouts as values: both questions, any size, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regweave.errors import InputError
from regweave.layouts import ELEMENT_TYPES, Basis, ElementType, Layout, Slot, element_type
from regweave.layouts.numbers import divided, row_blocks


def accumulator():
    return Layout.linear(
        "C", (16, 8), "f32", lane=[(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)], item=[(0, 1), (8, 0)]
    )


@st.composite
def tables(draw):
    """A layout of any size whose elements are each held once."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    size = rows * columns
    lanes = draw(st.sampled_from([number for number in range(1, size + 1) if size % number == 0]))
    order = draw(st.permutations(range(size)))
    return Layout("any", (rows, columns), "b32", np.reshape(order, (lanes, size // lanes)))


def test_both_questions():
    layout = accumulator()
    assert layout.element(5, 2) == (9, 2)
    assert layout.slots(9, 2) == (Slot(5, 2),)
    assert (layout.lanes, layout.items, layout.registers, layout.elements) == (32, 4, 4, 128)


@given(tables())
def test_slots_and_elements_answer_each_other(layout):
    for row in range(layout.shape[0]):
        for column in range(layout.shape[1]):
            (slot,) = layout.slots(row, column)
            assert layout.element(*slot) == (row, column)
    assert layout.bijective
    for number, (lane, item) in enumerate(layout.invert()):
        assert layout.table[lane, item] == number


def test_narrow_elements_share_registers_and_wide_ones_take_two():
    half = Layout("h", (1, 5), "f16", np.arange(5)[None])
    assert (half.registers, half.element(0, 1, 1), half.slots(0, 4)) == (3, (0, 3), (Slot(0, 2, 0),))
    double = Layout("d", (2, 2), "f64", np.arange(4).reshape(2, 2))
    assert (double.registers, double.element(1, 2), double.slots(1, 1)) == (4, (1, 1), (Slot(1, 2),))


def test_replication_is_seen():
    layout = Layout("twice", (1, 2), "b32", [[0], [1], [0], [1]])
    assert not layout.bijective
    assert layout.slots(0, 1) == (Slot(1, 0), Slot(3, 0))
    with pytest.raises(InputError, match=r"element \(0, 0\) is held by 2 slots"):
        layout.invert()


def test_the_basis_is_recovered_where_there_is_one():
    layout = accumulator()
    assert layout.basis == Basis(((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)), ((0, 1), (8, 0)))
    assert Layout("by xor", (1, 4), "b32", [[0, 1], [3, 2]]).basis == Basis(((0, 3),), ((0, 1),))
    assert Layout("turned", (1, 4), "b32", [[0, 1], [2, 3]][::-1]).basis is None
    assert Layout("cycle", (1, 8), "b32", [[0, 1, 3, 4], [5, 6, 7, 2]]).basis is None
    assert Layout("three", (1, 3), "b32", [[0], [1], [2]]).basis is None


def test_values_are_equal_by_what_they_place_and_never_change():
    layout = accumulator()
    other = Layout("another name", (16, 8), "f32", layout.table, ("m", "n"))
    assert layout == other
    assert hash(layout) == hash(other)
    assert layout != Layout("C", (16, 8), "tf32", layout.table)
    assert layout != "C"
    with pytest.raises(ValueError, match="read-only"):
        layout.table[0, 0] = 1
    source = np.arange(4).reshape(2, 2)
    kept = Layout("kept", (2, 2), "b32", source)
    source[0, 0] = 3
    assert kept.element(0, 0) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("t", (1, 2), "b32", [[0, 2]]), "lane 0 item 1 holds element 2"),
        (("t", (1, 2), "b32", [[0, 0]]), r"no slot holds element \(0, 1\)"),
        (("t", (0, 2), "b32", [[0]]), "0 x 2 tile"),
        (("t", (1, 1), "b32", [0]), r"table of shape \(1,\)"),
        (("t", (1, 1), "f31", [[0]]), "unknown element type 'f31'.*f32"),
        (("t", (1, 1), [], [[0]]), r"unknown element type \[\]"),
    ],
)
def test_wrong_tables_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        Layout(*arguments)


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ([[(0, 0)], [(0, 2)]], r"lane 1 item 0 holds \(0, 2\)"),
        ([[(0, 0), (0, 1)], [(0, 0)]], "rows of different lengths"),
        ([[0, 1]], "a table of shape"),
    ],
)
def test_wrong_pairs_are_refused(elements, words):
    with pytest.raises(InputError, match=words):
        Layout.explicit("t", (1, 2), "b32", elements)


def test_pairs_of_any_size_are_accepted():
    layout = Layout.explicit("mine", (2, 3), "b32", [[(0, 2), (1, 1)], [(0, 0), (1, 0)], [(1, 2), (0, 1)]])
    assert layout.slots(1, 1) == (Slot(0, 1),)


@pytest.mark.parametrize("slot", [(32, 0, 0), (0, 4, 0), (0, 0, 1), (-1, 0, 0)])
def test_there_are_no_other_slots(slot):
    with pytest.raises(InputError, match="no slot"):
        accumulator().element(*slot)


def test_there_are_no_other_elements():
    with pytest.raises(InputError, match=r"no element \(16, 0\)"):
        accumulator().slots(16, 0)


@pytest.mark.parametrize("number", [1.5, "1", None, True, float("nan")])
def test_questions_are_asked_in_whole_numbers(number):
    with pytest.raises(InputError, match="is no whole number"):
        accumulator().element(number, 0)
    with pytest.raises(InputError, match="is no whole number"):
        accumulator().slots(0, number)


def test_element_types_validate_themselves():
    assert element_type("f16").per_register == 2
    assert ELEMENT_TYPES["f64"].registers == 2
    with pytest.raises(InputError, match="24 bits wide"):
        ElementType("f24", 24, "float")
    with pytest.raises(InputError, match="kind"):
        ElementType("f32", 32, "number")


def test_what_is_made_of_a_layout_is_as_if_it_were_checked():
    tile = accumulator().repeat(3, 5)
    for made in (tile, tile.transpose(), tile.retype("s32")):
        again = Layout(made.name, made.shape, made.dtype, made.table, made.axes)
        assert (again, again.axes, again.table.dtype) == (made, made.axes, made.table.dtype)
        assert made.table.dtype == np.int32
        assert not made.table.flags.writeable
    with pytest.raises(InputError, match="unknown element type"):
        tile.retype("f17")


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1), st.integers(1, 2**20))
def test_numbers_are_divided_as_numpy_does_it(numbers, size):
    for made, expected in zip(divided(np.array(numbers), size), np.divmod(numbers, size), strict=True):
        assert made.tolist() == expected.tolist()


@given(st.integers(1, 300), st.integers(1, 5000))
def test_blocks_of_rows_are_all_rows_in_order(rows, columns):
    table = np.broadcast_to(np.arange(rows)[:, None], (rows, columns))
    blocks = [table[some, 0] for some in row_blocks(table)]
    assert np.concatenate(blocks).tolist() == list(range(rows))
    assert all(len(block) == 1 or block.size * columns <= 1 << 15 for block in blocks)
