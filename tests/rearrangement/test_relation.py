"""Which slot feeds which, in elements and in words, and what does not belong together."""

import numpy as np
import pytest

from regweave import layout
from regweave.errors import InputError, UnsupportedError
from regweave.layouts import Layout
from regweave.rearrangement import Relation, relate
from regweave.rearrangement.bounds import one_hop_minimum
from regweave.rearrangement.group import Group
from regweave.rearrangement.problem import find_problem


def table(name, rows, dtype="b32"):
    array = np.array(rows)
    return Layout(name, (1, int(array.max()) + 1), dtype, array)


def test_the_relation_says_who_feeds_whom():
    relation = relate(layout("mma.m16n8k8.tf32:C"), layout("mma.m16n8k8.tf32:A"))
    assert isinstance(relation, Relation)
    assert relation.peers[0].tolist() == [0, 0, 2, 2]
    assert relation.items[0].tolist() == [0, 2, 0, 2]
    assert relation.replicated is None


def test_a_lane_prefers_its_own_copy():
    source = table("twice", [[0, 1], [1, 0]])
    relation = relate(source, table("once", [[0], [1]]))
    assert relation.peers.tolist() == [[0], [1]]
    assert relation.items.tolist() == [[0], [0]]
    assert "element (0, 0) more than once: lane 0 register 0, lane 1 register 1" in relation.replicated
    words = find_problem(relation, relation.lanes).words
    # two source words and one destination word: the second needs nothing
    assert words.peers.tolist() == [[0, -1], [1, -1]]


def test_accumulators_are_packed_in_pairs():
    c = layout("mma.m16n8k16.f16:C").repeat(1, 2)
    relation = relate(c, layout("mma.m16n8k16.f16:A"))
    assert relation.packing == "pack_f16"
    assert find_problem(relation, relation.lanes).words.contents == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert one_hop_minimum(relation) == 0


def test_registers_that_are_taken_apart():
    relation = relate(layout("mma.m16n8k16.f16:A"), layout("mma.m16n8k16.f16:B").repeat(1, 2))
    swapped = relate(table("p", [[0, 1, 2, 3]], "b16"), table("q", [[0, 2, 1, 3]], "b16"))
    uneven = relate(
        table("f", [[0, 1, 2, 3], [4, 5, 6, 7]], "f32"), table("g", [[0, 1, 2, 3], [4, 6, 5, 7]], "f16")
    )
    for parted in (relation, swapped, uneven):
        problem = find_problem(parted, parted.lanes)
        assert problem.words is None
        assert problem.parts.bits == 16
    double = relate(table("d", [[0], [1]], "f64"), table("e", [[1], [0]], "f64"))
    assert find_problem(double, double.lanes).words.words.tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("source", "destination", "words"),
    [
        (table("a", [[0], [1]]), table("b", [[0, 1, 2]]), r"element \(0, 2\), which only one"),
        (table("a", [[0], [1]]), Layout("b", (2, 2), "b32", [[0, 1], [2, 3]]), r"element \(1, 0\)"),
        (table("a", [[0], [1]]), table("b", [[0, 1]]), "lane 1, which only one"),
    ],
)
def test_layouts_that_do_not_belong_together(source, destination, words):
    with pytest.raises(InputError, match=words):
        relate(source, destination)


@pytest.mark.parametrize(
    ("before", "after", "packing"),
    [("f32", "f16", "pack_f16"), ("f32", "bf16", "pack_bf16"), ("f32", "tf32", None), ("b16", "f16", None)],
)
def test_types_that_may_become_one_another(before, after, packing):
    assert relate(table("a", [[0, 1]], before), table("b", [[0, 1]], after)).packing == packing


@pytest.mark.parametrize(
    ("before", "after"), [("f16", "f32"), ("f16", "bf16"), ("b16", "b32"), ("f64", "f32")]
)
def test_types_that_may_not(before, after):
    with pytest.raises(UnsupportedError, match=f"{before} elements cannot become {after}"):
        relate(table("a", [[0, 1]], before), table("b", [[0, 1]], after))


def test_groups_are_copies_of_one_another():
    # lanes 0, 2 exchange and lanes 1, 3 exchange; registers 0 and 1 keep their numbers
    source = table("s", [[0, 4], [1, 5], [2, 6], [3, 7]])
    group = find_problem(relate(source, table("d", [[2, 6], [3, 7], [0, 4], [1, 5]])), 4).group
    assert group == Group((0, 2), (0,), (0, 1), (0, 1))
    assert group.segment is None


def test_pieces_that_differ_are_joined():
    source = table("s", [[0, 4], [1, 5], [2, 6], [3, 7]])
    # register 0 swaps lanes 0-1 and 2-3, register 1 stays
    group = find_problem(relate(source, table("d", [[1, 4], [0, 5], [3, 6], [2, 7]])), 4).group
    assert group == Group((0, 1), (0, 1), (0, 2), (0,))
    assert group.segment == 2
    # only lanes 0 and 1 swap: lane sets of different sizes are joined, register copies stay apart
    group = find_problem(relate(source, table("d", [[1, 5], [0, 4], [2, 6], [3, 7]])), 4).group
    assert group == Group((0, 1, 2, 3), (0,), (0,), (0, 1))
    group = find_problem(relate(source, table("d", [[1, 4], [0, 5], [2, 6], [3, 7]])), 4).group
    assert group == Group((0, 1, 2, 3), (0, 1), (0,), (0,))
