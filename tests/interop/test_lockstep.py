"""The simulation in C against the meaning of every opcode, on all lanes at once."""

import numpy as np
import pytest

from regweave import UnsupportedError
from regweave.interop.lockstep import lockstep_text
from regweave.programs import OPCODES, Array, Memory, ProgramBuilder, run_program
from regweave.programs.narrowing import NARROWINGS

# words whose conversion is easily got wrong: ties, limits, subnormals, infinities, NaNs, integers at the edge
HARD = [
    *(0, 1, 0x80000000, 0x3F800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x477FF000, 0x477FEFFF),
    *(0x38800000, 0x33000000, 0x33000001, 0x43E00000, 0x43F00000, 0x3B000000, 0x47600000, 0x37000000),
    *(0x3F808000, 0x3F818000, 0xFFFFFFFF, 0x7F, 0x80, 0xFF, 0x100, 0xFFFFFF80, 0xFFFFFF7F, 0x807FFFFF),
]


ROWS = [(0x1B,), (0x123,), (0x140,), (0x141,), (0x155,), (0x163,)]
PERMUTES = [(0x76543210, 0x01234567, 0), (0x11111111, 0xEEEEEEEE, 1)]


def everything(lanes):
    """A program whose results are what every opcode makes of three words, and the opcodes that it uses."""
    count = 0
    while True:  # the second time the number of results is known
        b = ProgramBuilder("everything", lanes, Array("source", "b32", 3), Array("destination", "b32", count))
        results = list(made(b, lanes))
        if len(results) == count:
            program = b.finish(results)
            return program, {step.opcode for step, _ in program.walk()}
        count = len(results)


