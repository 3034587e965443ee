"""Lower bounds: the known ones, cuts by hand, and no plan below them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave import layout, rearrange
from regweave.layouts import Layout
from regweave.rearrangement import relate
from regweave.rearrangement.bounds import least_merges, lower_bound, one_hop_minimum


def words(name, table, dtype="b32"):
    table = np.asarray(table)
    return Layout(name, (1, int(table.max()) + 1), dtype, table)


@pytest.mark.parametrize(
    ("source", "destination", "tiles", "expected"),
    [
        ("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", ((1, 4), (1, 4)), 16),
        ("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:A", ((1, 4), (1, 2)), 0),
        ("mma.m16n8k32.s8:C", "mma.m16n8k32.s8:A", ((1, 4), (1, 1)), 4),
        ("mma.m16n8k32.s8:C", "mma.m16n8k32.s8:B", ((2, 2), (1, 2)), 4),
        ("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:B", ((2, 2), (2, 2)), 8),
    ],
)
def test_bounds_of_seams(source, destination, tiles, expected):
    there = layout(destination).repeat(*tiles[1])
    here = layout(source).repeat(*tiles[0]).retype(there.dtype)
    relation = relate(here, there)
    assert (one_hop_minimum(relation), lower_bound(relation)) == (expected, expected)


def test_relays_may_need_fewer_rounds_than_one_hop():
    """A word of four bytes from four lanes: three hops at once, two with relays, one by information."""
    here = np.arange(16).reshape(4, 4)
    relation = relate(words("rows", here, "b8"), words("columns", here.T, "b8"))
    assert (one_hop_minimum(relation), lower_bound(relation)) == (3, 1)


@pytest.mark.parametrize(("holders", "expected"), [(1, 6), (2, 3)])
def test_what_leaves_a_few_holders(holders, expected):
    """Lanes 1 to 6 need one word each of lane 0, or of lanes 0 and 7: each lane offers one per exchange."""
    here = np.arange(48).reshape(8, 6)
    if holders == 2:
        here[7] = here[0]
    there = np.concatenate([here, [[0], [0], [1], [2], [3], [4], [5], [here[7, 0]]]], axis=1)
    relation = relate(words("here", here), words("there", there))
    assert lower_bound(relation) == expected
    assert one_hop_minimum(relation) == 1  # counted by what a lane takes


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(1, 4), st.randoms(use_true_random=False))
def test_no_exchange_is_below_the_bound(lanes, registers, random):
    order = list(range(lanes * registers))
    random.shuffle(order)
    here = words("here", np.arange(lanes * registers).reshape(lanes, registers))
    plan = rearrange(here, words("there", np.reshape(order, (lanes, registers))), strategy="exchange")
    assert lower_bound(plan.relation) <= one_hop_minimum(plan.relation)
    assert lower_bound(plan.relation) <= plan.cost.exchanges


@pytest.mark.parametrize(
    ("source", "destination", "tiles", "expected"),
    [
        ("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", ((1, 4), (1, 4)), 16),
        ("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:A", ((1, 4), (1, 2)), 0),
        ("mma.m16n8k32.s8:C", "mma.m16n8k32.s8:A", ((1, 4), (1, 1)), 4),
        ("mma.m16n8k16.f16:C", "mma.m16n8k16.f16:B", ((2, 2), (2, 2)), 0),
    ],
)
def test_merges_of_seams(source, destination, tiles, expected):
    """A register of tf32 A takes words of two registers; one of s8 A bytes of two words; f16 of one each."""
    relation = relate(layout(source).repeat(*tiles[0]), layout(destination).repeat(*tiles[1]))
    assert least_merges(relation) == expected


def test_merges_of_a_transposition_are_the_bits_of_its_registers():
    here = np.arange(64).reshape(8, 8)
    assert least_merges(relate(words("rows", here), words("columns", here.T))) == 8 * 3


def test_merges_of_uneven_registers_are_their_entropy_rounded_up():
    """Lane 0 exchanges its words: one lane in eight is 0.5436 bits of each register."""
    here = np.arange(16).reshape(8, 2)
    there = np.concatenate([here[:1, ::-1], here[1:]])
    assert least_merges(relate(words("here", here), words("there", there))) == 2


def test_merges_are_not_known_where_elements_have_several_takers():
    here = np.arange(8).reshape(4, 2)
    twice = np.concatenate([here, here[:, ::-1]], axis=1)
    assert least_merges(relate(words("here", here), words("twice", twice))) == 0


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["b8", "b16", "b32"]),
    st.integers(2, 8),
    st.integers(1, 2),
    st.randoms(use_true_random=False),
)
def test_no_rounds_merge_less_than_the_bound(dtype, lanes, registers, random):
    items = registers * 32 // int(dtype[1:])
    order = list(range(lanes * items))
    random.shuffle(order)
    here = words("here", np.arange(lanes * items).reshape(lanes, items), dtype)
    there = words("there", np.reshape(order, (lanes, items)), dtype)
    plan = rearrange(here, there, strategy="exchange")
    rounds = [offer.candidates[0] for offer in plan.offers.all if offer.forms in (("direct",), ("lean",))]
    assert all(found.applies for found in rounds)
    assert least_merges(plan.relation) <= min(
        found.cost.selects + found.cost.byte_permutes for found in rounds
    )


@pytest.mark.parametrize("turned", ["", "^T"])
@pytest.mark.parametrize(
    "name", ["v_mfma_f32_4x4x2_16b_bf16", "v_mfma_f32_16x16x4_f32", "v_mfma_i32_16x16x16_i8"]
)
def test_no_exchange_is_below_its_bounds(name, turned):
    """Whatever is packed on the way too."""
    plan = rearrange(f"{name}:D{turned}", f"{name}:A", machine="gfx908")
    for offer in plan.offers.all:
        for candidate in offer.candidates if offer.forms in (("direct",), ("lean",), ("steps",)) else ():
            written = candidate.cost.instructions
            assert all(bound(written).instructions <= written for bound in offer.bounds)
