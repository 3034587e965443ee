"""Coordination matrices of random bijections: conflict-free, complete, in the fewest rounds."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave import layout, rearrange
from regweave.errors import VerificationError
from regweave.layouts import Layout
from regweave.programs import run_program
from regweave.rearrangement import relate
from regweave.rearrangement.exchange.forms import without_local_rounds
from regweave.rearrangement.problem import find_problem
from regweave.rearrangement.schedule.colouring import coloured_matrix
from regweave.rearrangement.schedule.linear import linear_matrix
from regweave.rearrangement.schedule.matrix import check_matrix, preliminary_matrix


@st.composite
def bijections(draw, most_lanes=12, most_words=5):
    """Two layouts of one tile on any number of lanes."""
    lanes, words = draw(st.integers(1, most_lanes)), draw(st.integers(1, most_words))
    order = np.reshape(draw(st.permutations(range(lanes * words))), (lanes, words))
    shape = lanes, words
    return (
        Layout("source", shape, "b32", np.arange(lanes * words).reshape(shape)),
        Layout("destination", shape, "b32", order),
    )


def prepared(pair):
    relation = relate(*pair)
    problem = find_problem(relation, relation.lanes)
    return problem.words, problem.group


def received(matrix, words):
    """What every lane of the group holds after the exchange, played by hand."""
    kept = {}
    for lane, row, stays in zip(matrix.lanes, matrix.rows, matrix.stays, strict=True):
        for entry in (*row, *stays):
            if entry is not None:
                assert (lane, entry.keep) not in kept
                kept[lane, entry.keep] = (entry.peer, entry.word)
    return kept


@settings(max_examples=60, deadline=None)
@given(bijections())
def test_colouring_is_conflict_free_complete_and_shortest(pair):
    words, group = prepared(pair)
    direct = coloured_matrix(words, group, remote_only=False)
    lean = coloured_matrix(words, group, remote_only=True)
    for matrix in (direct, lean):
        assert check_matrix(matrix, words, group) is matrix
        for number in range(matrix.rounds):
            peers = [entry.peer for entry in matrix.column(number) if entry is not None]
            assert len(peers) == len(set(peers))
        needed = {
            (lane, r): (int(words.peers[lane, r]), int(words.words[lane, r]))
            for lane in group.lanes
            for r in group.registers
        }
        assert received(matrix, words) == needed
    assert direct.rounds == len(group.registers)
    remote = [(i, int(p)) for i in group.lanes for p in words.peers[i, list(group.registers)] if p != i]
    degrees = Counter(i for i, _ in remote) | Counter(p for _, p in remote)
    assert lean.rounds == max(degrees.values(), default=0)


@settings(max_examples=40, deadline=None)
@given(bijections(), st.sampled_from(["direct", "lean", "exchange"]), st.randoms(use_true_random=False))
def test_plans_move_any_data(pair, form, random):
    source, destination = pair
    plan = rearrange(source, destination, strategy=form)
    program = plan.chosen.program
    assert program is not None
    words = np.array(
        [[random.getrandbits(32) for _ in range(source.items)] for _ in range(32)], dtype=np.uint32
    )
    tile = np.empty(source.elements, dtype=np.uint32)
    tile[source.table] = words[: source.lanes]
    found = run_program(program, words)[: source.lanes]
    assert np.array_equal(found, tile[destination.table])
    back = rearrange(destination, source, strategy=form).chosen.program
    assert back is not None
    padded = np.zeros((32, source.items), dtype=np.uint32)
    padded[: source.lanes] = found
    assert np.array_equal(run_program(back, padded)[: source.lanes], words[: source.lanes])


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_linear_relations_get_linear_schedules(data):
    """Random permutations of the bits of (lane, register)."""
    lane_bits, register_bits = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    order = data.draw(st.permutations(range(lane_bits + register_bits)))
    shape = 1 << lane_bits, 1 << register_bits
    numbers = np.arange(shape[0] * shape[1])
    moved = sum((numbers >> bit & 1) << place for bit, place in enumerate(order))
    pair = Layout("s", shape, "b32", numbers.reshape(shape)), Layout("d", shape, "b32", moved.reshape(shape))
    words, group = prepared(pair)
    matrix = linear_matrix(words, group)
    assert matrix is not None
    assert check_matrix(matrix, words, group).rounds == len(group.registers)


def test_both_schedulers_find_the_worked_example():
    words, group = prepared((layout("mma.m16n8k8.tf32:C"), layout("mma.m16n8k8.tf32:A")))
    linear = linear_matrix(words, group)
    assert linear is not None
    coloured = coloured_matrix(words, group, remote_only=False)
    assert linear == coloured


def test_relations_that_are_not_linear_have_no_linear_schedule():
    shape = (3, 2)
    pair = (
        Layout("s", shape, "b32", [[0, 1], [2, 3], [4, 5]]),
        Layout("d", shape, "b32", [[2, 1], [4, 3], [0, 5]]),
    )
    assert linear_matrix(*prepared(pair)) is None


def test_a_round_of_local_words_costs_no_exchange():
    square = np.arange(16).reshape(4, 4)
    pair = Layout("rows", (4, 4), "b32", square), Layout("columns", (4, 4), "b32", square.T)
    direct, lean, steps = (
        next(found for found in rearrange(*pair).candidates if found.form == form)
        for form in ("direct", "lean", "steps")
    )
    assert (lean.cost.exchanges, direct.cost.exchanges, steps.cost.exchanges) == (3, 4, 4)
    assert (lean.cost.selects, steps.cost.selects) == (16, 12)
    assert [len(stays) for stays in lean.matrix.stays] == [1, 1, 1, 1]
    stripped = without_local_rounds(direct.matrix)
    assert stripped.rounds == 3


def test_broken_matrices_are_found():
    words, group = prepared((layout("mma.m16n8k8.tf32:C"), layout("mma.m16n8k8.tf32:A")))
    with pytest.raises(VerificationError, match="round 0 asks lane 0 for two words"):
        check_matrix(preliminary_matrix(words, group), words, group)
    matrix = coloured_matrix(words, group, remote_only=False)
    with pytest.raises(VerificationError, match="lane 0 does not receive"):
        check_matrix(replace(matrix, rows=((*matrix.rows[0][:3], None), *matrix.rows[1:])), words, group)
    moved = replace(
        matrix,
        rows=((matrix.rows[0][0], matrix.rows[0][1], None, matrix.rows[0][3]), *matrix.rows[1:]),
        stays=((matrix.rows[0][2],), *matrix.stays[1:]),
    )
    with pytest.raises(VerificationError, match="keeps a word that it does not have"):
        check_matrix(moved, words, group)
