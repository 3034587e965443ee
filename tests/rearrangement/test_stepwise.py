"""Exchanges in steps: the known ones, and random linear relations, all proved by running them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave import layout, rearrange
from regweave.layouts import Layout
from regweave.machines.catalogue import find_machine
from regweave.rearrangement import relate
from regweave.rearrangement.exchange.fixed_moves import fixed_move
from regweave.rearrangement.proof import prove
from regweave.rearrangement.request import Request
from regweave.rearrangement.steps.bit_maps import find_bit_map
from regweave.rearrangement.steps.bit_steps import Columns, add_bits, exchange_bits, transposition
from regweave.rearrangement.steps.search import find_walk
from regweave.rearrangement.steps.stepwise import distinct, step_searches
from regweave.rearrangement.subspaces import combined


def candidates(source, destination, machine="sm_80", most=None):
    """The candidates, each proved on every slot."""
    request = Request(source, destination, find_machine(machine), 4)
    relation = relate(source, destination)
    ways = [search.way(most) for search in step_searches(request, relation)]
    found = distinct([candidate for way in ways if way is not None for candidate in way.candidates])
    for candidate in found:
        prove(candidate.program, relation)
    return found


def opcodes(candidate):
    names = [step.opcode for step, _ in candidate.program.walk()]
    return {name: names.count(name) for name in set(names) - {"word", "bits", "number", "constant"}}


def slots_as_elements(name, dtype, lane_columns, item_columns, lanes, items, constant=0):
    """The layout whose slot bits flip the given bits of the element's number."""
    table = np.full((lanes, items), constant)
    for bit, column in enumerate(lane_columns):
        table ^= np.where(np.arange(lanes) >> bit & 1, column, 0)[:, None]
    for bit, column in enumerate(item_columns):
        table ^= np.where(np.arange(items) >> bit & 1, column, 0)
    return Layout(name, (1, lanes * items), dtype, table)


def plain(dtype, lanes, items):
    return Layout("plain", (1, lanes * items), dtype, np.arange(lanes * items).reshape(items, lanes).T)


@pytest.mark.parametrize("packed", [False, True])
def test_f16_to_b_operand_is_eight_movmatrix(packed):
    source = layout("mma.m16n8k16.f16:C").repeat(2, 2)
    destination = layout("mma.m16n8k16.f16:B").repeat(2, 2)
    best = candidates(source if packed else source.retype("f16"), destination)[0]
    assert opcodes(best) == {"transpose": 8} | ({"pack_f16": 8} if packed else {})
    assert (best.cost.exchanges, best.cost.selects) == (8, 0)


def fp8_of_gfx950():
    """D and A of 16x16x128 fp8, transposed product; a lane of A holds k 0..15 and 64..79, plus 16 per row."""
    rows = [(1, 0), (2, 0), (4, 0), (8, 0)]
    d = Layout.linear("D", (16, 128), "e4m3", lane=[*rows, (0, 4), (0, 8)],
                      item=[(0, 1), (0, 2), (0, 16), (0, 32), (0, 64)])  # fmt: skip
    a = Layout.linear("A", (16, 128), "e4m3", lane=[*rows, (0, 16), (0, 32)],
                      item=[(0, 1), (0, 2), (0, 4), (0, 8), (0, 64)])  # fmt: skip
    return d, a


def test_gfx950_swaps_rows_and_halves_of_the_wave():
    swaps, shuffles = candidates(*fp8_of_gfx950(), "gfx950")
    bits = [step.numbers[0] for step, _ in swaps.program.walk() if step.opcode == "lane_swap"]
    assert sorted(bits) == [16] * 4 + [32] * 4
    assert opcodes(swaps) == {"lane_swap": 8}
    assert opcodes(shuffles)["shuffle"] == 8
    assert opcodes(candidates(*fp8_of_gfx950(), "gfx942")[0])["shuffle"] == 8


