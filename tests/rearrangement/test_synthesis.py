"""Index expressions: equal to their tables on every lane, and as cheap as can be expected."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.errors import UnsupportedError
from regweave.machines.nvidia import SM_80
from regweave.programs import Array, ProgramBuilder, run_program
from regweave.rearrangement.expressions import (
    LANE,
    Binary,
    Constant,
    evaluate,
    expression_cost,
    lower_expression,
)
from regweave.rearrangement.predicates import find_predicate
from regweave.rearrangement.synthesis import synthesise
from regweave.rearrangement.tables import Table

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
    lanes = data.draw(st.sampled_from([1, 2, 3, 6, 8, 32]))
    most = data.draw(st.sampled_from([1, 3, 31, 255]))
    entry = st.one_of(st.none(), st.integers(0, most))
    values = data.draw(st.lists(entry, min_size=lanes, max_size=lanes))
    mask = data.draw(st.sampled_from([most, ALL, 5]))
    expression = synthesise(values, mask, COSTS)
    for lane, found in enumerate(evaluate(expression, lanes)):
        value = values[lane]
        assert value is None or (int(found) ^ value) & mask == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([True, False, None]), min_size=32, max_size=32))
def test_any_set_of_lanes_has_a_predicate(lanes):
    predicate = find_predicate(lanes, COSTS)
    truth = (evaluate(predicate.expression, 32) & np.uint32(predicate.mask)) != 0
    for lane, wanted in enumerate(lanes):
        assert wanted is None or (bool(truth[lane]) != predicate.negated) == wanted


@pytest.mark.parametrize(
    ("lanes", "mask", "negated", "cost"),
    [
        ([lane & 2 for lane in range(32)], 2, False, 1),
        ([lane & 6 for lane in range(32)], 6, False, 1),
        ([not lane & 2 for lane in range(32)], 2, True, 1),
        ([lane == 0 for lane in range(32)], 31, True, 1),
    ],
)
def test_bit_tests_are_seen(lanes, mask, negated, cost):
    predicate = find_predicate([bool(lane) for lane in lanes], COSTS)
    assert (predicate.expression, predicate.mask, predicate.negated) == (LANE, mask, negated)
    assert predicate.cost(COSTS) == cost


def test_expressions_become_steps():
    expression = synthesise(over_warp([0, 2, 1, 3]), 3, COSTS)
    builder = ProgramBuilder("f", 32, Array("s", "b32", 1), Array("d", "b32", 1))
    program = builder.finish([lower_expression(expression, builder)])
    found = run_program(program, np.zeros((32, 1), dtype=np.uint32))[:, 0]
    assert np.array_equal(found, evaluate(expression, 32))


def test_tables_larger_than_a_word_need_arithmetic():
    assert str(synthesise([lane ^ 1 for lane in range(64)], ALL, COSTS)) == "lane ^ 1"
    scattered = [lane * lane * 7 % 61 for lane in range(64)]
    with pytest.raises(UnsupportedError, match="64 lanes"):
        synthesise(scattered, ALL, COSTS)


def test_tables_know_their_bits():
    table = Table((0, 2, 1, 3), 3)
    assert table.affine_terms() == (0, {1: 2, -1: 1})
    assert Table((0, 1, 1, 1), 3).affine_terms() is None
    assert Table((1, 2, None), 3).affine_terms() is None
