"""Kernels: loops, memories, barriers and matrix instructions, verified and run."""

from dataclasses import replace

import numpy as np
import pytest

from regweave.errors import InputError, UnsupportedError, VerificationError
from regweave.machines.nvidia import INSTRUCTIONS
from regweave.programs import (
    Access,
    Array,
    Carried,
    Loop,
    Memory,
    ProgramBuilder,
    Step,
    Value,
    When,
    check_program,
    run_program,
)
from regweave.programs.fragments import multiply, read_tile, write_tile
from regweave.programs.numbers import decode, encode

OUT = Memory("out", "global", 256)
TILE = Memory("tile", "shared", 128)


def address(builder, step=4):
    return builder.step("shift_left", (builder.step("lane"), builder.constant(step.bit_length() - 1)))


def words_of(memory):
    return memory.view("<u4").tolist()


def summing(count=5):
    """Every lane sums the numbers 0 to count - 1 and its own number, in a loop."""
    builder = ProgramBuilder("summing", 32, memories=[OUT])
    with builder.loop(count, [builder.step("lane")]) as loop:
        twice = builder.step("add", (builder.step("lane"), builder.step("lane")))
        total = builder.step("add", (loop.values[0], loop.index))
        builder.step("xor", (twice, total))  # nobody needs it
        loop.repeat([total])
    builder.store("out", address(builder), loop.results, 4)
    return builder.finish()


def test_a_loop_hands_values_on():
    out = np.zeros(256, np.uint8)
    run_program(summing(), memories={"out": out})
    assert words_of(out)[:32] == [10 + lane for lane in range(32)]
    assert words_of(out)[32:] == [0] * 32
    assert summing().count() == {"logic": 7, "global_store": 1}  # the lane, a shift and 5 additions
    loop = next(item for item in summing().steps if isinstance(item, Loop))
    assert [str(item) for item in loop.body] == ["%4 = add %1, %2"]


def test_the_text_of_a_kernel():
    assert str(summing()).splitlines() == [
        "global out: 256 bytes",
        "%0 = lane",
        "loop %2 of 5 with %1 = %0:",
        "    %4 = add %1, %2",
        "    next %4",
        "gives %6",
        "%7 = constant value 2",
        "%8 = shift_left %0, %7",
        "global_store out %8, %6 bytes 4 offset 0",
    ]


def test_what_a_loop_does_not_need_is_done_before_it():
    builder = ProgramBuilder("hoisting", 32, memories=[OUT])
    with builder.loop(3) as loop:
        at = builder.step("add", (address(builder), builder.constant(128)))
        builder.store("out", at, [loop.index], 4)
    program = builder.finish()
    assert isinstance(program.steps[-1], Loop)
    assert [step.opcode for step, times in program.walk() if times == 3] == ["global_store"]


def test_only_lanes_whose_predicate_holds():
    builder = ProgramBuilder("some", 32, memories=[OUT])
    lane = builder.step("lane")
    with builder.when(builder.step("less", (lane, builder.constant(3)))):
        (word,) = builder.load("out", address(builder), 4, 128)
        builder.store("out", address(builder), [builder.step("add", (word, lane))], 4)
    with builder.when(builder.step("test", (lane,), (1,))):
        builder.step("add", (lane, lane))  # nothing changes: it is left out
    program = builder.finish()
    assert sum(isinstance(item, When) for item in program.steps) == 1
    out = np.arange(64, dtype="<u4").view(np.uint8)
    run_program(program, memories={"out": out})
    assert words_of(out)[:5] == [32, 34, 36, 3, 4]
    assert "when %" in str(program)


@pytest.mark.parametrize(("size", "words"), [(1, [0xA4]), (2, [0xA3A4]), (8, [0xA1A2A3A4, 7])])
def test_accesses_of_all_widths(size, words):
    builder = ProgramBuilder("widths", 1, Array("s", "b32", 2), Array("d", "b32", len(words)),
                             [Memory("tile", "shared", 32)])  # fmt: skip
    at = builder.constant(8)
    builder.store("tile", at, [builder.word(index) for index in range(len(words))], size, 16)
    accesses: list[Access] = []
    program = builder.finish(builder.load("tile", at, size, 16))
    found = run_program(program, np.uint32([[0xA1A2A3A4, 7]]), accesses=accesses)
    assert found.tolist() == [words]
    assert [(a.store, a.bytes, a.addresses.tolist()) for a in accesses] == [
        (True, size, [24]),
        (False, size, [24]),
    ]


