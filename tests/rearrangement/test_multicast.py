"""Replicated elements: which holder is asked, and schedules in which many lanes take one offer."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave import rearrange
from regweave.errors import VerificationError
from regweave.layouts import Layout
from regweave.machines.catalogue import find_machine
from regweave.rearrangement import CoordinationMatrix, Entry, relate
from regweave.rearrangement.bounds import lower_bound
from regweave.rearrangement.exchange.lowering import Rounds, lower_exchange
from regweave.rearrangement.holders import nearest_holders, word_holders
from regweave.rearrangement.problem import find_problem
from regweave.rearrangement.proof import prove
from regweave.rearrangement.schedule.linear import linear_matrix
from regweave.rearrangement.schedule.matrix import check_matrix
from regweave.rearrangement.schedule.multicast import multicast_matrix
from regweave.rearrangement.schedule.multicast_rounds import Request, fewest_rounds
from regweave.views.rearrangement_text import matrix_text

SM_80 = find_machine("sm_80")


def words(name, table):
    table = np.asarray(table)
    return Layout(name, (1, int(table.max()) + 1), "b32", table)


def scheduled(source, destination):
    """Relation, group, the words with the holders that are asked, and the matrix, checked and run."""
    relation = relate(source, destination)
    problem = find_problem(relation, 32)
    holders = word_holders(source, problem.words.contents, source.lanes)
    asked, matrix = multicast_matrix(problem.words, problem.group, holders)
    assert check_matrix(matrix, asked, problem.group) is matrix
    rounds = Rounds(asked, problem.group, matrix, SM_80)
    program = lower_exchange("f", problem.relation, rounds, locals_travel=False)
    prove(program, relation)
    return relation, matrix, program


def test_a_broadcast_takes_one_round_per_word():
    here = np.arange(16).reshape(8, 2)
    there = np.concatenate([here, np.tile([0, 1], (8, 1))], axis=1)
    relation, matrix, program = scheduled(words("here", here), words("there", there))
    assert matrix.rounds == 1  # of each of two copies of the group
    assert matrix.offers(0) == {0: 0}
    assert program.count()["shuffle"] == 2 == lower_bound(relation)


def test_what_is_needed_twice_is_taken_once():
    here, there = np.arange(8).reshape(8, 1), np.roll(np.arange(8), 1).repeat(2).reshape(8, 2)
    _, matrix, program = scheduled(words("here", here), words("there", there))
    assert matrix.rounds == 1
    assert matrix.copies[0] == (Entry(7, 0, 1),)
    assert "lane 0 keeps word 0 of lane 7 as its word 1 too" in matrix_text(matrix)
    assert program.count() == {"shuffle": 1, "logic": 2}


def test_both_holders_are_asked():
    """Lanes 4 to 7 hold what lanes 0 to 3 hold; six words of lane 0 leave it and lane 4 in three rounds."""
    here = np.arange(48).reshape(8, 6)
    here[7] = here[0]
    there = np.concatenate([here, [[0], [0], [1], [2], [3], [4], [5], [0]]], axis=1)
    relation, matrix, _ = scheduled(words("here", here), words("there", there))
    assert matrix.rounds == 3 == lower_bound(relation)


@st.composite
def replicated_pairs(draw):
    """Layouts of one tile in which elements have any number of holders."""
    lanes = draw(st.sampled_from([2, 4, 5, 8]))
    here, there = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    elements = draw(st.integers(1, lanes * min(here, there)))
    tables = []
    for width in (here, there):
        rest = st.lists(
            st.integers(0, elements - 1), min_size=lanes * width - elements, max_size=lanes * width - elements
        )
        order = draw(st.permutations([*range(elements), *draw(rest)]))
        tables.append(np.reshape(order, (lanes, width)))
    return words("here", tables[0]), words("there", tables[1])


@settings(max_examples=80, deadline=None)
@given(replicated_pairs())
def test_any_replication(pair):
    relation, matrix, program = scheduled(*pair)
    for number in range(matrix.rounds):
        asked = {}
        for entry in matrix.column(number):
            if entry is not None:
                assert asked.setdefault(entry.peer, entry.word) == entry.word
    assert program.count()["shuffle"] >= lower_bound(relation)


@settings(max_examples=40, deadline=None)
@given(replicated_pairs())
def test_the_matrix_of_a_plan_brings_every_slot_its_element(pair):
    """Entries, words that stay and copies together fill the destination, whatever form was taken."""
    here, there = pair
    plan = rearrange(*pair, "sm_80", strategy="exchange")
    group, matrix = plan.group, plan.matrix
    filled = np.full((there.lanes, group.registers[-1] + group.register_offsets[-1] + 1), -1)
    for index, lane in enumerate(matrix.lanes):
        taken = (entry for entry in matrix.rows[index] if entry is not None)
        for peer, word, keep in (*taken, *matrix.stays[index], *matrix.copies_of(index)):
            for offset, shift in product(group.lane_offsets, group.register_offsets):
                filled[lane + offset, keep + shift] = here.table[peer + offset, word + shift]
    assert (filled[:, : there.items] == there.table).all()


def shortest(requests):
    """By trying everything: holders, then rounds."""
    takes = [(taker, request) for request in requests for taker in request.takers]
    for rounds in range(len(takes) + 1):
        for holders in product(*(request.holders for _, request in takes)):
            for numbers in product(range(rounds), repeat=len(takes)):
                offered, taken = {}, set()
                for (taker, _), holder, number in zip(takes, holders, numbers, strict=True):
                    if (number, taker) in taken or offered.setdefault((number, holder[0]), holder) != holder:
                        break
                    taken.add((number, taker))
                else:
                    return rounds
    raise AssertionError


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_small_schedules_are_the_shortest(data):
    holder = st.tuples(st.integers(0, 2), st.integers(0, 2))
    requests = [
        Request(tuple(sorted(takers)), tuple(sorted(holders)))
        for takers, holders in data.draw(
            st.lists(
                st.tuples(
                    st.sets(st.integers(3, 5), min_size=1, max_size=2),
                    st.sets(holder, min_size=1, max_size=2),
                ),
                min_size=1,
                max_size=3,
            )
        )
    ]
    schedule, rounds = fewest_rounds(requests)
    assert rounds == shortest(requests)
    assert len(schedule) == sum(len(request.takers) for request in requests)


def test_the_nearest_holder_keeps_linear_relations_linear():
    """An operand that both halves of the warp hold: each half asks itself."""
    half = np.arange(64).reshape(16, 4)
    source = words("twice", np.concatenate([half, half]))
    destination = words("moved", np.concatenate([half[np.arange(16) ^ 3]] * 2))
    peers, items = nearest_holders(source, destination)
    assert peers[:, 0].tolist() == [lane ^ 3 for lane in range(32)]
    assert np.array_equal(items, np.tile(np.arange(4), (32, 1)))


def test_linear_schedules_share_offers():
    """Every lane needs the words of all: the rounds of the linear schedule are broadcasts without selects."""
    here, there = np.arange(4).reshape(4, 1), np.tile(np.arange(4), (4, 1))
    problem = find_problem(relate(words("here", here), words("there", there)), 32)
    matrix = check_matrix(linear_matrix(problem.words, problem.group), problem.words, problem.group)
    assert [matrix.offers(number) for number in range(4)] == [{lane: 0} for lane in range(4)]


@pytest.mark.parametrize("copies", [2, 4])
def test_plans_with_replication_take_what_many_need_once(copies):
    """Every lane of `copies` needs the word of the first of them: one shuffle, whatever else is offered."""
    lanes = np.arange(32)
    here = words("here", lanes.reshape(32, 1))
    there = words("there", np.stack([lanes, lanes // copies * copies], axis=1))
    plan = rearrange(here, there, strategy="exchange")
    assert (plan.cost.exchanges, plan.cost.selects) == (1, 0)
    assert lower_bound(plan.relation) == 1


def test_copies_of_what_was_not_taken_are_found():
    here, there = np.arange(8).reshape(8, 1), np.roll(np.arange(8), 1).repeat(2).reshape(8, 2)
    problem = find_problem(relate(words("here", here), words("there", there)), 32)
    asked, matrix = multicast_matrix(
        problem.words, problem.group, word_holders(words("here", here), problem.words.contents, 8)
    )
    rows = ((None,), *matrix.rows[1:])
    both = (Entry(7, 0, 0), Entry(7, 0, 1))
    broken = CoordinationMatrix(matrix.lanes, rows, matrix.stays, (both, *matrix.copies[1:]))
    with pytest.raises(VerificationError, match="lane 0 copies a word that it does not take"):
        check_matrix(broken, asked, problem.group)
