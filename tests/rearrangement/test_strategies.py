"""Identity, fold, exchange, refuse: when each applies, what it costs, why it won or lost."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave import layout, rearrange
from regweave.errors import InputError, UnsupportedError
from regweave.layouts import Layout
from regweave.machines.nvidia import SM_80
from regweave.programs import run_program
from regweave.rearrangement import STRATEGIES, Conditions, Cost, relate
from regweave.rearrangement.folds import Fold, find_fold, find_identity

C, A = "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"


def operand(name, columns, rows=1):
    """A made-up A operand that holds element `columns[lane][item]`."""
    table = np.asarray(columns)
    return Layout(name, (rows, table.size // rows), "b32", table, ("m", "k"))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("tile", [None, "32x64"])
def test_sixteen_bit_accumulators_already_are_the_operand(kind, tile):
    plan = rearrange(f"mma.m16n8k16.{kind}:C", f"mma.m16n8k16.{kind}:A", tile=tile)
    assert plan.strategy == "identity"
    assert plan.cost == Cost(converts=plan.destination.registers)
    assert plan.fold is None
    if tile is None:
        assert plan.source.shape == (16, 16)


def test_converted_values_are_the_rounded_ones():
    plan = rearrange("mma.m16n8k16.bf16:C", "mma.m16n8k16.bf16:A")
    values = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    words = values.ravel()[plan.source.table].view(np.uint32)
    found = run_program(plan.chosen.program, words)
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    expected = rounded.ravel()[plan.destination.table]
    assert np.array_equal(found & 0xFFFF, expected[:, ::2])
    assert np.array_equal(found >> 16, expected[:, 1::2])


def test_a_fold_computes_the_product():
    """The first product's C is read as A of the second, with the rows of B permuted."""
    plan = rearrange(C, A)
    rng = np.random.default_rng(1)
    intermediate, weight = rng.integers(-8, 8, (16, 8)), rng.integers(-8, 8, (8, 8))
    c = layout(C)
    accumulators = intermediate.astype(np.float32).ravel()[c.table].view(np.uint32)
    operands = run_program(plan.chosen.program, accumulators).view(np.float32)
    as_read = np.empty(128, dtype=np.float32)
    as_read[layout(A).table] = operands
    assert np.array_equal(as_read.reshape(16, 8) @ weight[list(plan.fold)], intermediate @ weight)


def test_work_between_builds_tuples_in_place():
    assert rearrange(C, A).cost == Cost(moves=4)
    assert rearrange(C, A, conditions=Conditions(work_between=True)).cost == Cost()
    assert rearrange(C, A, tile="16x32").cost == Cost(moves=16)


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (Conditions(order_promised=True), "the order of summation over k is promised"),
        (
            Conditions(other_operand_fixed=True),
            "the other operand of the next product cannot be reordered along k",
        ),
        (Conditions(block=4), "k 4 would move from block 1 of 4 to block 0"),
    ],
)
def test_illegal_folds_say_why(conditions, words):
    plan = rearrange(C, A, conditions=conditions)
    assert plan.strategy != "fold"
    assert f"illegal: {words}" in plan.explain()
    with pytest.raises(UnsupportedError, match=words):
        rearrange(C, A, strategy="fold", conditions=conditions)


def test_blocks_that_hold_the_permutation_allow_it():
    assert rearrange(C, A, conditions=Conditions(block=8)).strategy == "fold"
    with pytest.raises(InputError, match="blocks of 0"):
        Conditions(block=0)


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        # lane l holds k = l and k = l + 2, the operand wants 2l and 2l + 1
        (operand("s", [[0, 2], [1, 3]]), operand("d", [[0, 1], [2, 3]]), (0, 2, 1, 3)),
        # two registers can feed position 0: the smaller k wins
        (operand("s", [[3, 0], [2, 1]]), operand("d", [[0, 2], [1, 3]]), (0, 1, 3, 2)),
    ],
)
def test_the_smallest_permutation_is_found(source, destination, expected):
    assert find_fold(relate(source, destination)).permutation == expected


