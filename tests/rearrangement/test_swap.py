"""Products computed transposed, and folds to the left: what they make of a seam, and when."""

import pytest

from regweave import rearrange
from regweave.errors import UnsupportedError
from regweave.layouts import Layout
from regweave.rearrangement import Conditions

TF32, F16, S8 = "mma.m16n8k8.tf32", "mma.m16n8k16.f16", "mma.m16n8k32.s8"
FOUR = (0, 2, 4, 6, 1, 3, 5, 7)
BYTES = (0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)


@pytest.mark.parametrize(
    ("source", "destination", "machine", "form", "fold"),
    [
        (f"{F16}:C", f"{F16}:A", "sm_80", "consumer", None),
        (f"{F16}:C", f"{F16}:B", "sm_80", "producer", None),
        (f"{TF32}:C", f"{TF32}:A", "sm_80", "consumer", FOUR),
        (f"{TF32}:C", f"{TF32}:B", "sm_80", "producer", (*FOUR, *(k + 8 for k in FOUR))),
        ("v_mfma_f32_32x32x8_f16:D@f16", "v_mfma_f32_32x32x8_f16:A", "gfx942", "producer", None),
        ("v_mfma_f32_16x16x16_f16:D@f16", "v_mfma_f32_16x16x16_f16:A", "gfx90a", "producer", None),
        ("v_mfma_f64_16x16x4_f64:D", "v_mfma_f64_16x16x4_f64:A", "gfx90a", "producer", None),
    ],
)
def test_the_accumulators_are_the_operand(source, destination, machine, form, fold):
    plan = rearrange(source, destination, machine, strategy="swap")
    assert (plan.strategy, plan.form, plan.fold) == ("swap", form, fold)
    assert plan.cost.instructions == plan.cost.converts
    assert "is computed transposed" in plan.chosen.reason
    assert ("its k in the order" in plan.chosen.reason) == (fold is not None)
    assert plan.source.name.split(" ")[0] == (source + "^T" if form == "producer" else source)


def test_swaps_are_taken_where_they_are_allowed():
    pair = "v_mfma_f32_32x32x8_f16:D@f16", "v_mfma_f32_32x32x8_f16:A", "gfx942"
    assert rearrange(*pair).strategy != "swap"
    assert rearrange(*pair, conditions=Conditions(swap_allowed=True)).strategy == "swap"
    assert "was not said" in rearrange(*pair).explain()


def test_why_a_swap_does_not_apply():
    tile = Layout("tile", (2, 2), "f32", [[0], [1], [2], [3]])
    with pytest.raises(UnsupportedError, match="only operands of named instructions"):
        rearrange(tile, tile, strategy="swap")
    with pytest.raises(UnsupportedError, match=r"C is no operand A or B"):
        rearrange(f"{F16}:C", f"{F16}:C", strategy="consumer")
    promised = Conditions(order_promised=True)
    with pytest.raises(UnsupportedError, match="a fold too, which is illegal: the order of summation"):
        rearrange(f"{TF32}:C", f"{TF32}:A", strategy="consumer", conditions=promised)
    with pytest.raises(UnsupportedError, match="do not lie as"):
        rearrange(f"{F16}:C", f"{F16}:A", strategy="producer")


@pytest.mark.parametrize(
    ("source", "destination", "machine", "permutation"),
    [
        (f"{TF32}:C", f"{TF32}:A", "sm_80", FOUR),
        ("mma.m8n8k4.f64:C", "mma.m8n8k4.f64:A", "sm_80", FOUR),
        ("mma.m16n8k4.f64:C", "mma.m16n8k4.f64:A", "sm_90a", FOUR),
        (f"{S8}:C", f"{S8}:A", "sm_80", BYTES),
        (f"{S8}:C@s8", f"{S8}:A", "sm_80", BYTES),
        ("mma.m16n8k32.e4m3:C@e4m3", "mma.m16n8k32.e4m3:A", "sm_89", BYTES),
    ],
)
def test_the_smallest_permutation(source, destination, machine, permutation):
    plan = rearrange(source, destination, machine, strategy="fold")
    assert plan.fold[: len(permutation)] == permutation
    assert plan.cost.exchanges == 0
    # registers that were packed already are put together anew, one permute each
    assert plan.cost.byte_permutes == (plan.destination.registers if "@" in source else 0)


def test_folds_to_the_left_are_legal_where_those_to_the_right_are_not():
    for conditions in (
        Conditions(order_promised=True, producer_free=True),
        Conditions(other_operand_fixed=True, producer_free=True),
        Conditions(block=4, producer_free=True),
    ):
        plan = rearrange(f"{TF32}:C", f"{TF32}:A", conditions=conditions)
        assert (plan.strategy, plan.form, plan.fold) == ("fold", "left", None)
        assert plan.producer_order == (0, 4, 1, 5, 2, 6, 3, 7)
        assert "bias, mask and residual" in plan.chosen.reason
        assert "0, 4, 1, 5, 2, 6, 3, 7" in plan.emit("cuda")
    both = rearrange(f"{TF32}:C", f"{TF32}:A", conditions=Conditions(producer_free=True))
    assert (both.form, both.fold, both.producer_order) == (None, FOUR, None)
    assert "in a fixed order" in rearrange(f"{TF32}:C", f"{TF32}:A").explain()


def test_the_orders_of_both_sides_undo_each_other():
    fold = rearrange(f"{S8}:C", f"{S8}:A", strategy="fold").chosen.fold
    assert fold is not None
    left = fold.with_k_order(range(32))
    assert [left.producer_order[k] for k in fold.permutation] == list(range(32)) == list(left.k_order)
    assert (fold.producer_order, fold.k_order) == (None, fold.permutation)
    assert not fold.trivial
