"""What a person may get wrong, or bring along: every answer is a clear one."""

from dataclasses import replace

import numpy as np
import pytest

import regweave
from regweave.errors import InputError, UnsupportedError, VerificationError
from regweave.layouts import Layout
from regweave.machines.catalogue import find_layout
from regweave.machines.nvidia import SM_75
from regweave.machines.x86 import AVX512
from regweave.rearrangement import Conditions, relate
from regweave.rearrangement.folds import find_fold
from regweave.rearrangement.proof import prove

C, A = "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mma.m16n8k8.tf31:C", A), r"unknown layout 'mma\.m16n8k8\.tf31:C'.*nearest: mma\.m16n8k8\.tf32:C"),
        ((C, A, "sm_79"), "unknown machine 'sm_79'.*nearest: sm_"),
        ((C, A, "sm_80", "folds"), "unknown strategy 'folds'.*nearest: fold"),
    ],
)
def test_wrong_names(arguments, words):
    with pytest.raises(InputError, match=words):
        regweave.rearrange(*arguments)


@pytest.mark.parametrize(
    ("tile", "words"),
    [
        ("16by8", "'16by8' is no tile"),
        ("x" * 10**6, r"'x{40}\.\.\.' is no tile"),
        ((0, 8), "0 x 8 tile"),
        ("24x8", "does not fill a 24 x 8 tile"),
        ("1234567890x8", "a side of 10 digits.*at most 9"),
        ("16x" + "9" * 5000, "a side of 5000 digits"),
    ],
)
def test_wrong_tiles(tile, words):
    with pytest.raises(InputError, match=words):
        regweave.rearrange(C, A, tile=tile)


def test_unknown_targets():
    with pytest.raises(InputError, match=r"no code can be written for 'cudo'.*nearest: cuda"):
        regweave.rearrange(C, A).emit("cudo")


def test_a_machine_without_the_instruction():
    with pytest.raises(UnsupportedError, match=r"sm_75 has no mma\.m16n8k8\.tf32"):
        regweave.rearrange(C, A, machine="sm_75")
    assert regweave.rearrange("mma.m16n8k8.f16:C", "mma.m16n8k8.f16:A", machine=SM_75).strategy == "identity"
    with pytest.raises(UnsupportedError, match=r"sm_75 has no mma\.m16n8k8\.tf32"):
        regweave.layout(C, "sm_75")
    singles = Layout("s", (1, 2), "f32", [[0, 1]])
    with pytest.raises(UnsupportedError, match="sm_75 cannot convert f32 to bf16"):
        regweave.rearrange(singles, Layout("d", (1, 2), "bf16", [[0, 1]]), machine="sm_75")


def test_layouts_of_different_tiles():
    mine = Layout("mine", (4, 8), "f32", np.arange(32).reshape(32, 1))
    with pytest.raises(InputError, match="does not fill a 4 x 8 tile"):
        regweave.rearrange(mine, A)
    with pytest.raises(InputError, match=r"element \(4, 0\), which only one of them holds"):
        regweave.rearrange(mine, regweave.layout(A))
    with pytest.raises(InputError, match="mine lays out a 4 x 8 tile"):
        regweave.rearrange(mine, A, tile="16x8")
    # a named fragment is repeated to the tile of a layout given as a value
    wide = regweave.layout(C).repeat(1, 2)
    assert regweave.rearrange(wide, A).destination.shape == (16, 16)


def test_a_tile_of_leading_noughts():
    assert regweave.rearrange(C, A, tile="00000000016x8").source.shape == (16, 8)


def test_more_lanes_than_a_warp():
    warps = Layout("warps", (128, 1), "b32", np.arange(128).reshape(128, 1))
    assert regweave.rearrange(warps, warps).machine.name == "sm_80"  # four warps, as no warp is as wide
    many = Layout("many", (48, 1), "b32", np.arange(48).reshape(48, 1))
    with pytest.raises(InputError, match=r"spread over 48 lanes.*lane 32"):
        regweave.rearrange(many, many, "sm_80")


@pytest.mark.parametrize(("lanes", "words"), [(6, 5), (3, 4), (1, 7), (31, 2), (5, 1)])
def test_sizes_that_are_no_powers_of_two(lanes, words):
    rng = np.random.default_rng(lanes)
    size = lanes * words
    source = Layout("s", (lanes, words), "b32", rng.permutation(size).reshape(lanes, words))
    destination = Layout("d", (lanes, words), "b32", rng.permutation(size).reshape(lanes, words))
    plan = regweave.rearrange(source, destination, strategy="direct")
    assert plan.rounds == words
    assert "31u" not in plan.emit() or lanes > 1


