"""Elements of less than a byte that part: through shared memory in bytes of their own."""

from dataclasses import replace

import numpy as np
import pytest

from regweave.layouts import Layout
from regweave.machines.catalogue import find_machine
from regweave.programs import Array, ProgramBuilder, run_program
from regweave.rearrangement import rearrange
from regweave.rearrangement.cost import cost_of
from regweave.rearrangement.proof import prove
from regweave.rearrangement.relation import relate
from regweave.rearrangement.request import Request, read_request
from regweave.rearrangement.shared.banks import bank_conflicts
from regweave.rearrangement.shared.forms import FORMS, SharedWay, lower_passage
from regweave.rearrangement.shared.passages import linear_passage
from regweave.rearrangement.spreading import (
    bytes_part,
    in_bytes,
    join,
    least_spread,
    pieces_of,
    spread,
    spreading_steps,
)

SM_80, GFX942 = find_machine("sm_80"), find_machine("gfx942")


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_words_are_spread_and_joined(bits):
    builder = ProgramBuilder("words", 32, Array("source", "b32", 1), Array("destination", "b32", 1))
    pieces = spread(builder, builder.word(0), bits)
    assert len(pieces) == max(1, 8 // bits)
    program = builder.finish([join(builder, pieces, bits)])
    words = np.random.default_rng(1).integers(0, 1 << 32, (32, 1), dtype=np.uint32)
    assert np.array_equal(run_program(program, words), words)
    assert len(program.steps) == 1 or bits < 8


@pytest.mark.parametrize(
    ("machine", "source", "destination", "most"),
    [
        ("gfx906", "v_dot8_i32_i4:D^T", "v_dot8_i32_i4:A", 165),
        ("gfx942", "v_dot8_i32_i4:D@s4^T", "v_dot8_i32_i4:A", 173),
        ("gfx950", "v_mfma_f32_32x32x64_f8f6f4.e2m1:D", "v_mfma_f32_32x32x64_f8f6f4.e2m1:A", 111),
        ("sm_80", "mma.m8n8k32.s4:D", "mma.m8n8k32.s4:B", 34),
        ("sm_80", "mma.m16n8k256.b1.xor:D@b1^T", "mma.m16n8k256.b1.xor:A", 204),
    ],
)
def test_transposes_of_what_is_less_than_a_byte(machine, source, destination, most):
    plan = rearrange(source, destination, machine).verify()
    assert (plan.strategy, plan.form) == ("shared", "whole-warp")
    assert plan.cost.instructions <= most
    assert bank_conflicts(plan.chosen.program, plan.machine) == 0


def applicable(source, destination, machine):
    """The forms that apply, proved."""
    relation = relate(source, destination)
    request = Request(source, destination, machine, 1)
    found = [SharedWay(request, relation, form).candidate() for form in FORMS]
    applying = [candidate for candidate in found if candidate.applies]
    for candidate in applying:
        prove(candidate.program, relation)
        assert bank_conflicts(candidate.program, machine) == 0
    return {candidate.form: candidate for candidate in applying}


def shuffled(dtype, lanes, items, seed, source="b4"):
    """A row of elements in order, and the same in any order."""
    numbers = np.arange(lanes * items)
    order = np.random.default_rng(seed).permutation(numbers)
    first = Layout("in order", (1, numbers.size), source, numbers.reshape(lanes, items))
    return first, Layout("in any order", (1, numbers.size), dtype, order.reshape(lanes, items))


@pytest.mark.parametrize(
    ("dtype", "lanes", "items", "machine"),
    [("b4", 32, 8, SM_80), ("b4", 64, 16, GFX942), ("b1", 32, 32, SM_80), ("b4", 64, 8, SM_80)],
)
def test_any_order_of_less_than_a_byte(dtype, lanes, items, machine):
    source, destination = shuffled(dtype, lanes, items, 5, dtype)
    assert "whole-warp" in applicable(source, destination, machine)


def test_numbers_are_narrowed_on_the_way():
    for items in (8, 16, 24):
        source, destination = shuffled("s4", 32, items, items, "s32")
        assert "whole-warp" in applicable(source, destination, SM_80)
    # an odd number of words that are stored whole: each lane's own, in an order of its own
    lane = np.arange(32)[:, None]
    source = Layout("mine", (32, 8), "s32", lane * 8 + np.arange(8))
    turned = Layout("turned", (32, 8), "s4", lane * 8 + (np.arange(8) + lane) % 8)
    assert {"whole-warp", "single-lane"} <= applicable(source, turned, SM_80).keys()


def test_elements_that_several_lanes_hold():
    lane = np.arange(32)[:, None]
    held = Layout("held twice", (16, 8), "b4", lane % 16 * 8 + np.arange(8))
    needed = Layout("needed twice", (16, 8), "b4", np.arange(8) * 16 + lane // 2)
    assert "whole-warp" in applicable(held, needed, SM_80)


def test_what_parts():
    lane = np.arange(32)[:, None]
    source = Layout("mine", (32, 8), "b4", lane * 8 + np.arange(8))
    for order, parts in (([2, 3, 0, 1, 6, 7, 4, 5], False), ([1, 0, 3, 2, 5, 4, 7, 6], True)):
        relation = relate(source, Layout("other", (32, 8), "b4", lane * 8 + np.array(order)))
        assert bytes_part(relation) == parts
    # eight elements of a word: four bytes of the even ones, four of the odd ones
    pieces = in_bytes(relation)
    assert pieces.source.table[0].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert pieces.destination.table[0].tolist() == [1, 3, 5, 7, 0, 2, 4, 6]
    assert pieces.items[0].tolist() == [4, 5, 6, 7, 0, 1, 2, 3]
    few = Layout("four of eight", (32, 4), "b4", lane * 4 + np.arange(4))
    assert in_bytes(relate(few, few)) is None


@pytest.mark.parametrize(
    ("name", "dtype", "least"),
    [("mma.m16n8k256.b1.xor", "b1", 164), ("mma.m8n8k32.s4", "s4", 9), ("mma.m16n8k64.s4", "s4", 32)],
)
def test_bound_of_what_is_spread(name, dtype, least):
    request = read_request(f"{name}:D@{dtype}^T", f"{name}:A", "sm_80", None)
    relation = relate(request.source, request.destination)
    assert bytes_part(relation)
    assert least_spread(relation) == least > spreading_steps(relation, int(dtype[1:]))
    passage = linear_passage(in_bytes(relation), SM_80)
    program = lower_passage("spread", relation, replace(passage, pieces=pieces_of(int(dtype[1:]))), SM_80)
    prove(program, relation)
    assert cost_of(program).instructions >= least
