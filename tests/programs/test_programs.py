"""Lane-level programs: built, verified, run."""

from dataclasses import replace

import numpy as np
import pytest

from regweave.errors import InputError, VerificationError
from regweave.programs import (
    OPCODES,
    Array,
    Opcode,
    Program,
    ProgramBuilder,
    Step,
    Value,
    check_program,
    run_program,
)
from regweave.programs.program import TYPES

WORDS = np.arange(64, dtype=np.uint32).reshape(32, 2)


def rotation():
    """Every lane takes word 0 of its neighbour within segments of 4 lanes."""
    builder = ProgramBuilder("rotation", 32, Array("source", "b32", 2), Array("destination", "b32", 1))
    following = builder.step("add", (builder.step("lane"), builder.constant(1)))
    builder.step("xor", (following, following))  # nobody needs it
    return builder.finish([builder.step("shuffle", (builder.word(0), following), (4,))])


def test_building_keeps_one_of_equal_steps_and_drops_the_unneeded():
    program = rotation()
    assert [step.opcode for step in program.steps] == ["lane", "constant", "add", "word", "shuffle"]
    assert program.count() == {"logic": 2, "shuffle": 1}
    assert str(program).splitlines()[-2:] == ["%5 = shuffle %4, %2 width 4", "destination[0] = %5"]


def test_running_a_program():
    expected = [2 * (lane // 4 * 4 + (lane + 1) % 4) for lane in range(32)]
    assert run_program(rotation(), WORDS)[:, 0].tolist() == expected
    with pytest.raises(InputError, match="words of shape"):
        run_program(rotation(), WORDS[:16])


@pytest.mark.parametrize(
    ("opcode", "operands", "numbers", "expected"),
    [
        ("and", (12, 10), (), 8),
        ("or", (12, 10), (), 14),
        ("xor", (12, 10), (), 6),
        ("add", (0xFFFFFFFF, 2), (), 1),
        ("subtract", (1, 2), (), 0xFFFFFFFF),
        ("multiply", (0x10001, 0x10001), (), 0x20001),
        ("less", (1, 0xFFFFFFFF), (), True),
        ("less", (1, 1), (), False),
        ("add_f32", (0x3F800000, 0x40000000), (), 0x40400000),
        ("maximum_f32", (0xBF800000, 0), (), 0),
        ("shift_left", (3, 31), (), 0x80000000),
        ("shift_right", (0x80000000, 31), (), 1),
        ("rotate_right", (1, 1), (), 0x80000000),
        ("rotate_right", (0xD8, 32), (), 0xD8),
        ("test", (6,), (2,), True),
        ("test", (5,), (2,), False),
        ("bits", (5,), (), 5),
        ("number", (5,), (), 5),
        ("pack_f16", (0x3F800000, 0xC0000000), (), 0xC0003C00),
        ("pack_f16", (0x7F7FFFFF, 0x7FC00000), (), 0x7E007C00),
        ("pack_bf16", (0x3F800000, 0xC0000000), (), 0xC0003F80),
        ("pack_bf16", (0x3F808000, 0x3F818000), (), 0x3F823F80),  # ties to even
        ("pack_bf16", (0x7F7FFFFF, 0x7F800001), (), 0x7FFF7F80),  # too large: infinity; NaN stays NaN
    ],
)
def test_what_opcodes_mean(opcode, operands, numbers, expected):
    words = tuple(np.array([value], dtype=np.uint32) for value in operands)
    meaning = OPCODES[opcode].meaning
    assert meaning is not None
    assert meaning(words, numbers).tolist() == [expected]


def test_swapping_bits():
    meaning, low, high = OPCODES["bit_swap"].meaning, np.uint32([0xF0F0F0F0]), np.uint32([0x0000FFFF])
    assert meaning is not None
    changed = meaning((low, high), (4, 0x0F0F0F0F))
    assert [int(word[0]) for word in changed] == [0x0000F0F0, 0x0F0FFFFF]
    # high half-bytes of the first change places with low ones of the second
    assert [int(word[0]) for word in meaning(changed, (4, 0x0F0F0F0F))] == [int(low[0]), int(high[0])]
    assert OPCODES["bit_swap"].instructions == 6


@pytest.mark.parametrize("numbers", [(0, 1), (32, 1), (4, 0x1FFFFFFF), (1, -1)])
def test_bits_are_swapped_inside_a_word(numbers):
    builder = ProgramBuilder("swap", 32, Array("source", "b32", 2), Array("destination", "b32", 2))
    swapped = builder.apply("bit_swap", (builder.word(0), builder.word(1)), numbers)
    with pytest.raises(VerificationError, match="not all inside a word"):
        builder.finish(swapped)


def test_selecting():
    test, one, two = np.array([True, False]), np.uint32([1, 1]), np.uint32([2, 2])
    meaning = OPCODES["select"].meaning
    assert meaning is not None
    assert meaning((test, one, two), ()).tolist() == [1, 2]


def test_opcodes_are_described_by_known_types():
    for opcode in OPCODES.values():
        assert isinstance(opcode, Opcode)
        assert {*opcode.operands, *opcode.results} <= {*TYPES, "any", "words", "matrices", *"ABCD"}


def broken(change):
    program = rotation()
    return change(program, list(program.steps))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p, s: replace(p, steps=tuple(s[1:])), "uses %0, which no earlier step defines"),
        (lambda p, s: replace(p, steps=(*s, s[0])), "defines %0 again"),
        (lambda p, s: replace(p, results=()), "0 words are defined"),
        (lambda p, s: replace(p, results=(Value(99, "b32"),)), "word 0 of destination is %99"),
        (lambda p, s: replace(p, destination=Array("d", "f32", 1)), "of type b32"),
        (lambda p, s: replace(p, destination=Array("d", "f64", 1)), "of type 'f64'"),
        (lambda p, s: replace(p, steps=(s[0]._replace(opcode="jump"), *s[1:])), "unknown opcode 'jump'"),
        (lambda p, s: replace(p, steps=(*s[:4], s[4]._replace(numbers=(5,)))), "segments of 5 of 32"),
        (lambda p, s: replace(p, steps=(*s[:4], s[4]._replace(numbers=()))), "0 numbers, not 1"),
        (lambda p, s: replace(p, steps=(*s[:4], s[4]._replace(operands=()))), "operands of types"),
        (
            lambda p, s: replace(p, steps=(*s[:3], s[3]._replace(numbers=(2,)), s[4])),
            r"source\[2\] of 2 words",
        ),
        (lambda p, s: replace(p, steps=(s[0], s[1]._replace(numbers=(-1,)), *s[2:])), "no 32-bit word"),
        (
            lambda p, s: replace(p, steps=(s[0]._replace(results=(Value(0, "f32"),)), *s[1:])),
            r"types \('f32',\)",
        ),
    ],
)
def test_the_verifier_names_the_step(change, words):
    with pytest.raises(VerificationError, match=words):
        check_program(broken(change))


def test_a_program_is_a_value():
    assert rotation() == rotation()
    assert isinstance(rotation(), Program)
    assert isinstance(rotation().steps[0], Step)