def test_rows_must_agree():
    # k of position 0 comes from register 1, and the other rows must follow
    source = Layout("s", (2, 2), "b32", [[0, 1, 2, 3]], ("m", "k"))
    destination = Layout("d", (2, 2), "b32", [[1, 0, 3, 2]], ("m", "k"))
    fold = find_fold(relate(source, destination))
    assert fold.permutation == (0, 1)
    assert fold.items == (1, 0, 3, 2)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_folds_agree_with_trying_every_permutation(data):
    rows, columns, lanes = data.draw(st.sampled_from([(1, 4, 2), (2, 3, 2), (2, 4, 2), (3, 2, 2), (2, 4, 4)]))
    shape = rows, columns
    source = Layout("s", shape, "b32", np.arange(rows * columns).reshape(lanes, -1), ("m", "k"))
    # mostly a true fold: shuffled columns and items; sometimes anything
    true = np.array(data.draw(st.permutations(range(columns))))
    order = data.draw(st.permutations(range(source.items)))
    row, column = np.divmod(source.table[:, list(order)], columns)
    table = row * columns + true[column]
    if data.draw(st.booleans()):
        table = np.reshape(data.draw(st.permutations(range(rows * columns))), (lanes, -1))
    relation = relate(source, Layout("d", shape, "b32", table, ("m", "k")))
    expected = None
    for permutation in itertools.permutations(range(columns)):
        fold = Fold((), permutation, 1)
        if find_identity(relate(source, fold.destination(relation.destination))) is not None:
            expected = permutation
            break
    found = find_fold(relation)
    assert (None if found is None else found.permutation) == expected


def test_no_fold_where_the_index_is_no_contraction_or_lanes_differ():
    to_c = rearrange("mma.m16n8k8.tf32:A", "mma.m16n8k8.tf32:D", strategy="exchange")
    assert "has no contraction index k" in to_c.explain()
    crossed = rearrange(operand("s", [[0], [1]], rows=2), operand("d", [[1], [0]], rows=2))
    assert crossed.strategy == "exchange"
    assert "no permutation of k" in crossed.explain()
    same = rearrange(C, "mma.m16n8k8.tf32:D")
    assert same.strategy == "identity"


def test_packed_words_are_not_taken_apart_by_a_fold():
    source = Layout("s", (1, 4), "f16", [[0, 1, 2, 3]], ("m", "k"))
    destination = Layout("d", (1, 4), "f16", [[0, 2, 1, 3]], ("m", "k"))
    plan = rearrange(source, destination)
    assert (plan.strategy, plan.fold) == ("fold", (0, 2, 1, 3))  # the words stay whole
    apart = Layout("d", (2, 2), "f16", [[0, 2, 1, 3]], ("row", "column"))
    plan = rearrange(Layout("s", (2, 2), "f16", [[0, 1, 2, 3]]), apart)
    # where k is no way out, registers are put together anew
    assert (plan.strategy, plan.cost.byte_permutes, plan.cost.instructions) == ("identity", 2, 2)


def test_packed_words_travel_whole():
    source = Layout("s", (2, 4), "f16", [[0, 1, 2, 3], [4, 5, 6, 7]])
    destination = Layout("d", (2, 4), "f16", [[0, 1, 4, 5], [2, 3, 6, 7]])
    plan = rearrange(source, destination)
    assert plan.strategy == "exchange"
    assert plan.one_hop_minimum == 1
    assert plan.cost.exchanges == 1


def test_wide_elements_travel_in_halves():
    double = Layout("d", (2, 1), "f64", [[0], [1]])
    plan = rearrange(double, Layout("e", (2, 1), "f64", [[1], [0]]))
    assert (plan.strategy, plan.cost.exchanges, plan.rounds) == ("exchange", 2, 1)
    assert plan.chosen.program.source.words == 2
    same = rearrange(double, double)
    assert (same.strategy, same.cost.instructions) == ("identity", 0)
    folded = rearrange("mma.m8n8k4.f64:C", "mma.m8n8k4.f64:A")
    assert folded.fold == (0, 2, 4, 6, 1, 3, 5, 7)


def test_replicated_elements_are_taken_from_one_holder():
    source = Layout("s", (1, 2), "b32", [[0], [1]])
    everywhere = Layout("both", (1, 2), "b32", [[0, 1], [1, 0]])
    plan = rearrange(source, everywhere)
    assert (plan.strategy, plan.cost.exchanges) == ("exchange", 1)
    # what a lane already has needs no exchange
    assert rearrange(everywhere, everywhere).strategy == "identity"


