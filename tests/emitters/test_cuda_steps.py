"""CUDA C++ of every step, compiled: it is the instruction that it stands for, and nothing spills."""

from dataclasses import replace

import pytest
from step_programs import PLAIN, numbers_of, one_step

from regweave.devices import cuda
from regweave.emitters import emit, emit_trial
from regweave.errors import DeviceError, InputError, UnsupportedError
from regweave.machines.catalogue import find_machine
from regweave.machines.nvidia import INSTRUCTIONS
from regweave.programs import OPCODES, Array, Memory, ProgramBuilder

ELSEWHERE = ("lane_swap", "row_move", "row_permute", "half_swap")  # AMD's
EXPECTED = {
    "shuffle": "SHFL",
    "transpose": "MOVM",
    "byte_permute": "PRMT",
    "pack_f16": "F2FP",
    "pack_bf16": "F2FP",
    "pack_s8": "I2IP",
    "pack_u8": "I2IP",
    "pack_e4m3": "F2FP",
    "pack_e5m2": "F2FP",
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120"])
def test_every_step_is_the_instruction_that_it_stands_for(target, inspect_cuda):
    packings = find_machine(target).packings
    steps = [step for step in PLAIN if step not in ELSEWHERE and (step[:5] != "pack_" or step in packings)]
    texts = []
    for step in steps:
        (numbers, *_) = numbers_of(OPCODES[step], 32)
        program = replace(one_step(step, 32, numbers), name=f"do_{step}")
        texts.append(emit_trial(program, "cuda", name=f"trial_{step}"))
    listings = inspect_cuda("\n".join(texts), target, *(f"trial_{step}" for step in steps))
    for step, listing in zip(steps, listings, strict=True):
        assert listing.count("local") == 0
        if step in EXPECTED:
            found = listing.mnemonics
            assert any(name.startswith(EXPECTED[step]) for name in found), (step, found)


def test_shared_memory_and_barriers(inspect_cuda):
    tile = Memory("tile", "shared", 2048)
    builder = ProgramBuilder("through", 32, Array("source", "b32", 4), Array("destination", "b32", 5), [tile])
    at = builder.step("shift_left", (builder.step("lane"), builder.constant(4)))
    there = builder.step("xor", (at, builder.constant(16)))
    builder.store("tile", at, [builder.word(index) for index in range(4)], 16)
    builder.barrier("block")
    words = [*builder.load("tile", there, 16), *builder.load("tile", there, 1, 512)]
    listing = inspect_cuda(emit_trial(builder.finish(words), "cuda"), "sm_90a")
    assert [name for name in listing.mnemonics if name.startswith(("STS", "LDS"))] == [
        "STS.128",
        "LDS.128",
        "LDS.U8",
    ]
    assert listing.count("barrier") == 1
    assert listing.count("local") == 0


@pytest.mark.parametrize(
    ("name", "mnemonic"),
    [
        ("mma.m16n8k8.tf32", "HMMA.1688.F32.TF32"),
        ("mma.m16n8k16.f16", "HMMA.16816.F32"),
        ("mma.m16n8k16.f64", "DMMA.16x8x16"),
        ("mma.m16n8k32.s8", "IMMA.16832.S8.S8"),
    ],
)
def test_a_kernel_with_a_matrix_instruction_in_a_loop(name, mnemonic, inspect_cuda):
    instruction = INSTRUCTIONS[name]
    sizes = {operand: 4 * instruction.fragments[operand].registers for operand in "ABCD"}
    memories = [Memory(operand.lower(), "global", 4 * 32 * sizes[operand]) for operand in "ABD"]
    builder = ProgramBuilder("product", 32, memories=memories, instructions=[instruction])
    lane = builder.step("lane")
    word = builder.step("shift_left", (lane, builder.constant(2)))

    def registers(operand, at):
        found = [builder.load(operand.lower(), at, 4, 128 * i)[0] for i in range(sizes[operand] // 4)]
        floats = instruction.fragments[operand].dtype == "f32"
        return [builder.step("number", (value,)) if floats else value for value in found]

    zero = builder.constant(0)
    if instruction.fragments["C"].dtype == "f32":
        zero = builder.step("number", (zero,))
    with builder.loop(4, [zero] * (sizes["C"] // 4)) as loop:
        stride = builder.step("shift_left", (loop.index, builder.constant(12)))
        at = builder.step("add", (word, stride))
        operands = [*registers("A", at), *registers("B", at), *loop.values]
        loop.repeat(builder.apply("matrix", operands, (), name))
    for index, value in enumerate(loop.results):
        bits = builder.step("bits", (value,)) if value.type == "f32" else value
        builder.store("d", word, [bits], 4, 128 * index)
    program = replace(builder.finish(), memories=tuple(replace(memory, bytes=1 << 16) for memory in memories))
    listing = inspect_cuda(emit(program, "cuda"), "sm_90a", "product")
    assert mnemonic in {found.removesuffix(".ROW.COL") for found in listing.mnemonics}
    assert listing.count("matrix") in (1, 4)  # the compiler may unroll the loop
    assert listing.count("local") == 0


def test_what_is_wrong_is_said(inspect_cuda):
    with pytest.raises(DeviceError, match=r"nvrtc refuses the text: [\s\S]*error"):
        cuda.inspect("void f(", "sm_80")
    with pytest.raises(DeviceError, match="nvrtc refuses"):
        cuda.inspect("", "sm_12345")
    with pytest.raises(DeviceError, match="no kernel 'missing'"):
        cuda.inspect('extern "C" __global__ void trial() {}', "sm_80", "missing")
    with pytest.raises(DeviceError, match="nvdisasm refuses"):
        cuda.disassemble(b"nothing")
    with pytest.raises(UnsupportedError, match=r"CUDA C\+\+ has no word for lane_swap.*plan for a machine"):
        emit(one_step("lane_swap", 64, (32,)), "cuda")
    with pytest.raises(InputError, match=r"no code can be written for 'cudaa'.*nearest: cuda"):
        emit(one_step("lane", 32, ()), "cudaa")


@pytest.mark.parametrize(("count", "transposed"), [(1, 0), (2, 1), (4, 0)])
def test_matrices_of_halves(count, transposed, inspect_cuda):
    tile = Memory("tile", "shared", 1024)
    arrays = Array("source", "b32", count), Array("destination", "b32", count)
    builder = ProgramBuilder("matrices", 32, *arrays, [tile])
    row = builder.step("shift_left", (builder.step("lane"), builder.constant(4)))
    words = [builder.word(index) for index in range(count)]
    builder.apply("matrix_store", (row, *words), (count, transposed, 0), "tile")
    builder.barrier()
    program = builder.finish(builder.apply("matrix_load", (row,), (count, 1 - transposed, 16), "tile"))
    listing = inspect_cuda(emit_trial(program, "cuda"), "sm_90a")
    found = [name for name in listing.mnemonics if name.startswith(("STSM", "LDSM"))]
    sizes, forms = {1: "", 2: ".2", 4: ".4"}, ("16.M88", "16.MT88")
    assert found == [f"STSM.{forms[transposed]}{sizes[count]}", f"LDSM.{forms[1 - transposed]}{sizes[count]}"]