def test_a_butterfly_needs_fewer_selects_than_rotations():
    """Three lane bits change places with three register bits: 12 exchanges and 36 selects."""
    source = plain("b32", 8, 8)
    found = candidates(source, Layout("turned", source.shape, "b32", source.table.T))
    assert (found[0].cost.exchanges, found[0].cost.selects) == (12, 36)
    assert "3 x exchange of a lane bit with a register bit" in found[0].reason


def test_a_relay_passes_bytes_through_other_lanes():
    """One word of four bytes from four lanes: two exchanges where one hop takes three."""
    source = plain("b8", 4, 4)
    (found,) = candidates(source, Layout("turned", source.shape, "b8", source.table.T))
    assert (found.cost.exchanges, opcodes(found)["byte_permute"]) == (2, 2)


def test_moves_within_a_row_are_dpp():
    source = plain("b32", 64, 4)
    swapped = slots_as_elements("s", "b32", [64, 2, 4, 128, 16, 32], [1, 8], 64, 4)
    assert opcodes(candidates(source, swapped, "gfx90a")[0])["row_move"] == 4
    far = slots_as_elements("s", "b32", [1, 2, 4, 8, 64, 128], [16, 32], 64, 4)
    found = opcodes(candidates(source, far, "gfx1100_w64")[0])
    assert (found["row_permute"], found["half_swap"]) == (2, 2)
    # a machine without shuffles takes no others
    rotated = slots_as_elements("s", "b32", [2, 4, 8, 16, 32, 1], [64, 128], 64, 4)
    assert candidates(source, rotated, "gfx1100_w64") == ()
    assert candidates(source, rotated, "gfx90a") != ()


def test_what_is_out_of_reach_has_no_candidate():
    source = plain("b32", 8, 2)
    assert candidates(source, source) == ()  # nothing moves between lanes
    assert candidates(source, slots_as_elements("s", "b32", [1, 2, 4], [8], 8, 2, constant=1)) == ()
    moved = slots_as_elements("s", "b32", [8, 2, 4], [1], 8, 2)
    assert candidates(source, moved, most=3) == ()
    (found,) = candidates(source, moved, most=4)
    assert found.cost.exchanges + found.cost.selects == 4
    order = np.random.default_rng(0).permutation(16)
    assert find_bit_map(relate(source, Layout("any", (1, 16), "b32", order.reshape(8, 2)))) is None
    assert find_bit_map(relate(plain("b4", 8, 8), plain("b4", 8, 8))) is None


def test_copies_of_one_map():
    """Three tiles side by side: the steps of one, three times."""
    source, destination = layout("mma.m16n8k8.tf32:C"), layout("mma.m16n8k8.tf32:A")
    one, three = (candidates(source.repeat(1, n), destination.repeat(1, n))[0].cost for n in (1, 3))
    assert (three.exchanges, three.selects) == (3 * one.exchanges, 3 * one.selects)
    assert three.logic == one.logic


@st.composite
def linear_pairs(draw):
    """A layout whose slots are its elements, and one that is linear over bits."""
    dtype, part_bits = draw(st.sampled_from([("b32", 0), ("b16", 1), ("b8", 2)]))
    machine, most = draw(st.sampled_from([("sm_80", 5), ("gfx950", 6), ("gfx1100", 5)]))
    lane_bits = draw(st.integers(1, most))
    item_bits = part_bits + draw(st.integers(0, 2))
    size = lane_bits + item_bits
    columns = [1 << bit for bit in draw(st.permutations(range(size)))]
    permutation = draw(st.booleans())
    for _ in range(0 if permutation else draw(st.integers(1, 4))):
        target, added = draw(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)))
        if target != added:
            columns[target] ^= columns[added]
    constant = draw(st.integers(0, (1 << item_bits) - 1)) << lane_bits
    lanes, items = 1 << lane_bits, 1 << item_bits
    destination = slots_as_elements(
        "linear", dtype, columns[:lane_bits], columns[lane_bits:], lanes, items, constant
    )
    return plain(dtype, lanes, items), destination, machine, permutation and constant == 0


