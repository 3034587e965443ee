"""The tf32 seam, number by number as the design document works it out."""

import pytest

from regweave import rearrange
from regweave.rearrangement import CoordinationMatrix, Entry, Group, Plan, RoundExpressions
from regweave.rearrangement.expressions.nodes import evaluate

C, A = "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"

NEEDED = {
    0: ["t0.c0", "t0.c2", "t2.c0", "t2.c2"],
    1: ["t0.c1", "t0.c3", "t2.c1", "t2.c3"],
    2: ["t1.c0", "t1.c2", "t3.c0", "t3.c2"],
    3: ["t1.c1", "t1.c3", "t3.c1", "t3.c3"],
}
H = [
    [(0, 0, 0), (0, 2, 1), (2, 0, 2), (2, 2, 3)],
    [(2, 1, 2), (2, 3, 3), (0, 1, 0), (0, 3, 1)],
    [(1, 0, 0), (1, 2, 1), (3, 0, 2), (3, 2, 3)],
    [(3, 1, 2), (3, 3, 3), (1, 1, 0), (1, 3, 1)],
]


@pytest.fixture(scope="module", params=["16x8", "16x32"])
def plan(request):
    return rearrange(C, A, machine="sm_80", strategy="direct", tile=request.param)


def test_the_group_is_four_lanes_by_four_registers(plan):
    copies = plan.source.shape[1] // 8
    offsets = tuple(range(0, 4 * copies, 4))
    assert plan.group == Group((0, 1, 2, 3), (0, 1, 2, 3), tuple(range(0, 32, 4)), offsets)


def test_the_new_registers(plan):
    for lane, words in NEEDED.items():
        row = plan.preliminary.rows[lane]
        assert [f"t{entry.peer}.c{entry.word}" for entry in row] == words


def test_the_preliminary_matrix_has_conflicts(plan):
    # round 0: lanes 0 and 1 both ask lane 0, lanes 2 and 3 both ask lane 1
    assert plan.preliminary.conflicts(0) == {0, 1}
    assert plan.preliminary.conflicts(2) == {2, 3}


def test_the_coordination_matrix(plan):
    assert isinstance(plan, Plan)
    assert isinstance(plan.matrix, CoordinationMatrix)
    assert [[tuple(entry) for entry in row] for row in plan.matrix.rows] == H
    assert plan.matrix.rows[0][1] == Entry(peer=0, word=2, keep=1)
    assert all(not plan.matrix.conflicts(number) for number in range(plan.rounds))


def test_the_index_expressions(plan):
    first = plan.expressions[0]
    assert isinstance(first, RoundExpressions)
    assert first.peers == (0, 2, 1, 3)
    assert first.offers == (0, 0, 1, 1)  # lane 1 offers register 0 and lane 2 register 1
    assert first.words == (0, 1, 0, 1)
    assert first.keeps == (0, 2, 0, 2)
    for entry in plan.expressions:
        for lane in range(32):
            i = lane % 4
            assert evaluate(entry.f, 32)[lane] % entry.width == entry.peers[i]
            assert evaluate(entry.g, 32)[lane] == entry.words[i]
            assert evaluate(entry.h, 32)[lane] == entry.keeps[i]
            assert evaluate(entry.s, 32)[lane] == entry.offers[i]


def test_eight_selects_per_four_rounds(plan):
    copies = plan.source.shape[1] // 8
    assert (plan.rounds, plan.cost.exchanges, plan.cost.selects) == (4, 4 * copies, 8 * copies)
    assert plan.one_hop_minimum == 4 * copies


def test_the_lean_form_needs_no_more():
    direct, lean = (rearrange(C, A, strategy=form, tile="16x32").cost for form in ("direct", "lean"))
    assert lean.instructions <= direct.instructions


def test_the_fold_is_the_smallest_permutation():
    plan = rearrange(C, A)
    assert (plan.strategy, plan.fold) == ("fold", (0, 2, 4, 6, 1, 3, 5, 7))
    assert (plan.rounds, plan.cost.exchanges, plan.cost.moves) == (0, 0, 4)
    wide = rearrange(C, A, tile=(16, 32))
    assert wide.fold == tuple(8 * block + k for block in range(4) for k in (0, 2, 4, 6, 1, 3, 5, 7))
