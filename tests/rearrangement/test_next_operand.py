"""The seam planned together with the load of the next product's other operand."""

from itertools import islice, permutations

import numpy as np
import pytest

import regweave
from regweave.errors import InputError
from regweave.layouts import Layout
from regweave.rearrangement import Conditions, NextOperand, relate
from regweave.rearrangement.folds import find_fold, find_folds
from regweave.rearrangement.next_operand import other_factor
from regweave.rearrangement.operand_loads import gathered, staging
from regweave.rearrangement.shared.banks import bank_conflicts

TF32, S8, F16 = "mma.m16n8k8.tf32", "mma.m16n8k32.s8", "mma.m16n8k16.f16"
PER_8 = (0, 2, 4, 6, 1, 3, 5, 7)


def planned(name, coming, strategy="auto", machine="sm_80", **conditions):
    around = Conditions(next_operand=coming, **conditions)
    return regweave.rearrange(f"{name}:C", f"{name}:A", machine, strategy, conditions=around)


def test_a_fold_may_widen_the_next_load():
    """Lane t of B needs k = t and t + 4: after the fold 2 t and 2 t + 1, side by side."""
    plan = planned(TF32, NextOperand())
    assert plan.fold == PER_8
    assert (plan.next_load.widths, plan.offers.other.true.widths) == ({8: 2}, {4: 4})
    assert plan.cost.load_change == plan.next_load.instructions - plan.offers.other.true.instructions < 0
    assert plan.cost.instructions == plan.cost.moves + plan.cost.load_change
    assert "fewer in the next operand's load" in plan.explain()
    assert "2 loads of 8 bytes" in plan.explain()


def test_a_fold_may_narrow_it_and_lose():
    """s8: pairs of bytes instead of words; the product before, reordered too, makes it whole words again."""
    right = planned(S8, NextOperand(), "fold")
    assert right.next_load.widths == {2: 8}
    assert right.cost.load_change > 0
    both = planned(S8, NextOperand(), producer_free=True)
    assert both.chosen.name == "fold (both)"
    assert both.next_load.widths == {8: 2}
    assert both.cost.load_change < 0
    # what the product before computes at c, read at the positions of the fold, is k in the order of the load
    permutation = both.chosen.fold.permutation
    assert tuple(both.producer_order[index] for index in permutation) == both.fold


def test_the_identity_gives_way_where_a_reordered_producer_makes_loads_wider():
    assert planned(F16, NextOperand()).strategy == "identity"
    both = planned(F16, NextOperand(), producer_free=True)
    assert (both.chosen.name, both.next_load.widths) == ("fold (both)", {8: 2})
    forbidden = planned(F16, NextOperand(), producer_free=True, order_promised=True)
    assert (forbidden.strategy, forbidden.next_load.widths) == ("identity", {4: 4})
    reasons = [c.reason for c in forbidden.candidates if c.form == "both"]
    assert reasons == ["illegal: the order of summation over k is promised"]


@pytest.mark.parametrize("along", ["k", "n"])
@pytest.mark.parametrize("name", [TF32, S8, F16])
def test_from_shared_memory_without_bank_conflicts(name, along):
    plan = planned(name, NextOperand("shared", along), producer_free=True)
    for load in (plan.next_load, plan.offers.other.true):
        assert bank_conflicts(load.program, plan.machine) == 0
        assert load.staged.lanes == 32
    applied = [c.cost.instructions for c in plan.candidates if c.applies]
    assert plan.cost.instructions == min(applied)


def test_the_order_of_n_is_planned_where_it_is_free():
    fixed, free = (planned(F16, NextOperand("global", "n", result_free=free)) for free in (False, True))
    assert fixed.next_load.result_order is None
    assert free.next_load.widths == {4: 4}
    order = free.next_load.result_order
    assert sorted(order) == list(range(16))
    assert order[:4] == (0, 2, 4, 6)  # fragments of 8: n = 0 and 8 lie side by side now
    assert order[8] == 1
    assert free.next_load.instructions < fixed.next_load.instructions


def test_swaps_load_the_other_factor():
    coming = NextOperand()
    around = Conditions(next_operand=coming, swap_allowed=True)
    plan = regweave.rearrange(f"{TF32}:C", f"{TF32}:A", "sm_80", "consumer", conditions=around)
    assert plan.next_load.layout.name.startswith(f"{TF32}:A")
    assert plan.cost.load_change == plan.next_load.instructions - plan.offers.other.true.instructions
    own = Conditions(next_operand=NextOperand(layout=f"{TF32}:B"), swap_allowed=True)
    plan = regweave.rearrange(f"{TF32}:C", f"{TF32}:A", "sm_80", conditions=own)
    (reason,) = [c.reason for c in plan.candidates if c.form == "consumer"]
    assert "of the product as it stands" in reason


def test_the_document_says_how_the_next_operand_is_loaded():
    document = planned(TF32, NextOperand("shared", "n")).to_document()
    load = document["next_load"]
    assert (load["place"], load["along"], load["order"]) == ("shared", "n", document["fold"])
    assert load["instructions"] - load["in_true_order"] == document["cost"]["load_change"]
    assert planned(TF32, None).to_document()["next_load"] is None


def test_offline_the_smallest_permutation_stays_the_answer():
    assert planned(TF32, None).cost.load_change == 0
    relation = relate(regweave.layout(f"{S8}:C@s8", tile=(16, 32)), regweave.layout(f"{S8}:A"))
    first, *others = islice(find_folds(relation), 5)
    assert first == find_fold(relation)
    orders = [fold.permutation for fold in (first, *others)]
    assert orders == sorted(orders)
    assert len({*orders}) == len(orders) > 1


def test_all_folds_of_a_small_relation():
    """A lane that holds a whole row may take it in any order."""
    row = Layout("row", (1, 4), "b32", [[0, 1, 2, 3]], ("m", "k"))
    assert [fold.permutation for fold in find_folds(relate(row, row))] == list(permutations(range(4)))


def test_what_lanes_hold_is_gathered():
    layout = Layout("b", (8, 1), "b32", [[0, 4], [1, 5], [2, 6], [3, 7]], ("k", "n"))
    assert gathered(layout, 0) == (0, 2, 4, 6, 1, 3, 5, 7)
    rows = staging(Layout("all", (4, 32), "f16", np.arange(128).reshape(32, 4)))
    assert rows.table[1].tolist() == [4, 5, 6, 7]
    assert staging(regweave.layout(f"{F16}:B")).table.shape == (32, 4)


def test_what_is_no_next_operand():
    with pytest.raises(InputError, match=r"place is 'shard'.*nearest: shared"):
        NextOperand("shard")
    with pytest.raises(InputError, match="along is 'm'"):
        NextOperand(along="m")
    with pytest.raises(InputError, match="is no layout"):
        NextOperand(layout=3)
    with pytest.raises(InputError, match="result_free is 1"):
        NextOperand(result_free=1)
    with pytest.raises(InputError, match="next_operand is 'global'"):
        Conditions(next_operand="global")
    a = regweave.layout(f"{TF32}:A")
    with pytest.raises(InputError, match="which operand goes with"):
        regweave.rearrange(f"{TF32}:C", a, "sm_80", conditions=Conditions(next_operand=NextOperand()))
    given = NextOperand(layout=f"{TF32}:C")
    with pytest.raises(InputError, match="no contraction index k"):
        regweave.rearrange(f"{TF32}:C", a, "sm_80", conditions=Conditions(next_operand=given))
    assert other_factor("x:C") is None
    assert other_factor("i:B@f16^T") == "i:A@f16^T"