def test_a_wrong_program_does_not_pass_the_proof():
    plan = regweave.rearrange(C, A, strategy="direct")
    program = plan.chosen.program
    swapped = replace(program, results=(program.results[1], program.results[0], *program.results[2:]))
    with pytest.raises(VerificationError, match=r"lane 0 register 0 does not receive element \(0, 0\)"):
        prove(swapped, plan.relation)
    fold = regweave.rearrange(C, A)
    with pytest.raises(VerificationError, match="does not receive"):
        prove(fold.chosen.program, fold.relation)  # right only after the permutation of k


def test_large_tiles_are_proved_digit_by_digit():
    c = regweave.layout("mma.m16n8k16.bf16:C").repeat(2, 16)
    a = regweave.layout("mma.m16n8k16.bf16:A").repeat(2, 8)
    plan = regweave.rearrange(c, a)
    assert plan.strategy == "identity"
    assert plan.source.elements > 128 * 16
    upside_down = replace(plan.chosen.program, results=plan.chosen.program.results[::-1])
    with pytest.raises(VerificationError):
        prove(upside_down, relate(c, a))


def test_an_odd_number_of_elements_fills_half_a_register():
    source = Layout("s", (2, 3), "f32", [[0, 1, 2], [3, 4, 5]])
    plan = regweave.rearrange(source, Layout("d", (2, 3), "f16", [[0, 1, 2], [3, 4, 5]]))
    assert plan.strategy == "identity"
    assert plan.cost.converts == plan.destination.registers == 2
    crossed = regweave.rearrange(source, Layout("d", (2, 3), "f16", [[3, 4, 5], [0, 1, 2]]))
    assert (crossed.strategy, crossed.cost.exchanges) == ("exchange", 2)


@pytest.mark.parametrize("tile", ["256x256", "1600000x800000"])
def test_tiles_beyond_the_registers_are_refused_at_once(tile):
    with pytest.raises(UnsupportedError, match=r"registers of every lane.*at most 255"):
        regweave.rearrange(C, A, tile=tile)


def test_layouts_beyond_the_registers_are_refused():
    table = np.arange(32 * 300).reshape(32, 300)
    with pytest.raises(UnsupportedError, match="large takes 300 registers of every lane"):
        regweave.rearrange(*[Layout("large", (32, 300), "f32", table)] * 2)


@pytest.mark.parametrize("tile", ["9" * 5000 + "x8", "١٦x٨", (16.0, 8.0), (16, 8, 1), 16])
def test_tiles_are_two_whole_numbers(tile):
    with pytest.raises(InputError, match="at tile"):
        regweave.rearrange(C, A, tile=tile)


@pytest.mark.parametrize("arguments", [(None, C), (C, 5), (C, C, 5), (C, C, AVX512), (C, C, "sm_80", None)])
def test_arguments_of_other_kinds_are_named(arguments):
    with pytest.raises(InputError):
        regweave.rearrange(*arguments)


@pytest.mark.parametrize("other", [["fold"], {"fold": 1}, np.arange(3)])
def test_what_cannot_be_a_key_is_named(other):
    with pytest.raises(InputError, match="unknown strategy"):
        regweave.rearrange(C, A, strategy=other)
    with pytest.raises(InputError, match="no code can be written for"):
        regweave.rearrange(C, A).emit(other)
    for products in (None, 5):
        with pytest.raises(InputError, match="has no seam"):
            regweave.chain_layouts(products)


@pytest.mark.parametrize("target", ["", "cudo"])
def test_targets_are_checked_before_anything_else(target):
    refused = regweave.rearrange(C, A, strategy="refuse")
    for ask in (refused.emit, refused.to_document, regweave.rearrange(C, A).emit):
        with pytest.raises(InputError, match="no code can be written for"):
            ask(target)


def test_conditions_are_checked():
    for conditions in ({"block": 4}, "swap_allowed", True):
        with pytest.raises(InputError, match="are no conditions"):
            regweave.rearrange(C, A, conditions=conditions)
        with pytest.raises(InputError, match="are no conditions"):
            regweave.chain_layouts(["f16", "f16"], conditions=conditions)
    with pytest.raises(InputError, match="swap_allowed is 'no'"):
        Conditions(swap_allowed="no")
    with pytest.raises(InputError, match="blocks of True"):
        Conditions(block=True)
    assert regweave.rearrange(C, A, conditions=Conditions(block=np.int64(8))).strategy == "fold"


def test_long_names_make_short_functions(tmp_path):
    source, destination = regweave.layout(C), regweave.layout(A)
    for end in "ab":
        long = replace(source, name="x" * 10000 + end)
        plan = regweave.rearrange(long, destination, strategy="direct")
        assert all(path.exists() for path in plan.export(tmp_path))
    assert len(list(tmp_path.glob("*.h"))) == 2