def test_memory_is_the_answer_that_takes_fewest_instructions():
    plan = rearrange(C, A, tile="16x32", conditions=Conditions(order_promised=True))
    assert (plan.strategy, plan.form) == ("shared", "whole-warp")
    assert plan.cost.instructions < rearrange(C, A, strategy="exchange", tile="16x32").cost.instructions
    with pytest.raises(UnsupportedError, match="'single-lane' does not apply: lane 0 needs element"):
        rearrange(C, A, strategy="single-lane")
    assert rearrange(C, A, strategy="grouped", tile="16x32").form == "grouped"


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - {"picks", "grouped", "single-lane", "producer"}))
def test_any_strategy_can_be_forced_by_name(name):
    if name == "identity":
        with pytest.raises(
            UnsupportedError, match="'identity' does not apply: lane 0 register 2 needs element"
        ):
            rearrange(C, A, strategy=name)
        return
    plan = rearrange(C, A, strategy=name)
    assert name in (plan.strategy, plan.form)
    whole = plan.chosen.form in (None, name)
    assert f"{plan.chosen.name if whole else name} was asked for" in plan.explain()
    assert whole or f"{plan.chosen.name} taken" in plan.explain()


def test_words_that_warps_exchange_by_no_rule_go_through_memory():
    """Shuffles cannot cross warps; an edge colouring of phases keeps memory free of bank conflicts."""
    held = np.arange(64).reshape(64, 1)
    wanted = np.random.default_rng(0).permutation(64).reshape(64, 1)
    plan = rearrange(Layout("s", (1, 64), "f32", held), Layout("d", (1, 64), "f32", wanted), SM_80)
    assert (plan.strategy, plan.form) == ("shared", "whole-warp")
    assert "no bank conflicts" in plan.chosen.reason


def test_what_nothing_can_do_is_refused_for_the_reason_of_memory():
    """Halves of bytes that two warps exchange by no rule: shuffles cannot, and memory has bytes."""
    held = np.arange(128).reshape(64, 2)
    wanted = np.random.default_rng(0).permutation(128).reshape(64, 2)
    plan = rearrange(Layout("s", (1, 128), "s4", held), Layout("d", (1, 128), "s4", wanted), SM_80)
    assert plan.strategy == "refuse"
    assert "parts of bytes" in plan.chosen.reason


def test_refusing_gives_no_code():
    plan = rearrange(C, A, strategy="refuse")
    assert plan.cost == Cost()
    with pytest.raises(UnsupportedError, match="there is no code"):
        plan.emit("cuda")


def test_explanations_list_everything_with_costs():
    text = rearrange(C, A).explain()
    for words in (
        "identity",
        "fold",
        "exchange (direct)",
        "exchange (lean)",
        "refuse",
        "issue slots: 16 more",
    ):
        assert words in text
    assert (
        "fold takes the fewest instructions of those that apply: the next operand takes its k in the order"
        in text
    )


def test_costs_add_up():
    cost = rearrange(C, A, strategy="direct").cost
    assert cost.instructions == cost.exchanges + cost.selects + cost.logic + cost.tests
    assert cost.hoistable == cost.logic + cost.tests
    assert cost.slots(SM_80.costs) == cost.instructions + cost.exchanges


def test_an_exchange_of_nothing_gives_way_to_the_identity():
    """Both rename registers, and the copies for aligned tuples are counted with the identity alone."""
    plan = rearrange("mma.m16n8k16.f16.f16:D^T", "mma.m16n8k16.f16.f16:B", "sm_80")
    assert (plan.strategy, plan.cost.moves) == ("identity", 4)


def test_what_no_strategy_does_is_refused():
    """Whoever looks for bounds of what does not exist must end."""
    numbers = np.arange(256)
    rows = Layout("rows", (64, 4), "s4", numbers.reshape(64, 4))  # half a register of each lane
    plan = rearrange(rows, Layout("columns", (64, 4), "s4", numbers.reshape(4, 64).T), "gfx1100_w64")
    assert (plan.strategy, plan.chosen.program) == ("refuse", None)
    assert plan.chosen.reason.startswith("no strategy applies: ")
