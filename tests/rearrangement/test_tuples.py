"""Copies that aligned register tuples force."""

import pytest

import regweave
from regweave.machines.catalogue import find_machine
from regweave.programs import Array, Memory, ProgramBuilder
from regweave.rearrangement import Conditions
from regweave.rearrangement.request import Request
from regweave.rearrangement.tuples import row_moves, tuple_moves

TF32 = "mma.m16n8k8.tf32"


@pytest.mark.parametrize(
    ("registers", "size", "copies"),
    [
        ((0, 1, 2, 3), 4, 0),
        ((4, 5), 4, 0),
        ((1, 2), 4, 2),  # neighbours, but not aligned
        ((0, 2), 4, 2),
        ((0, 1, 4, 5), 2, 0),  # two tuples, each moved as it stands
        ((0, 1, 4, 6), 2, 2),
        ((0, None, 2, 3), 4, 0),  # what is computed is written in between
        ((0, None, 3, 2), 4, 3),
        ((3, 1), 1, 0),
    ],
)
def test_one_access(registers, size, copies):
    assert row_moves(registers, size) == copies


def request(source, destination):
    layout = regweave.layout(f"{TF32}:C")
    return Request(layout, layout, find_machine("sm_80"), destination, source)


def test_stores_loads_and_results_of_a_program():
    memories = [Memory("shared", "shared", 1024)]
    builder = ProgramBuilder("p", 32, Array("s", "b32", 4), Array("d", "b32", 4), memories)
    lane = builder.step("lane")
    words = [builder.word(number) for number in range(4)]
    builder.store("shared", lane, words[:2], 8, 0)
    builder.store("shared", lane, [words[0], words[3]], 8, 512)
    found = builder.load("shared", lane, 16, 0)
    computed = builder.step("xor", (words[0], words[1]))
    program = builder.finish([found[0], found[1], computed, found[2]])
    assert tuple_moves(program, request(4, 4)) == 2 + 3  # the second store, and the operand
    assert tuple_moves(program, request(4, 2)) == 2 + 1  # the pair with the computed word alone
    assert tuple_moves(program, request(1, 1)) == 0


def test_shared_memory_costs_the_copies_of_wide_accesses():
    around = Conditions(order_promised=True)
    plan, free = (
        regweave.rearrange(f"{TF32}:C", f"{TF32}:A", "sm_80", "shared", conditions=conditions)
        for conditions in (around, Conditions(order_promised=True, work_between=True))
    )
    assert plan.cost.moves == tuple_moves(plan.chosen.program, request(4, 4)) > 0
    assert free.cost.moves < plan.cost.moves
    # with more to move, narrower stores of registers as they stand are cheaper than copies
    assert regweave.rearrange(f"{TF32}:C", f"{TF32}:A", "sm_80", "shared", tile="16x32").cost.moves == 0
