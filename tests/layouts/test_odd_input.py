"""Layouts from odd numbers, names and documents: nothing is rounded, parsed or guessed."""

import numpy as np
import pytest

from regweave.errors import InputError
from regweave.layouts import Layout, compose, from_document, to_document
from regweave.layouts.numbers import MOST_SLOTS, check_slots, whole_numbers, whole_pair

C = Layout.linear("C", (16, 8), "f32", lane=[(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)], item=[(0, 1), (8, 0)])


@pytest.mark.parametrize(
    "table", [[[0.5], [1.5]], [[float("nan")], [1]], [["0"], ["1"]], [[False], [True]], [[0], [2**70]], None]
)
def test_tables_hold_whole_numbers(table):
    with pytest.raises(InputError, match="not whole, or beyond 64 bits"):
        Layout("t", (1, 2), "f32", table)
    with pytest.raises(InputError, match="not whole, or beyond 64 bits"):
        compose(Layout("t", (1, 2), "f32", [[0], [1]]), table)


def test_unsigned_numbers_do_not_wrap():
    with pytest.raises(InputError, match="beyond 64 bits"):
        whole_numbers(np.array([2**64 - 1], np.uint64), "here")


@pytest.mark.parametrize("shape", [(1.0, 2.0), (1, 2, 3), 2, "12", (0, 2), (-1, 2), (2**40, 2**40)])
def test_tiles_are_two_whole_numbers(shape):
    with pytest.raises(InputError, match="at layout t"):
        Layout("t", shape, "f32", [[0], [1]])


def test_a_tile_without_enough_slots_costs_no_memory():
    with pytest.raises(InputError, match=r"no slot holds element \(0, 2\)"):
        Layout("t", (10**9, 10**9), "f32", [[0], [1]])


def test_few_numbers_cannot_ask_for_much_memory():
    with pytest.raises(InputError, match="a layout of 1152921504606846976 slots"):
        Layout.linear("t", (1, 2), "f32", lane=[(0, 1)] * 60, item=[])
    with pytest.raises(InputError, match="at most 16777216"):
        C.repeat(10**6, 10**6)
    check_slots(MOST_SLOTS, "here")


@pytest.mark.parametrize(
    ("lane", "item", "words"),
    [
        (32, 0, "no lane 32.*0 to 31"),
        (0, 4, "no item 4.*0 to 3"),
        (-1, 0, "no lane -1"),
        (0, -1, "no item -1"),
        (0, 1.0, "no whole number"),
        ("0", 0, "no whole number"),
    ],
)
def test_slots_that_do_not_exist(lane, item, words):
    assert C.slot_of(31, 3) == (31, 3, 0)
    with pytest.raises(InputError, match=words):
        C.slot_of(lane, item)


@pytest.mark.parametrize("copies", [(1.5, 1), ("1", 1), (1, None)])
def test_copies_are_whole(copies):
    with pytest.raises(InputError, match="no pair of whole numbers"):
        C.repeat(*copies)
    with pytest.raises(InputError, match="no pair of whole numbers"):
        whole_pair(copies, "here", "two numbers")


def test_numbers_too_long_to_print():
    with pytest.raises(
        InputError, match=r"\.\.\. \(too long to show\) is no pair of whole numbers under 2\^62"
    ):
        whole_pair((1, 1 << 10**5), "here", "two numbers")


@pytest.mark.parametrize("name", ['C"\n} evil() {', "a\tb", None, 3])
def test_names_are_one_line(name):
    with pytest.raises(InputError, match="cannot name a layout"):
        Layout(name, (1, 1), "f32", [[0]])


@pytest.mark.parametrize("axes", [("k", "k"), ("m",), ("m", "k", "m"), (1, 2)])
def test_axes_are_two_names(axes):
    with pytest.raises(InputError, match="expected two different names"):
        Layout("t", (1, 1), "f32", [[0]], axes)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"shape": "16"}, "shape is str.*expected a list"),
        ({"shape": [16.9, 8]}, "no pair of whole numbers"),
        ({"shape": ["16", "8"]}, "no pair of whole numbers"),
        ({"shape": [float("inf"), 8]}, "no pair of whole numbers"),
        ({"name": None}, "name is NoneType.*expected text"),
        ({"axes": "mk"}, "axes is str.*expected a list"),
        ({"axis": ["m", "k"]}, "unknown key 'axis'"),
        ({"lanes": 16}, "lanes is 16.*expected 32, as it follows"),
        ({"bijective": None}, "bijective is None.*expected True"),
        ({"elements": [[[0, 0]]]}, "unknown key 'lane'"),
        ({"lane": [[0, 2.7], [0, 4], [1, 0], [2, 0], [4, 0]]}, "no pair of whole numbers"),
        ({"lane": [[0, -2], [0, 4], [1, 0], [2, 0], [4, 0]]}, r"a bit adds \(0, -2\)"),
        ({"lane": [[0, 2**70], [0, 4], [1, 0], [2, 0], [4, 0]]}, "no pair of whole numbers"),
        ({"lane": [[0, 2], [0, 2], [1, 0], [2, 0], [4, 0]]}, r"no slot holds element \(0, 4\)"),
    ],
)
def test_documents_are_taken_literally(change, complaint):
    with pytest.raises(InputError, match=complaint):
        from_document(to_document(C) | change)


@pytest.mark.parametrize("axis", ["m\n", "\ufffe", "m", 5])
def test_axes_are_two_lines(axis):
    with pytest.raises(InputError, match="two different names, one line each"):
        Layout("t", (1, 1), "f32", [[0]], ("m", axis))


@pytest.mark.parametrize("pair", [{16, 8}, {16: 0, 8: 0}, (True, 8), (2**62, 8), (np.float64(16), 8)])
def test_pairs_have_an_order_and_a_size(pair):
    with pytest.raises(InputError, match="no pair of whole numbers"):
        whole_pair(pair, "here", "two numbers")
    assert whole_pair(np.array((16, 8)), "here", "two numbers") == (16, 8)


def test_large_tables_are_checked_in_time_that_grows_with_them():
    wide = C.repeat(1 << 7, 1 << 8)
    assert wide.table.size == 1 << 22
    with pytest.raises(InputError, match=r"no slot holds element \(0, 5\)"):
        Layout("t", wide.shape, "f32", np.where(wide.table == 5, 4, wide.table))
