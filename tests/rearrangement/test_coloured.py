"""Shared memory for relations without structure: any permutation over several warps, without conflicts."""

import numpy as np
import pytest

from regweave import rearrange
from regweave.layouts import Layout
from regweave.machines.catalogue import find_machine
from regweave.rearrangement.shared.banks import bank_conflicts


@pytest.mark.parametrize("machine", ["sm_80", "gfx942", "gfx1100"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "s8"])
@pytest.mark.parametrize("seed", range(4))
def test_any_permutation_over_two_warps_is_moved_without_conflicts(machine, dtype, seed):
    lanes = 2 * find_machine(machine).lanes
    items = {"f32": 3, "f16": 4, "s8": 8}[dtype]
    count = lanes * items
    held = np.arange(count).reshape(lanes, items)
    wanted = np.random.default_rng(seed).permutation(count).reshape(lanes, items)
    plan = rearrange(Layout("s", (1, count), dtype, held), Layout("d", (1, count), dtype, wanted), machine)
    assert plan.strategy == "shared"
    assert plan.verify() is plan
    assert bank_conflicts(plan.chosen.program, find_machine(machine)) == 0


def test_words_that_several_lanes_want_are_loaded_without_conflicts():
    held = np.arange(64).reshape(64, 1)
    wanted = np.random.default_rng(1).integers(0, 64, (64, 3))
    wanted[:, 0] = np.random.default_rng(2).permutation(64)
    plan = rearrange(
        Layout("s", (1, 64), "f32", held), Layout("d", (1, 64), "f32", wanted), "sm_80", "whole-warp"
    )
    assert plan.verify() is plan
    assert bank_conflicts(plan.chosen.program, find_machine("sm_80")) == 0