@settings(max_examples=120, deadline=None)
@given(linear_pairs())
def test_any_linear_relation(pair):
    source, destination, machine, must = pair
    found = candidates(source, destination, machine)
    relation = relate(source, destination)
    crosses = bool(np.any(relation.peers != np.arange(relation.lanes)[:, None]))
    if must and crosses:
        assert found
    goal = find_bit_map(relation)
    walk = find_walk(goal, False, find_machine(machine), fused=True)
    if walk is not None:
        columns = walk.start
        for step in walk.steps:
            columns = step.applied(columns)
        assert columns == (goal.lanes, goal.parts, goal.registers)


@pytest.mark.parametrize(
    "step",
    [add_bits("shift", 7, 6, 0b0011), exchange_bits("swap", 7, 4, 6), transposition(7, 5)],
    ids=lambda step: step.kind,
)
def test_sums_of_columns_stay_what_they_are(step):
    columns = Columns((1, 2, 4, 8, 16), (32 ^ 1,), (64 ^ 2,))
    masks = list(range(1 << 7))
    after = step.applied(columns).all
    assert after != columns.all
    rewritten = step.rewritten(masks)
    assert [combined(after, mask) for mask in rewritten] == [combined(columns.all, mask) for mask in masks]


def test_fixed_moves_are_what_they_say():
    everything = frozenset().union(*(find_machine(name).exchanges for name in ("gfx90a", "gfx1100_w64")))
    lanes = list(range(64))
    assert fixed_move([lane ^ 1 for lane in lanes], everything) == ("row_move", (0xB1,))
    assert fixed_move([lane ^ 8 for lane in lanes], everything) == ("row_move", (0x128,))
    assert fixed_move([lane ^ 32 for lane in lanes], everything) == ("half_swap", ())
    assert fixed_move([lane ^ 16 for lane in lanes], everything)[0] == "row_permute"
    assert fixed_move([(lane + 1) % 64 for lane in lanes], everything) is None
    # lanes that do not care fit any pattern
    assert fixed_move([lane ^ 1 if lane < 4 else None for lane in lanes], everything) == ("row_move", (0xB1,))
    assert fixed_move([lane ^ 1 for lane in lanes], frozenset({"shuffle"})) is None


def test_rounds_by_a_pattern_need_no_index():
    """The halves of a row of f16 products that gfx11 wants together: v_permlanex16 instead of shuffles."""
    plan = rearrange("v_wmma_f32_16x16x16_f16:D@f16^T", "v_wmma_f32_16x16x16_f16:A", "gfx1100", "lean")
    counted = opcodes(plan.chosen)
    assert (counted["row_permute"], counted["byte_permute"]) == (4, 8)
    assert "shuffle" not in counted
    assert plan.cost.exchanges == plan.lower_bound == 4


@pytest.mark.parametrize("strategy", ["exchange", "lean", "steps"])
def test_the_catalogued_fp8_seam_of_gfx950(strategy):
    name = "v_mfma_f32_16x16x128_f8f6f4"
    plan = rearrange(f"{name}:D@e4m3^T", f"{name}:A", "gfx950", strategy)
    assert opcodes(plan.chosen) == {"lane_swap": 8}
    assert plan.rounds == plan.cost.exchanges == 8


def test_who_asks_for_an_exchange_gets_few_shuffles():
    """Steps take fewer instructions here, but 12 shuffles where one hop takes 4."""
    names = "mma.m16n8k32.s8:C@s8", "mma.m16n8k32.s8:B"
    asked = rearrange(*names, "sm_80", "exchange", tile="32x16")
    steps = rearrange(*names, "sm_80", "steps", tile="32x16")
    assert asked.cost.exchanges == asked.one_hop_minimum == 4 < steps.cost.exchanges
    assert steps.cost.instructions < asked.cost.instructions
