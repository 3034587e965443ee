"""Index expressions: equal to their tables on every lane, and as cheap as can be expected."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.errors import UnsupportedError
from regweave.machines.nvidia import SM_80
from regweave.programs import Array, ProgramBuilder, run_program
from regweave.rearrangement.expressions.nodes import (
    LANE,
    Binary,
    Constant,
    evaluate,
    expression_cost,
    lower_expression,
)
from regweave.rearrangement.expressions.predicates import find_predicate
from regweave.rearrangement.expressions.synthesis import synthesise
from regweave.rearrangement.expressions.tables import Table

ALL = 0xFFFFFFFF
COSTS = SM_80.costs


def over_warp(values):
    return [values[lane % len(values)] for lane in range(32)]


@pytest.mark.parametrize(
    ("values", "mask", "text", "cost"),
    [
        (over_warp([5]), ALL, "5", 0),
        (range(32), ALL, "lane", 0),
        (over_warp([0, 1, 2, 3]), 3, "lane", 0),
        (over_warp([1, 0, 3, 2]), 3, "lane ^ 1", 1),
        (over_warp([1, 2, 3, 0]), 3, "lane + 1", 1),
        (over_warp([3, 2, 1, 0]), 3, "lane ^ 3", 1),
        (over_warp([0, 3, 2, 1]), 3, "0 - lane", 1),
        (over_warp([0, 2, 0, 2]), ALL, "(lane << 1) & 2", 2),
        ([lane // 4 for lane in range(32)], ALL, "lane >> 2", 1),
        ([lane | 16 for lane in range(32)], ALL, "lane | 16", 1),
        (over_warp([0, 2, 1, 3]), 3, "((lane >> 1) & 1) | (lane << 1)", 3),
        ([lane ^ lane >> 1 for lane in range(32)], ALL, "(lane >> 1) ^ lane", 2),
        (over_warp([2, 0, 1, 2]), 3, "rotate_right(0x92929292, lane << 1)", 3),
    ],
)
def test_the_cheapest_form_is_found(values, mask, text, cost):
    expression = synthesise(list(values), mask, COSTS)
    assert expression_cost(expression, COSTS) == cost
    assert str(expression) == text


def test_what_is_known_is_free():
    first = synthesise(over_warp([0, 2, 1, 3]), 3, COSTS)
    second = synthesise(over_warp([2, 0, 3, 1]), 3, COSTS, (first,))
    assert second == Binary("xor", first, Constant(2))
    assert expression_cost(second, COSTS, (first,)) == 1


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_table_is_computed_on_every_lane_that_cares(data):
    lanes = data.draw(st.sampled_from([1, 2, 3, 6, 8, 32, 40, 64]))
    most = data.draw(st.sampled_from([1, 3, 31, 255, 65535]))
    entry = st.one_of(st.none(), st.integers(0, most))
    values = data.draw(st.lists(entry, min_size=lanes, max_size=lanes))
    mask = data.draw(st.sampled_from([most, ALL, 5]))
    expression = synthesise(values, mask, COSTS)
    for lane, found in enumerate(evaluate(expression, lanes)):
        value = values[lane]
        assert value is None or (int(found) ^ value) & mask == 0


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([3, 32, 64]), st.data())
def test_any_set_of_lanes_has_a_predicate(size, data):
    lanes = data.draw(st.lists(st.sampled_from([True, False, None]), min_size=size, max_size=size))
    predicate = find_predicate(lanes, COSTS)
    truth = (evaluate(predicate.expression, size) & np.uint32(predicate.mask)) != 0
    for lane, wanted in enumerate(lanes):
        assert wanted is None or (bool(truth[lane]) != predicate.negated) == wanted


@pytest.mark.parametrize(
    ("lanes", "mask", "negated", "cost"),
    [
        ([lane & 2 for lane in range(32)], 2, False, 1),
        ([lane & 6 for lane in range(32)], 6, False, 1),
        ([not lane & 2 for lane in range(32)], 2, True, 1),
        ([lane == 0 for lane in range(32)], 31, True, 1),
        ([lane == 0 for lane in range(64)], 63, True, 1),
    ],
)
def test_bit_tests_are_seen(lanes, mask, negated, cost):
    predicate = find_predicate([bool(lane) for lane in lanes], COSTS)
    assert (predicate.expression, predicate.mask, predicate.negated) == (LANE, mask, negated)
    assert predicate.cost(COSTS) == cost


@pytest.mark.parametrize(
    ("lanes", "text", "cost"),
    [
        ([lane & 6 == 4 for lane in range(32)], "lane ^ 4", 2),
        ([lane >= 12 for lane in range(32)], "lane + 20", 2),
        ([lane < 45 for lane in range(64)], "lane + 19", 2),
        ([bool((lane ^ lane >> 2) & 2) for lane in range(32)], "lane ^ (lane >> 2)", 3),
    ],
)
def test_values_ranges_and_parities_of_lane_bits_are_seen(lanes, text, cost):
    predicate = find_predicate(lanes, COSTS)
    assert (str(predicate.expression), predicate.cost(COSTS)) == (text, cost)


def test_expressions_become_steps():
    expression = synthesise(over_warp([0, 2, 1, 3]), 3, COSTS)
    builder = ProgramBuilder("f", 32, Array("s", "b32", 1), Array("d", "b32", 1))
    program = builder.finish([lower_expression(expression, builder)])
    found = run_program(program, np.zeros((32, 1), dtype=np.uint32))[:, 0]
    assert np.array_equal(found, evaluate(expression, 32))


def test_tables_of_several_warps():
    assert str(synthesise([lane ^ 1 for lane in range(64)], ALL, COSTS)) == "lane ^ 1"
    assert str(synthesise([lane ^ lane >> 3 for lane in range(128)], ALL, COSTS)) == "(lane >> 3) ^ lane"
    scattered = [lane * lane * 7 % 127 for lane in range(128)]
    looked_up = synthesise(scattered, ALL, COSTS)
    assert evaluate(looked_up, 128).tolist() == scattered
    assert "lane & 32 ?" in str(looked_up)
    assert "lane & 64 ?" in str(looked_up)
    few = synthesise(scattered[:100], ALL, COSTS)
    assert evaluate(few, 100).tolist() == scattered[:100]
    with pytest.raises(UnsupportedError, match="128 lanes"):
        find_predicate([bool(lane & 1) for lane in range(128)], COSTS)


def test_sixty_four_lanes_choose_between_two_words():
    values = [lane * lane * 7 % 61 % 2 for lane in range(64)]
    expression = synthesise(values, 1, COSTS)
    assert str(expression).startswith("rotate_right(lane & 32 ? 0x")
    assert str(expression).endswith(", lane)")
    assert expression_cost(expression, COSTS) == 4  # test, select, rotation, and a word in a register


@pytest.mark.parametrize(
    ("values", "text", "cost"),
    [
        (over_warp([0x5410, 0x7632]), "lane & 1 ? 0x00007632 : 0x00005410", 3),
        ([0x5410 if lane & 6 == 4 else 0x3210 for lane in range(64)],
         "(lane ^ 4) & 6 ? 0x00003210 : 0x00005410", 4),
        (over_warp([0x5140, 0x4051, 0x7362, 0x6273]),
         "rotate_right(lane & 2 ? 0x62737362 : 0x40515140, lane << 4)", 5),
        (over_warp([0x5140, 0x4051, 0x7362, 0x5040]),
         "rotate_right(lane & 2 ? 0x50407362 : 0x40515140, lane << 4)", 5),
    ],
)  # fmt: skip
def test_selectors_of_byte_permutes_are_choices(values, text, cost):
    expression = synthesise(values, 0xFFFF, COSTS)
    assert (evaluate(expression, len(values)) & 0xFFFF).tolist() == list(values)
    assert (str(expression), expression_cost(expression, COSTS)) == (text, cost)


def test_parts_of_what_is_known_are_free():
    known = synthesise(over_warp([0x5410, 0x7632]), 0xFFFF, COSTS)
    other = synthesise(over_warp([0x3210, 0x7654]), 0xFFFF, COSTS, (known,))
    assert expression_cost(other, COSTS, (known,)) == expression_cost(other, COSTS) - COSTS.test


def test_tables_know_their_bits():
    table = Table((0, 2, 1, 3), 3)
    assert table.affine_terms() == (0, {1: 2, -1: 1})
    assert Table((0, 1, 1, 1), 3).affine_terms() is None
    assert Table((1, 2, None), 3).affine_terms() is None