def test_accesses_at_few_addresses_are_taken_at_once():
    """The words stored are themselves addresses: each step takes its own, in whatever order."""
    builder = ProgramBuilder("few", 32, Array("s", "b32", 1), Array("d", "b32", 4),
                             [Memory("tile", "shared", 512)])  # fmt: skip
    near, far = (builder.step("add", (address(builder), builder.constant(more))) for more in (0, 128))
    for offset, at in ((0, far), (256, near), (0, near), (256, far)):
        builder.store("tile", at, [at], 4, offset)
    builder.barrier()
    places = (near, 0), (far, 256), (near, 256), (far, 0)
    program = builder.finish([word for at, offset in places for word in builder.load("tile", at, 4, offset)])
    lanes = 4 * np.arange(32)[:, None]
    found = run_program(program, np.zeros((64, 1), dtype=np.uint32), blocks=2)
    assert np.array_equal(found, np.tile(lanes + np.array([0, 128, 0, 128]), (2, 1)))


def neighbours(scope, warps=1, step=1):
    """Every thread takes the word of a thread `step` further on, through shared memory."""
    builder = ProgramBuilder("neighbours", 32, Array("s", "b32", 1), Array("d", "b32", 1),
                             [Memory("tile", "shared", 128 * warps)], warps=warps)  # fmt: skip
    thread = builder.step("lane" if warps == 1 else "thread")
    four = builder.constant(2)
    builder.store("tile", builder.step("shift_left", (thread, four)), [builder.word(0)], 4)
    if scope:
        builder.barrier(scope)
    after = builder.step("add", (thread, builder.constant(step)))
    wrapped = builder.step("and", (after, builder.constant(32 * warps - 1)))
    return builder.finish(builder.load("tile", builder.step("shift_left", (wrapped, four)), 4))


@pytest.mark.parametrize(
    ("scope", "warps", "step", "ordered"),
    [
        ("warp", 1, 1, True),
        ("block", 1, 1, True),
        (None, 1, 1, False),
        (None, 1, 0, True),  # a lane sees what it wrote itself
        ("block", 2, 1, True),
        ("warp", 2, 1, False),  # lane 31 takes from the other warp
        ("warp", 2, 0, True),
    ],
)
def test_a_missing_barrier_is_found(scope, warps, step, ordered):
    words = np.arange(32 * warps, dtype=np.uint32)[:, None]
    program = neighbours(scope, warps, step)
    if ordered:
        assert np.array_equal(run_program(program, words), np.roll(words, -step))
    else:
        with pytest.raises(VerificationError, match="without a barrier"):
            run_program(program, words)


def taken_apart(source, last):
    """Two words of each lane go through memory together, and one more load: its place depends on `last`."""
    tile = Memory("tile", "shared", 384)
    builder = ProgramBuilder("apart", 32, Array("s", "b32", source), Array("d", "b32", 3), [tile])
    here = address(builder)
    for number in range(2):
        builder.store("tile", here, [builder.word(number)], 4, 128 * number)
    builder.barrier()
    words = [word for number in range(2) for word in builder.load("tile", here, 4, 128 * number)]
    builder.store("tile", here, [words[0]], 4, 128)
    builder.store("tile", here, [words[1]], 4, 256)
    words += builder.load("tile", builder.step("xor", (here, last(builder))), 4, 128)
    return builder.finish(words)


