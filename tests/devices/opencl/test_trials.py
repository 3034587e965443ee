"""What the device computes is what the programs mean: every step, with sub-groups of 32 and 64."""

import numpy as np
import pytest
from step_programs import PLAIN, numbers_of, one_step, random_words

from regweave import rearrange
from regweave.devices import opencl
from regweave.errors import InputError, UnsupportedError
from regweave.layouts import Layout
from regweave.machines.nvidia import INSTRUCTIONS
from regweave.programs import OPCODES, Array, Memory, ProgramBuilder, run_program


@pytest.mark.parametrize("lanes", [32, 64])
def test_every_step_does_what_it_means(device, lanes):
    rng = np.random.default_rng(lanes)
    runs = []
    for name in PLAIN:
        for numbers in numbers_of(OPCODES[name], lanes):
            program = one_step(name, lanes, numbers)
            runs.append((program, random_words(OPCODES[name], (lanes, program.source.words), rng)))
    for (program, words), found in zip(runs, opencl.execute_all(runs), strict=True):
        assert np.array_equal(found, run_program(program, words)), program


def neighbours(lanes, warps, size):
    """Every thread takes the words of the thread after it, through shared memory, `size` bytes at a time."""
    words = max(1, size // 4)
    memory = Memory("tile", "shared", size * lanes * warps)
    arrays = Array("source", "b32", words), Array("destination", "b32", words)
    builder = ProgramBuilder("neighbours", lanes, *arrays, [memory], warps=warps)
    thread = builder.step("thread")
    after = builder.step("add", (thread, builder.constant(1)))
    after = builder.step("and", (after, builder.constant(lanes * warps - 1)))
    shift = builder.constant(size.bit_length() - 1)
    builder.store(
        "tile", builder.step("shift_left", (thread, shift)), [builder.word(i) for i in range(words)], size
    )
    builder.barrier("warp" if warps == 1 else "block")
    return builder.finish(builder.load("tile", builder.step("shift_left", (after, shift)), size))


def test_through_local_memory(device):
    sizes = [(lanes, warps, size) for lanes in (32, 64) for warps in (1, 4) for size in (1, 2, 4, 8, 16)]
    runs = []
    for lanes, warps, size in sizes:
        program = neighbours(lanes, warps, size)
        words = np.arange(lanes * warps * program.source.words, dtype=np.uint32).reshape(lanes * warps, -1)
        runs.append((program, words * 0x01010101))
    for (program, words), found in zip(runs, opencl.execute_all(runs), strict=True):
        assert np.array_equal(found, run_program(program, words)), program


@pytest.mark.parametrize("strategy", ["direct", "lean", "fold"])
def test_plans_move_every_element(device, strategy):
    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", tile="16x32", strategy=strategy)
    words = plan.source.table.astype(np.uint32)
    found = opencl.execute(plan.chosen.program, words)
    # word i of a lane is item i, so what each lane must hold is the destination's own table
    expected = words if strategy == "fold" else plan.destination.table
    assert (
        np.array_equal(np.sort(found), np.sort(expected))
        if strategy == "fold"
        else np.array_equal(found, expected)
    )


def test_a_kernel_with_loops_and_memories(device):
    from regweave.emitters import emit

    out = Memory("out", "global", 512)
    builder = ProgramBuilder("kernel_of_loops", 32, memories=[out, Memory("tile", "shared", 128)])
    lane = builder.step("lane")
    at = builder.step("shift_left", (lane, builder.constant(2)))
    with builder.loop(5, [lane, builder.constant(1)]) as loop:
        one, other = loop.values
        builder.store("tile", at, [one], 4)
        builder.barrier()
        (word,) = builder.load("tile", builder.step("xor", (at, builder.constant(4))), 4)
        builder.barrier()
        loop.repeat([builder.step("add", (other, loop.index)), word])  # each from the other
    builder.store("out", at, [loop.results[0]], 4)
    with builder.when(builder.step("less", (lane, builder.constant(7)))):
        builder.store("out", at, [loop.results[1]], 4, 256)
    program = builder.finish()
    expected = np.zeros(512, np.uint8)
    run_program(program, memories={"out": expected})
    (found,) = (
        opencl.build(emit(program, "opencl"))
        .kernel(program.name)
        .run(np.zeros(512, np.uint8), groups=1, items=32)
    )
    assert np.array_equal(found, expected)
    assert found.any()


def test_what_is_wrong_is_said(device):
    program = neighbours(32, 1, 4)
    with pytest.raises(InputError, match=r"words of shape \(64, 1\)"):
        opencl.execute(program, np.zeros((64, 1), np.uint32))
    instruction = INSTRUCTIONS["mma.m16n8k8.tf32"]
    builder = ProgramBuilder("product", 32, Array("source", "b32", 6), Array("destination", "f32", 4),
                             instructions=[instruction])  # fmt: skip
    words = [builder.word(index) for index in range(6)]
    zero = builder.step("number", (builder.constant(0),))
    product = builder.finish(builder.apply("matrix", (*words, *[zero] * 4), (), instruction.name))
    with pytest.raises(UnsupportedError, match="OpenCL C has no word for matrix"):
        opencl.execute(product, np.zeros((32, 6), np.uint32))


def test_programs_of_one_name_run_side_by_side(device):
    layouts = [Layout("s", (2, 1), "b32", [[0], [1]]), Layout("d", (2, 1), "b32", [[1], [0]])]
    plan = rearrange(*layouts)
    words = np.zeros((32, 1), np.uint32)
    words[:2] = [[7], [9]]
    first, second = opencl.execute_all([(plan.chosen.program, words), (plan.chosen.program, words + 1)])
    assert first[:2].tolist() == [[9], [7]]
    assert second[:2].tolist() == [[10], [8]]


def matrices(count, transposed, store):
    """Matrices of halves from rows in shared memory to words, or the other way round."""
    words = 4 if not store else count
    arrays = Array("source", "b32", words), Array("destination", "b32", 4 if store else count)
    builder = ProgramBuilder("matrices", 32, *arrays, [Memory("tile", "shared", 512 + 64)])
    lane = builder.step("lane")
    # 16 bytes of every lane in its own row, rows in reverse
    row = builder.step(
        "shift_left", (builder.step("subtract", (builder.constant(31), lane)), builder.constant(4))
    )
    numbers = count, transposed, 64
    given = [builder.word(index) for index in range(words)]
    if store:
        builder.store("tile", row, [builder.constant(0)] * 4, 16, 64)
        builder.barrier()
        builder.apply("matrix_store", (row, *given), numbers, "tile")
        builder.barrier()
        return builder.finish(builder.load("tile", row, 16, 64))
    builder.store("tile", row, given, 16, 64)
    builder.barrier()
    return builder.finish(builder.apply("matrix_load", (row,), numbers, "tile"))


def test_matrices_of_halves(device):
    rng = np.random.default_rng(5)
    programs = [matrices(n, turned, store) for n in (1, 2, 4) for turned in (0, 1) for store in (False, True)]
    runs = [(p, rng.integers(0, 1 << 32, (32, p.source.words), dtype=np.uint32)) for p in programs]
    for (program, words), found in zip(runs, opencl.execute_all(runs), strict=True):
        assert np.array_equal(found, run_program(program, words)), program
