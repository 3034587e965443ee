"""Elements of less than a byte that are brought into bytes which travel whole."""

import numpy as np
import pytest

from regweave.layouts import Layout
from regweave.machines.catalogue import find_layout, find_machine
from regweave.programs import Array, ProgramBuilder, run_program
from regweave.rearrangement import rearrange
from regweave.rearrangement.proof import prove
from regweave.rearrangement.relation import relate
from regweave.rearrangement.request import Request
from regweave.rearrangement.shared.banks import bank_conflicts
from regweave.rearrangement.shared.forms import SharedWay
from regweave.rearrangement.turning import SWAP, Swap, Turned
from regweave.rearrangement.whole_bytes import turned_bytes

SM_80 = find_machine("sm_80")


@pytest.mark.parametrize(
    ("machine", "source", "destination", "most"),
    [
        ("sm_90a", "wgmma.m64n208k256.b1:D@b1^T", "wgmma.m64n8k256.b1:A", 1524),  # a byte for each bit: 5373
        ("sm_90a", "wgmma.m64n104k16.f16:C@b1", "wgmma.m64n8k256.b1:A", 578),  # 2554
        ("sm_90a", "wgmma.m64n104k16.f16:C@b1^T", "wgmma.m64n8k256.b1:A", 1724),  # 13 half-bytes each: 5477
        ("sm_100a", "tcgen05.ld.16x256b.x8:r@b1^T", "mma.m16n8k256.b1.xor:A", 279),  # 792
    ],
)
def test_bits_of_large_tiles(machine, source, destination, most):
    plan = rearrange(source, destination, machine).verify()
    assert (plan.strategy, plan.form) == ("shared", "whole-warp")
    assert plan.cost.instructions <= most
    assert bank_conflicts(plan.chosen.program, plan.machine) == 0


def test_bits_for_which_memory_lacks_room_in_bytes_of_their_own():
    plan = rearrange("wgmma.m64n240k16.f16:C@b1^T", "wgmma.m64n8k256.b1:A", "sm_90a")
    assert plan.strategy == "shared"
    (memory,) = plan.chosen.program.memories
    assert plan.source.elements > plan.machine.shared_bytes >= memory.bytes


def tile(dtype, order, rows, columns, lanes=32):
    """A layout whose slots count through the bits of row and column in this order, the lowest first."""
    bits = [int(name[1:]) + (columns.bit_length() - 1 if name[0] == "r" else 0) for name in order]
    slots = np.arange(rows * columns)
    numbers = sum((slots >> place & 1) << bit for place, bit in enumerate(bits))
    return Layout("tile", (rows, columns), dtype, numbers.reshape(lanes, -1))


ROWS = ["c0", "c1", "c2", "c3", "c4", "c5", "r0", "r1", "r2", "r3", "r4"]


@pytest.mark.parametrize(
    ("dtype", "order", "before", "after"),
    [
        # one lane's bits that lie side by side in each row: nothing is done
        ("b1", ["c0", "c1", "c2", "r0", "c3", "c4", "c5", "r1", "r2", "r3", "r4"], 0, 0),
        # a row apart each
        ("b1", ["c0", "c1", "r0", "c2", "c3", "c4", "c5", "r1", "r2", "r3", "r4"], 1, 0),
        ("b1", ["r0", "c0", "c1", "r1", "c3", "r2", "c2", "c4", "c5", "r3", "r4"], 1, 3),
        ("b4", ["r0", "c0", "c1", "r1", "c3", "r2", "c2", "c4", "c5", "r3", "r4"], 1, 0),
    ],
)
def test_bytes_travel_whole(dtype, order, before, after):
    relation = relate(tile(dtype, order, 32, 64), tile(dtype, ROWS, 32, 64))
    found = turned_bytes(relation)
    assert found is not None
    assert (len(found.before), len(found.after)) == (before, after)
    size = 8 // found.bits
    assert found.relation.source.elements * size == relation.source.elements
    assert found.relation.destination.dtype == "b8"
    assert found.least == SWAP * (before + after) * relation.source.registers // 2
    way = SharedWay(Request(relation.source, relation.destination, SM_80, 1), relation, "whole-warp")
    candidate = way.candidate()
    assert candidate.program is not None
    prove(candidate.program, relation)
    assert bank_conflicts(candidate.program, SM_80) == 0


def test_half_bytes_are_paired_first():
    source = find_layout("wgmma.m64n24k16.f16:C").retype("b1").transpose().repeat(8, 4)
    relation = relate(source, find_layout("wgmma.m64n8k256.b1:A").repeat(3, 1))
    found = turned_bytes(relation)
    assert found is not None
    assert sorted(found.halves) == list(range(relation.source.items // 4))
    pairs = np.array(found.halves).reshape(-1, 2)
    # a fragment has three half-bytes
    assert 0 < np.count_nonzero(pairs[:, 1] == pairs[:, 0] + 1) < len(pairs)
    assert turned_bytes(relate(relation.destination, relation.destination)).halves == ()


def test_what_is_not_turned():
    source, wanted = tile("b1", ROWS, 32, 64), tile("b1", ROWS[::-1], 32, 64)
    assert turned_bytes(relate(source, wanted)) is None  # no lane holds two elements that another wants
    table = np.random.default_rng(1).permutation(source.table.ravel()).reshape(source.table.shape)
    mixed = Layout("mixed", source.shape, "b1", table)
    assert turned_bytes(relate(mixed, source)) is None
    assert turned_bytes(relate(source, mixed)) is None
    whole = tile("b8", ROWS, 32, 64)
    assert turned_bytes(relate(whole, whole)) is None
    twice = Layout("twice", (32, 32), "b1", source.table % 1024)
    assert turned_bytes(relate(twice, twice)) is None


@pytest.mark.parametrize(("bits", "place"), [(1, 1), (1, 2), (1, 4), (4, 1)])
def test_swaps_undo_themselves(bits, place):
    """Elements `place` apart change places between bytes 0 to 3 and 4 to 7; again, and all is as before."""
    swap = Swap(place, (0, 1, 2, 3), (4, 5, 6, 7))
    some = tile("b8", ROWS, 32, 64)
    turned = Turned(relate(some, some), bits, (swap,), (swap,))
    builder = ProgramBuilder("swap", 32, Array("source", "b32", 2), Array("destination", "b32", 4))
    held = {at: (builder.word(at // 4), 8 * (at % 4)) for at in range(8)}
    once = turned.sent(builder, held)
    again = turned.taken(builder, once)
    program = builder.finish([once[0][0], once[4][0], again[0][0], again[4][0]])
    words = np.random.default_rng(2).integers(0, 1 << 32, (32, 2), dtype=np.uint32)
    found = run_program(program, words)
    assert np.array_equal(found[:, 2:], words)
    elements = [
        (side[:, None] >> np.arange(0, 32, bits, dtype=np.uint32)) & np.uint32((1 << bits) - 1)
        for side in (*words.T, *found[:, :2].T)
    ]
    high = np.arange(32 // bits) % (8 // bits) & place != 0
    assert np.array_equal(elements[2][:, ~high], elements[0][:, ~high])
    assert np.array_equal(elements[2][:, high], elements[1][:, ~high])
    assert np.array_equal(elements[3][:, ~high], elements[0][:, high])
    assert np.array_equal(elements[3][:, high], elements[1][:, high])
