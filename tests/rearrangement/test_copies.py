"""Tiles of an odd number of fragments: a passage for one of them serves all."""

import numpy as np
import pytest

from regweave.layouts import Layout
from regweave.machines.catalogue import find_layout, find_machine
from regweave.rearrangement import rearrange
from regweave.rearrangement.alike import first_alike
from regweave.rearrangement.proof import prove
from regweave.rearrangement.relation import relate
from regweave.rearrangement.request import read_request
from regweave.rearrangement.shared.banks import bank_conflicts
from regweave.rearrangement.shared.copies import find_copies
from regweave.rearrangement.shared.forms import lower_passage
from regweave.rearrangement.shared.trials import trial_passage

SM_80, SM_90A = find_machine("sm_80"), find_machine("sm_90a")


@pytest.mark.parametrize(
    ("source", "destination", "most"),
    [
        ("wgmma.m64n112k32.s8.u8:D^T", "wgmma.m64n112k32.s8.u8:A", 463),
        ("wgmma.m64n240k16.f16:D@f16^T", "wgmma.m64n240k16.f16:A", 678),
        # rows with padding, found by trial, are better than copies here
        ("wgmma.m64n24k8.tf32:D^T", "wgmma.m64n24k8.tf32:A", 162),
    ],
)
def test_several_warps(source, destination, most):
    plan = rearrange(source, destination, SM_90A).verify()
    assert (plan.strategy, plan.form) == ("shared", "whole-warp")
    assert plan.cost.instructions <= most
    assert bank_conflicts(plan.chosen.program, plan.machine) == 0


def copied_passage(relation, machine):
    found = find_copies(relation, machine, (1, 1))
    return None if found is None else found.passage


def f16_tile(copies):
    """The accumulators of a warp and the operand B that they become, so many times side by side."""
    name = "mma.m16n8k16.f16"
    source = find_layout(f"{name}:C").retype("f16").repeat(2, 2 * copies)
    return source, find_layout(f"{name}:B").repeat(2, 2 * copies)


@pytest.mark.parametrize("copies", [3, 5])
@pytest.mark.parametrize("turned", [False, True])
def test_copies_are_the_first_one_further_on(copies, turned):
    source, destination = (side.transpose() if turned else side for side in f16_tile(copies))
    relation = relate(source, destination)
    found = copied_passage(relation, SM_80)
    assert found is not None
    program = lower_passage("copies", relation, found, SM_80)
    prove(program, relation)
    assert bank_conflicts(program, SM_80) == 0
    one = copied_passage(relate(*f16_tile(1)), SM_80)
    assert one is None  # a tile that is linear as it stands is no tile of copies
    assert len(found.stores.items) % copies == len(found.loads.items) % copies == found.bytes % copies == 0


def test_what_is_no_tile_of_copies():
    source, destination = f16_tile(3)
    numbers = np.arange(source.table.size)
    rng = np.random.default_rng(2)
    mixed = Layout("mixed", source.shape, "f16", rng.permutation(numbers).reshape(source.table.shape))
    assert copied_passage(relate(source, mixed), SM_80) is None
    # copies, but of nothing that is linear
    one = rng.permutation(32 * 4).reshape(32, 4)
    table = np.concatenate([one + 128 * copy for copy in range(3)], axis=1)
    rows = Layout("rows", (96, 4), "b32", table)
    held = np.concatenate([np.arange(128).reshape(32, 4) + 128 * copy for copy in range(3)], axis=1)
    assert copied_passage(relate(Layout("held", (96, 4), "b32", held), rows), SM_80) is None
    plan = rearrange(source, destination, SM_80, strategy="whole-warp")
    assert plan.cost.barriers == 1


def test_they_must_find_room():
    machine = find_machine("sm_75")
    source, destination = (side.repeat(1, 21) for side in f16_tile(3))
    relation = relate(source, destination)
    found = copied_passage(relation, machine)
    assert found is not None
    assert source.elements * 2 <= found.bytes <= machine.shared_bytes


def test_rows_that_are_alike():
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 3, (200, 3)) - 1
    known = {}
    assert first_alike(rows).tolist() == [known.setdefault(tuple(row), at) for at, row in enumerate(rows)]
    assert first_alike(np.zeros((0, 4), dtype=np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("source", "destination", "machine", "wins"),
    [
        ("wgmma.m64n24k16.f16:D@f16^T", "wgmma.m64n8k16.f16:A", "sm_90a", True),
        ("wgmma.m64n24k16.f16:C@s8^T", "wgmma.m64n8k32.s8:A", "sm_90a", False),
    ],
)
def test_copies_are_looked_for_where_they_may_be_the_best(source, destination, machine, wins):
    request = read_request(source, destination, machine, None)
    relation, tuples = relate(request.source, request.destination), (1, 1)
    copied = find_copies(relation, request.machine, tuples)
    assert copied is not None
    alone = trial_passage(relation, request.machine, tuples)
    chosen = trial_passage(relation, request.machine, tuples, find_copies(relation, request.machine, tuples))
    assert copied.passage is not None
    assert alone is not None
    assert chosen is not None
    counts = [each.least(relation, tuples) + each.addresses.operations for each in (copied.passage, alone)]
    assert 0 < (copied.least or 0) <= counts[0]
    assert chosen.instructions(relation, tuples) == min(counts)
    assert (counts[0] < counts[1]) == wins
    assert (chosen.kind == copied.passage.kind) == wins
