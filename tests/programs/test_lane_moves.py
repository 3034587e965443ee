"""Moves between lanes: what each brings where, against the manuals' descriptions."""

import numpy as np
import pytest

from regweave.errors import VerificationError
from regweave.programs import Array, ProgramBuilder, run_program
from regweave.programs.lane_moves import CONTROLS, row_move_peers


def moved(opcode, numbers=(), lanes=64, words=1):
    """What the lanes hold after the move, where word w of lane i was 1000 w + i."""
    builder = ProgramBuilder("f", lanes, Array("s", "b32", words), Array("d", "b32", words))
    results = builder.apply(opcode, [builder.word(number) for number in range(words)], numbers)
    held = np.arange(lanes, dtype=np.uint32)[:, None] + 1000 * np.arange(words, dtype=np.uint32)
    return run_program(builder.finish(results), held).T.tolist()


def test_transpose_is_the_fragment_formula():
    """Element (r, c) of 8 x 8 lies in half c % 2 of lane 4 r + c / 2."""
    held = np.zeros((32, 1), dtype=np.uint32)
    for row in range(8):
        for column in range(8):
            held[4 * row + column // 2, 0] |= (8 * row + column) << 16 * (column % 2)
    builder = ProgramBuilder("f", 32, Array("s", "b32", 1), Array("d", "b32", 1))
    found = run_program(builder.finish([builder.step("transpose", (builder.word(0),))]), held)[:, 0]
    for row in range(8):
        for column in range(8):
            assert found[4 * column + row // 2] >> 16 * (row % 2) & 0xFFFF == 8 * row + column


@pytest.mark.parametrize(("bit", "lanes"), [(16, 32), (16, 64), (32, 64)])
def test_lane_swap(bit, lanes):
    first, second = moved("lane_swap", (bit,), lanes, 2)
    for lane in range(lanes):
        assert first[lane] == (1000 + lane - bit if lane & bit else lane)
        assert second[lane] == (1000 + lane if lane & bit else lane + bit)


@pytest.mark.parametrize(
    ("control", "first_lanes"),
    [
        (0b00_01_10_11, [3, 2, 1, 0, 7]),  # quad_perm:[3,2,1,0]
        (0b10_11_00_01, [1, 0, 3, 2, 5]),
        (0x121, [15, 0, 1, 2, 3]),
        (0x128, [8, 9, 10, 11, 12]),
        (0x140, [15, 14, 13, 12, 11]),
        (0x141, [7, 6, 5, 4, 3]),
        (0x153, [3, 3, 3, 3, 3]),
        (0x165, [5, 4, 7, 6, 1]),
    ],
)
def test_row_moves(control, first_lanes):
    (found,) = moved("row_move", (control,))
    assert found[:5] == first_lanes
    assert found[16:21] == [16 + lane for lane in first_lanes]


def test_every_control_stays_within_its_row():
    for control in CONTROLS:
        assert np.array_equal(row_move_peers(control, 64) // 16, np.arange(64) // 16)


def test_row_permutes_and_half_swap():
    identity = 0x76543210, 0xFEDCBA98
    assert moved("row_permute", (*identity, 0)) == [list(range(64))]
    assert moved("row_permute", (*identity, 1)) == [[lane ^ 16 for lane in range(64)]]
    assert moved("row_permute", (0x01234567, 0, 0))[0][:9] == [7, 6, 5, 4, 3, 2, 1, 0, 0]
    assert moved("half_swap") == [[lane ^ 32 for lane in range(64)]]


@pytest.mark.parametrize(
    ("opcode", "numbers", "lanes", "words"),
    [
        ("lane_swap", (8,), 64, "by bit 8, not 16 or 32"),
        ("lane_swap", (32,), 32, "among 64 lanes, of which there are 32"),
        ("half_swap", (), 32, "among 64 lanes"),
        ("transpose", (), 16, "among 32 lanes"),
        ("row_move", (0x120,), 32, "0x120, which is no pattern"),
        ("row_permute", (0, 1 << 32, 0), 32, "which are not two words"),
        ("row_permute", (0, 0, 2), 32, "and 0 or 1"),
    ],
)
def test_impossible_moves_are_found(opcode, numbers, lanes, words):
    with pytest.raises(VerificationError, match=words):
        moved(opcode, numbers, lanes, 2 if opcode == "lane_swap" else 1)
