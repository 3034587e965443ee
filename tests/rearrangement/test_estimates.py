"""What arrangements of linear layouts take, told before their tables: what the tables say."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.layouts import Layout
from regweave.machines.catalogue import find_machine
from regweave.rearrangement.relation import relate
from regweave.rearrangement.request import read_request
from regweave.rearrangement.shared.passages import Choice, linear_passage

SM_80, SM_90A, GFX942 = (find_machine(name) for name in ("sm_80", "sm_90a", "gfx942"))


def compared(source, destination, machine, tuples=(1, 1), **how):
    """(told, found) instructions and bytes of every arrangement that a search looks at."""
    found = []

    def offer_all(choice, estimates, passage):
        for number, told in enumerate(estimates):
            made = passage(number)
            if made is not None:
                found.append((told[:2], (made.instructions(choice.relation, choice.tuples), made.bytes)))

    with patch.object(Choice, "offer_estimated", offer_all):
        linear_passage(relate(source, destination), machine, tuples, **how)
    return found


@st.composite
def linear_pairs(draw):
    """Two layouts of one tile, linear over bits, with random bases."""
    bits, columns = 8, draw(st.integers(1, 7))
    dtypes = draw(st.sampled_from([("b32", "b32"), ("f16", "f16"), ("s8", "s8"), ("f32", "f16")]))
    layouts = []
    for dtype in dtypes:
        basis = [1 << bit for bit in draw(st.permutations(range(bits)))]
        for target, other in draw(
            st.lists(st.tuples(st.integers(0, bits - 1), st.integers(0, bits - 1)), max_size=6)
        ):
            if target != other:
                basis[target] ^= basis[other]
        pairs = [divmod(vector, 1 << columns) for vector in basis]
        tile = 1 << bits - columns, 1 << columns
        layouts.append(Layout.linear("side", tile, dtype, lane=pairs[:5], item=pairs[5:]))
    return layouts


@settings(max_examples=60, deadline=None)
@given(pair=linear_pairs(), tuples=st.sampled_from([(1, 1), (4, 2)]), grouped=st.booleans())
def test_what_is_told_is_what_is_found(pair, tuples, grouped):
    for machine in (SM_80, SM_90A, GFX942):
        assert all(
            told == found for told, found in compared(pair[0], pair[1], machine, tuples, grouped=grouped)
        )


@pytest.mark.parametrize(
    ("source", "destination", "machine"),
    [
        ("mma.m16n8k8.tf32:D^T", "mma.m16n8k8.tf32:A", "sm_90a"),
        ("mma.m16n8k32.s8:D@s8", "mma.m16n8k32.s8:B", "sm_80"),
        ("mma.m16n8k16.f16:D^T", "mma.m16n8k16.f16:A", "sm_90a"),
        ("v_mfma_f32_16x16x4_f32:D", "v_mfma_f32_16x16x4_f32:A", "gfx942"),
    ],
)
def test_fragments(source, destination, machine):
    request = read_request(source, destination, machine, None)
    relation = relate(request.source, request.destination).in_words
    tuples = request.source_registers, request.tuple_registers
    found = compared(relation.source, relation.destination, request.machine, tuples)
    assert len({made for _, made in found}) > 1  # arrangements differ
    assert all(told == made for told, made in found)


def test_elements_that_several_lanes_hold():
    lane = np.arange(32)[:, None]
    held = Layout("held twice", (16, 4), "b32", lane % 16 * 4 + np.arange(4))
    needed = Layout("needed twice", (16, 4), "b32", np.arange(4)[None] * 16 + lane // 2)
    twice = Layout("items twice", (16, 4), "b32", lane % 16 * 4 + np.arange(8) % 4)
    once = Layout("once", (16, 4), "b32", np.arange(64).reshape(32, 2))
    for pair in ((held, once), (once, needed), (needed, held), (once, twice), (twice, needed)):
        found = compared(*pair, SM_90A)
        assert found
        assert all(told == made for told, made in found)


def test_of_several_warps_no_more_is_told_than_it_takes():
    numbers = np.arange(128 * 32)
    source = Layout("s", (64, 64), "f16", numbers.reshape(128, 32))
    destination = Layout("d", (64, 64), "f16", numbers.reshape(64, 64).T.reshape(128, 32))
    found = compared(source, destination, SM_80)
    assert found
    assert all(told[0] <= made[0] and told[1] == made[1] for told, made in found)