def made(b, lanes):
    x, y, z = (b.word(index) for index in range(3))
    two = ("and", "or", "xor", "add", "subtract", "multiply", "shift_left", "shift_right", "rotate_right")
    for opcode in two:
        yield b.step(opcode, (x, y))
    for predicate in (b.step("less", (x, y)), b.step("test", (x,), (0x80000001,))):
        yield b.step("select", (predicate, y, z))
    for width in (2, 8, lanes):
        yield b.step("shuffle", (x, z), (width,))
    yield from b.apply("bit_swap", (x, y), (4, 0x0F0F0F0F))
    yield b.step("byte_permute", (x, y, b.step("and", (z, b.constant(0x7777)))))
    yield b.step("transpose", (x,))
    for pieces in (1, 2, 4):
        places = np.random.default_rng(pieces).integers(0, 2 * lanes * pieces, lanes * pieces)
        yield b.step("pick", (x, y), tuple(places.tolist()))
    for numbers in ROWS:
        yield b.step("row_move", (x,), numbers)
    for numbers in PERMUTES:
        yield b.step("row_permute", (x,), numbers)
    for bit in (16, 32)[: lanes // 32]:
        yield from b.apply("lane_swap", (x, y), (bit,))
    if lanes == 64:
        yield b.step("half_swap", (x,))
    floats = [b.step("number", (word,)) for word in (x, y)]
    for opcode, kind in NARROWINGS.items():
        taken = floats if kind.taken == "f32" else (x, y)
        yield b.step(opcode, (*taken, z) if kind.merges else taken)
    for opcode in ("pack_low", "pack_high"):
        yield b.step(opcode, (x, y))
    yield b.step("lane")
    yield b.step("bits", (floats[0],))


@pytest.mark.parametrize("lanes", [32, 64])
def test_every_opcode_means_the_same_in_c(lanes, run_c, tmp_path):
    program, covered = everything(lanes)
    words = np.random.default_rng(lanes).integers(0, 1 << 32, (lanes, 3), dtype=np.uint32)
    words[: len(HARD), 0] = HARD
    words[: len(HARD), 1] = HARD[::-1]
    code, text = run_c(tmp_path, compared(tmp_path, program, words, run_program(program, words)))
    assert code == 0, text
    moves = {name for name, opcode in OPCODES.items() if opcode.resource in MOVING and not opcode.symbol}
    assert moves - covered <= ({"half_swap"} if lanes == 32 else set()) | NOT_SIMULATED


MOVING = ("shuffle", "select", "permute", "convert", "logic", "test", "move", "free")
# the number within the block has a test of its own, with several warps
NOT_SIMULATED = {"thread"}


@pytest.mark.parametrize("warps", [1, 2])
def test_loops_conditions_and_shared_memory(warps, run_c, tmp_path):
    """Every thread adds its neighbour's words three times over; odd threads write theirs in halves."""
    tile = Memory("tile", "shared", 32 * warps * 8)
    b = ProgramBuilder("neighbours", 32, Array("source", "b32", 2), Array("destination", "b32", 2),
                       memories=[tile], warps=warps)  # fmt: skip
    thread = b.step("thread")
    place = b.step("multiply", (thread, b.constant(8)))
    other = b.step("xor", (place, b.constant(8)))
    odd = b.step("test", (thread,), (1,))
    even = b.step("less", (b.step("and", (thread, b.constant(1))), b.constant(1)))
    with b.loop(3, [b.word(0), b.word(1)]) as loop:
        with b.when(even):
            b.store("tile", place, loop.values, 8)
        with b.when(odd):
            b.store("tile", place, loop.values[:1], 4)
            b.store("tile", place, loop.values[1:], 2, 4)
            b.store("tile", place, [b.step("shift_right", (loop.values[1], b.constant(16)))], 2, 6)
        b.barrier("block")
        found = b.load("tile", other, 8)
        b.barrier("block")
        loop.repeat(
            [b.step("add", (loop.values[at], b.step("add", (found[at], loop.index)))) for at in (0, 1)]
        )
    program = b.finish(loop.results)
    words = np.random.default_rng(0).integers(0, 1 << 32, (32 * warps, 2), dtype=np.uint32)
    code, text = run_c(tmp_path, compared(tmp_path, program, words, run_program(program, words)))
    assert code == 0, text


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_matrices_of_halves(matrices, transposed, run_c, tmp_path):
    """Words through memory: stored as matrices, loaded by lanes, loaded as matrices the other way round."""
    tile = Memory("tile", "shared", 16 * 32)
    b = ProgramBuilder("matrices", 32, Array("source", "b32", matrices),
                       Array("destination", "b32", 2 * matrices), memories=[tile])  # fmt: skip
    words = [b.word(index) for index in range(matrices)]
    rows = b.step("multiply", (b.step("xor", (b.step("lane"), b.constant(5))), b.constant(16)))
    b.apply("matrix_store", (rows, *words), (matrices, transposed, 0), "tile")
    b.barrier()
    place = b.step("multiply", (b.step("lane"), b.constant(4)))
    plain = [b.load("tile", place, 4, 128 * at)[0] for at in range(matrices)]
    turned = b.apply("matrix_load", (rows,), (matrices, 1 - transposed, 0), "tile")
    # of fewer matrices some rows are never written, and what they hold is nobody's business
    program = b.finish([*(plain if matrices == 4 else turned), *turned])
    given = np.random.default_rng(matrices).integers(0, 1 << 32, (32, matrices), dtype=np.uint32)
    code, text = run_c(tmp_path, compared(tmp_path, program, given, run_program(program, given)))
    assert code == 0, text


def compared(folder, program, words, wanted):
    """A C program that says which results differ."""
    given = ", ".join(f"{word:#x}u" for word in words.T.ravel().tolist())
    right = ", ".join(f"{word:#x}u" for word in wanted.T.ravel().tolist())
    text = "\n".join(
        [
            *(f"#include <{name}.h>" for name in ("math", "stdint", "stdio", "string")),
            lockstep_text(program, "run"),
            f"static const uint32_t given[] = {{{given}}}, wanted[] = {{{right}}};",
            "int main(void) {",
            f"    static uint32_t found[{wanted.size}];",
            "    int wrong = 0;",
            "    run(given, found);",
            f"    for (int i = 0; i < {wanted.size}; ++i)",
            "        if (found[i] != wanted[i] && ++wrong)",
            f'            printf("result %d lane %d: %x, wanted %x\\n", i / {len(words)}, i % {len(words)},',
            "                   (unsigned)found[i], (unsigned)wanted[i]);",
            "    return wrong != 0;",
            "}",
            "",
        ]
    )
    path = folder / "compare.c"
    path.write_text(text)
    return path


def test_steps_that_are_not_simulated_are_named():
    b = ProgramBuilder("x", 32, Array("source", "f32", 1), Array("destination", "f32", 1))
    total = b.step("add_f32", (b.word(0), b.word(0)))
    with pytest.raises(UnsupportedError, match="add_f32 is not simulated in C"):
        lockstep_text(b.finish([total]), "run")
    assert "add_f32" in OPCODES