def test_blocks_that_do_the_same_are_taken_at_once_until_one_does_not():
    def moved(builder):
        return builder.step("multiply", (builder.step("block", symbol="x"), builder.constant(4)))

    words = np.arange(4 * 32 * 2, dtype=np.uint32).reshape(-1, 2)
    found = run_program(taken_apart(2, lambda builder: builder.constant(0)), words, blocks=4)
    assert np.array_equal(found, np.column_stack([words, words[:, 0]]))
    # block 0 looks at its own words, block 1 at those of a neighbour, which no barrier orders
    program = taken_apart(2, moved)
    assert np.array_equal(run_program(program, words[:32]), found[:32])
    with pytest.raises(VerificationError, match="without a barrier"):
        run_program(program, words[:64], blocks=2)


def test_writing_again_before_others_have_read_is_found():
    builder = ProgramBuilder("again", 32, Array("s", "b32", 1), Array("d", "b32", 1), [TILE])
    here = address(builder)
    there = builder.step("xor", (here, builder.constant(4)))
    builder.store("tile", here, [builder.word(0)], 4)
    builder.barrier()
    (word,) = builder.load("tile", there, 4)
    builder.store("tile", here, [word], 4)
    with pytest.raises(VerificationError, match="without a barrier"):
        run_program(builder.finish([word]), np.zeros((32, 1), np.uint32))


@pytest.mark.parametrize(
    ("first", "message"),
    [(2, "4 bytes are moved at 2, the address of number 0"), (4, "moved at 128, the address of number 31")],
)
def test_addresses_outside_are_found_when_they_are_used(first, message):
    builder = ProgramBuilder("outside", 32, Array("s", "b32", 1), memories=[TILE])
    at = builder.step("add", (address(builder), builder.word(0)))
    builder.store("tile", at, [builder.word(0)], 4)
    with pytest.raises(VerificationError, match=message):
        run_program(builder.finish(), np.full((32, 1), first, np.uint32))


def test_lanes_must_not_write_different_words_to_one_place():
    builder = ProgramBuilder("clash", 32, Array("s", "b32", 1), memories=[TILE])
    builder.store("tile", builder.constant(0), [builder.word(0)], 4)
    run_program(builder.finish(), np.ones((32, 1), np.uint32))
    with pytest.raises(VerificationError, match="different words"):
        run_program(builder.finish(), np.arange(32, dtype=np.uint32)[:, None])


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_halves(count, transposed):
    tile = Memory("tile", "shared", 128 * count)
    halves = np.arange(64 * count, dtype="<u2").reshape(count, 8, 8)
    builder = ProgramBuilder("matrices", 32, Array("s", "b32", count), Array("d", "b32", count), [tile])
    at = builder.step("and", (address(builder, 16), builder.constant(128 * count - 1)))
    words = [builder.word(index) for index in range(count)]
    builder.apply("matrix_store", (at, *words), (count, 0, 0), "tile")
    builder.barrier()
    program = builder.finish(builder.apply("matrix_load", (at,), (count, transposed, 0), "tile"))
    # lane 4 g + t holds halves 2 t and 2 t + 1 of row g
    given = halves.reshape(count, 32, 2).view("<u4")[..., 0].T.astype(np.uint32)
    accesses: list[Access] = []
    found = run_program(program, np.ascontiguousarray(given), accesses=accesses)
    wanted = halves.swapaxes(1, 2) if transposed else halves
    assert np.array_equal(np.ascontiguousarray(found.T).view("<u2").reshape(count, 8, 8), wanted)
    assert [(a.store, a.bytes, a.addresses.size) for a in accesses] == [
        (True, 16, 8 * count),
        (False, 16, 8 * count),
    ]
    with pytest.raises(VerificationError, match="not 1, 2 or 4"):
        check_program(edited(program, -1, numbers=(3, 0, 0)))
    with pytest.raises(VerificationError, match="without a barrier"):
        run_program(replace(program, steps=tuple(s for s in program.steps if s.symbol != "warp")), found)


def test_memories_must_be_given():
    with pytest.raises(InputError, match="memory 'out' is not given"):
        run_program(summing())
    with pytest.raises(InputError, match="words of shape"):
        run_program(neighbours("warp"))