def test_a_fold_as_wide_as_the_registers_is_found_at_once():
    plan = regweave.rearrange(C, A, tile="16x504")
    assert plan.fold is not None
    assert plan.fold[:8] == (0, 2, 4, 6, 1, 3, 5, 7)


def test_folds_that_do_not_exist_are_refuted_without_trying_all():
    """Two rows that are permutations of one another, with cycles of 2 and 3 against a cycle of 5."""
    size = 40
    source, destination = np.arange(size), np.arange(size)
    source[-5:] = np.roll(source[-5:], 1)
    destination[-5:] = destination[[-4, -5, -2, -1, -3]]
    tables = (np.stack([np.arange(size), size + row]) for row in (source, destination))
    layouts = [
        Layout(name, (2, size), "f32", table, axes)
        for name, table, axes in zip("sd", tables, (("m", "n"), ("m", "k")), strict=True)
    ]
    assert find_fold(relate(*layouts)) is None


def test_names_of_any_script_make_functions():
    named = replace(find_layout(C), name="é日本")
    code = regweave.rearrange(named, A).emit()
    assert "void regweave__to_mma_m16n8k8_tf32_A_fold(" in code


@pytest.mark.parametrize("dtype", ["f32", "f64", "e5m2"])
def test_a_source_may_hold_more_than_is_needed(dtype):
    elements = np.arange(32)[:, None]
    twice = Layout("twice", (1, 32), dtype, np.hstack([elements, elements ^ 1]))
    plan = regweave.rearrange(twice, Layout("once", (1, 32), dtype, elements ^ 3), "sm_80", "exchange")
    assert np.array_equal(plan.apply(twice.table), plan.destination.table)
    often = Layout("often", (1, 2), dtype, np.tile([[0, 1]], (2, 16)))
    plan = regweave.rearrange(often, Layout("once", (1, 2), dtype, [[1], [0]]), "sm_80", "exchange")
    assert np.array_equal(plan.apply(often.table), plan.destination.table)


@pytest.mark.parametrize("lanes", [1, 3, 16, 32])
def test_lanes_that_sit_out_touch_nobody_s_words(lanes):
    table = np.arange(lanes * 8).reshape(lanes, 8)
    source, destination = (Layout(n, (lanes, 8), "f16", t) for n, t in (("s", table), ("d", table[:, ::-1])))
    plan = regweave.rearrange(source, destination, "sm_80", "single-lane")
    assert np.array_equal(plan.apply(table), table[:, ::-1])


def test_steps_that_do_not_exist_are_refused():
    source = Layout("s", (8, 4), "f32", np.arange(32).reshape(32, 1))
    with pytest.raises(UnsupportedError, match="'steps' does not apply: no sequence of moves"):
        regweave.rearrange(source, replace(source, table=source.table * 5 % 32), strategy="steps")
    assert regweave.rearrange(C, A, strategy="steps").form == "steps"


def test_tables_of_addresses_are_looked_up_by_thread():
    rng = np.random.default_rng(0)
    within, crossing = rng.permutation(32), rng.integers(0, 2, 32)
    table = np.concatenate([within + 32 * crossing, within + 32 * (1 - crossing)])[:, None]
    source, destination = (
        Layout(n, (8, 8), "f32", t) for n, t in (("s", table), ("d", np.sort(table, axis=0)))
    )
    plan = regweave.rearrange(source, destination, "sm_80", "shared")
    assert np.array_equal(plan.apply(table), destination.table)


def test_warps_that_hold_the_same_wait_for_one_another():
    lanes = [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0), (0, 0)]
    source = Layout.linear("s", (8, 8), "f32", lane=lanes, item=[(0, 4)])
    destination = Layout.linear("d", (8, 8), "f32", lane=[(0, 4), *lanes[:4], (0, 0)], item=[(4, 0)])
    plan = regweave.rearrange(source, destination, "sm_80", "shared")
    assert np.array_equal(plan.apply(source.table), destination.table)


def test_rows_of_matrices_that_are_wanted_twice():
    lane, item = [(0, 4), (0, 8), (0, 0), (0, 1), (0, 2)], [(0, 0), (0, 16), (0, 0)]
    often = Layout.linear("d", (1, 32), "f64", lane=lane, item=item)
    lanes = [(0, 10), (0, 0), (0, 2), (0, 1), (0, 4)]
    once = Layout.linear("s", (1, 32), "f64", lane=lanes, item=[(0, 16)])
    for strategy in ("auto", "shared"):
        plan = regweave.rearrange(once, often, "sm_80", strategy)
        assert {candidate.strategy for candidate in plan.candidates} >= {"shared", "exchange"}
        assert np.array_equal(plan.apply(once.table), often.table)