def edited(program, at, **changes):
    steps = list(program.steps)
    item = steps[at]
    steps[at] = item._replace(**changes) if isinstance(item, Step) else replace(item, **changes)
    return replace(program, steps=tuple(steps))


def carried_as(inside):
    types = ("b32", inside, "b32", "b32")
    return Carried(*(Value(number, kind) for number, kind in zip((0, 1, 4, 6), types, strict=True)))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda: edited(neighbours("warp"), 5, symbol="grid"), "scope 'grid'"),
        (lambda: edited(neighbours("warp"), 4, symbol="out"), "names 'out', which is no shared memory"),
        (lambda: edited(neighbours("warp"), 0, symbol="out"), "means nothing here"),
        (lambda: edited(neighbours("warp"), 4, numbers=(3, 0)), "moves 3 bytes"),
        (lambda: edited(neighbours("warp"), 4, numbers=(4, 2)), "at offset 2"),
        (lambda: edited(neighbours("warp"), 4, numbers=(4, 128)), "at 128 of the 128 bytes"),
        (lambda: edited(neighbours("warp"), 4, numbers=(8, 0)), "operands of types"),
        (lambda: replace(neighbours("warp"), memories=(TILE, TILE)), "names of their own"),
        (lambda: replace(neighbours("warp"), memories=(replace(TILE, space="local"),)), "space 'local'"),
        (lambda: edited(summing(), 1, count=0), "runs 0 times"),
        (lambda: edited(summing(), 1, index=Value(0, "b32")), "expected a new value"),
        (lambda: edited(summing(), 1, body=()), "some earlier step defines"),
        (lambda: edited(summing(), 1, carried=(carried_as("f32"),)), "%0 of type b32 is used"),
        (
            lambda: replace(neighbours("warp"), steps=(*neighbours("warp").steps, When(Value(0, "b32"), ()))),
            "of type predicate",
        ),
    ],
)  # fmt: skip
def test_the_verifier_knows_memories_and_bodies(program, message):
    with pytest.raises(VerificationError, match=message):
        check_program(program())


def test_values_of_a_body_are_unknown_outside():
    program = summing()
    inside = next(item for item in program.steps if isinstance(item, Loop)).body[0]
    store = program.steps[-1]._replace(operands=(program.steps[-1].operands[0], inside.results[0]))
    with pytest.raises(VerificationError, match="uses %4, which no earlier step defines"):
        check_program(replace(program, steps=(*program.steps[:-1], store)))


def test_barriers_stand_where_all_lanes_come_by():
    builder = ProgramBuilder("parted", 32, memories=[OUT])
    with builder.when(builder.step("test", (builder.step("lane"),), (1,))):
        builder.barrier()
    with pytest.raises(VerificationError, match="lanes may have parted"):
        builder.finish()


@pytest.mark.parametrize(
    ("what", "alike"), [("block", True), ("index", True), ("lane", False), ("carried", False)]
)
def test_lanes_part_on_what_differs_among_them(what, alike):
    b = ProgramBuilder("alike", 32, memories=[OUT])
    zero = b.constant(0)
    with b.loop(3, [zero]) as loop:
        lane = b.step("lane")
        known = {
            "block": b.step("block", (), (), "x"),
            "index": loop.index,
            "lane": lane,
            "carried": loop.values[0],
        }
        with b.when(b.step("less", (b.step("add", (known[what], zero)), b.constant(2)))):
            place = b.step("multiply", (lane, b.constant(4)))
            (word,) = b.load("out", place)
            b.store("out", place, [b.step("shuffle", (word, zero), (32,))], 4)
        loop.repeat([b.step("add", (loop.values[0], lane))])
    if alike:
        b.finish()
    else:
        with pytest.raises(VerificationError, match="lanes may have parted"):
            b.finish()


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "s32"])
def test_numbers_there_and_back(dtype):
    numbers = np.array([0.0, 1.0, -2.5, 1000.0]) if dtype != "s32" else np.array([0, 1, -2, 1 << 30])
    assert decode(encode(numbers, dtype), dtype).tolist() == numbers.tolist()


@pytest.mark.parametrize(
    ("dtype", "bits", "number"),
    [
        ("e4m3", 0x7E, 448.0),
        ("e4m3", 0x81, -(2.0**-9)),
        ("e5m2", 0x7B, 57344.0),
        ("e5m2", 0x7C, np.inf),
        ("e3m2", 0x1F, 28.0),
        ("e2m3", 0x1F, 7.5),
        ("e2m1", 0xF, -6.0),
        ("bf16", 0x3FC0, 1.5),
        ("tf32", 0x3FC01FFF, 1.5),
        ("s8", 0xFF, -1),
        ("u8", 0xFF, 255),
        ("s4", 0x8, -8),
    ],
)
def test_what_bits_are(dtype, bits, number):
    assert decode(np.uint32([bits]), dtype).tolist() == [number]


def test_nothing_is_computed_with_mere_bits():
    with pytest.raises(UnsupportedError, match="no numbers"):
        decode(np.uint32([1]), "b16")
    with pytest.raises(UnsupportedError, match="not rounded"):
        encode(np.float64([1]), "b8")


@pytest.mark.parametrize(
    "name", ["mma.m16n8k8.tf32", "mma.m16n8k8.f16", "mma.m16n8k16.f16", "mma.m16n8k16.bf16"]
)
def test_a_matrix_instruction_multiplies(name):
    instruction = INSTRUCTIONS[name]
    rng = np.random.default_rng(1)
    tiles = [rng.integers(-4, 5, (2, *instruction.fragments[x].shape)).astype(float) for x in "ABC"]
    layouts = [instruction.fragments[x] for x in "ABC"]
    # operands in their registers: what a wide type holds exactly is also exact in the narrow one
    words = []
    for layout, tile in zip(layouts, tiles, strict=True):
        wide = {"tf32": "f32", "bf16": "f16"}.get(layout.dtype, layout.dtype)
        registers = write_tile(layout.retype(wide), tile)
        if layout.dtype == "bf16":
            registers = write_tile(layout.retype("s16"), encode(tile, "f32").astype(np.int64) >> 16)
        words += registers
        assert np.array_equal(read_tile(layout, tuple(registers)), tile)
    found = read_tile(instruction.fragments["D"], multiply(instruction, tuple(words)))
    assert np.array_equal(found, tiles[0] @ tiles[1] + tiles[2])


def test_a_kernel_multiplies():
    instruction = INSTRUCTIONS["mma.m16n8k8.f16"]
    memories = [Memory("a", "global", 256), Memory("b", "global", 128), Memory("c", "global", 512)]
    builder = ProgramBuilder("product", 32, memories=memories, instructions=[instruction])
    a = builder.load("a", address(builder, 8), 8)
    b = builder.load("b", address(builder), 4)
    c = [builder.step("number", (word,)) for word in builder.load("c", address(builder, 16), 16)]
    d = builder.apply("matrix", (*a, *b, *c), (), instruction.name)
    zero = builder.step("number", (builder.constant(0),))
    kept = [builder.step("maximum_f32", (builder.step("add_f32", (word, word)), zero)) for word in d]
    builder.store("c", address(builder, 16), [builder.step("bits", (word,)) for word in kept], 16)
    program = builder.finish()
    assert program.kernel
    rng = np.random.default_rng(2)
    tiles = {x: rng.integers(-4, 5, (1, *instruction.fragments[x].shape)).astype(float) for x in "ABC"}
    given = {
        x.lower(): np.stack(write_tile(instruction.fragments[x], tile), axis=1).view(np.uint8).reshape(-1)
        for x, tile in tiles.items()
    }
    run_program(program, memories=given)
    registers = given["c"].view("<u4").reshape(32, 4).T
    found = read_tile(instruction.fragments["D"], tuple(np.ascontiguousarray(row) for row in registers))
    assert np.array_equal(found, np.maximum(2 * (tiles["A"] @ tiles["B"] + tiles["C"]), 0))
    wrong = replace(program, instructions=())
    with pytest.raises(VerificationError, match="which is not given"):
        check_program(wrong)
