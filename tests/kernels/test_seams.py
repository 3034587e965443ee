"""Whole kernels of two products: right whatever the seam's strategy, and what their instructions say."""

import numpy as np
import pytest

from regweave.benchmarks.seam_kernels import SEAM_CASES, SeamCase, compare_seams
from regweave.devices import cuda, hip
from regweave.emitters import emit
from regweave.errors import InputError, UnsupportedError
from regweave.kernels.seams import seam_kernel
from regweave.machines.catalogue import find_machine
from regweave.programs import run_program
from regweave.programs.numbers import decode, encode, small_floats
from regweave.rearrangement import Conditions, NextOperand
from regweave.rearrangement.shared.banks import bank_conflicts

TF32, F16, S8, FP8 = "mma.m16n8k8.tf32", "mma.m16n8k16.f16", "mma.m16n8k32.s8", "mma.m16n8k32.e4m3"


def stored(tile, dtype):
    """The bytes of a row-major tile of whole numbers."""
    if dtype == "bf16":
        bits = encode(tile, "f32") >> np.uint32(16)
    elif dtype == "e4m3":
        table = small_floats(dtype)
        bits = np.array([np.flatnonzero(table == value)[0] for value in tile.ravel()])
    else:
        bits = encode(tile, "f32" if dtype == "tf32" else dtype)
    size = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "s8": 1, "e4m3": 1}[dtype]
    return np.ascontiguousarray(bits.astype(f"<u{size}")).view(np.uint8).reshape(-1).copy()


def numbers(rng, shape, least=-1, most=1, zeros=0.6):
    return rng.integers(least, most + 1, shape).astype(float) * (rng.random(shape) > zeros)


def check(kernel, *, activation=False):
    """The kernel's product against one of float64."""
    rng = np.random.default_rng(4)
    depth = kernel.width if kernel.operand == "A" else kernel.rows
    x, w1 = numbers(rng, (kernel.rows, kernel.inner)), numbers(rng, (kernel.width, kernel.inner))
    w2 = numbers(rng, (kernel.columns, depth))
    between = x @ w1.T
    if activation:
        between = np.maximum(between, 0)
    assert np.abs(between).max() <= 8, "exact in every type"
    wanted = between @ w2.T if kernel.operand == "A" else w2 @ between
    fragments = kernel.instruction.fragments
    kind = fragments["A"].dtype
    result = fragments["D"].element_type
    coming = kernel.plan.conditions.next_operand
    held = w2.T if coming.along == "n" else w2
    memories = {"x": stored(x, kind), "w1": stored(w1, kind), "w2": stored(held, kind)}
    memories["d"] = np.zeros(wanted.size * result.bits // 8, np.uint8)
    run_program(kernel.program, memories=memories)
    words = memories["d"].view("<u8" if result.bits == 64 else "<u4")
    bits = words.astype(np.uint64 if result.bits == 64 else np.uint32)
    assert np.array_equal(decode(bits, result.name).reshape(wanted.shape), wanted)


@pytest.mark.parametrize(
    ("instruction", "machine", "operand", "strategies"),
    [
        (TF32, "sm_80", "A", ["fold", "consumer", "direct", "lean", "whole-warp", "auto"]),
        (TF32, "sm_80", "B", ["producer", "exchange", "shared"]),
        (F16, "sm_80", "A", ["identity", "consumer", "shared"]),
        (F16, "sm_80", "B", ["producer", "exchange", "shared"]),
        ("mma.m16n8k16.bf16", "sm_80", "A", ["identity"]),
        (S8, "sm_80", "A", ["fold", "swap", "exchange", "shared"]),
        (S8, "sm_80", "B", ["producer", "exchange"]),
        (FP8, "sm_120", "A", ["fold", "exchange"]),
        ("mma.m8n8k4.f64", "sm_80", "A", ["fold", "consumer", "exchange", "shared"]),
        ("mma.m16n8k8.f64", "sm_90a", "A", ["fold", "swap"]),
        ("v_mfma_f32_32x32x8_f16", "gfx942", "A", ["producer", "exchange", "shared"]),
        ("v_mfma_f32_16x16x4_f32", "gfx942", "A", ["swap", "exchange"]),
        ("v_mfma_f32_16x16x4_f32", "gfx942", "B", ["fold", "consumer"]),
        ("v_mfma_f64_16x16x4_f64", "gfx90a", "A", ["swap"]),
        ("v_mfma_i32_16x16x16_i8", "gfx90a", "A", ["swap", "exchange", "shared"]),
        ("v_mfma_i32_16x16x32_i8", "gfx942", "B", ["fold", "swap", "exchange"]),
        ("v_mfma_f32_16x16x32_f16", "gfx950", "B", ["fold", "exchange"]),
        ("v_wmma_f32_16x16x16_f16", "gfx1100", "A", ["exchange", "shared"]),
        ("v_wmma_f32_16x16x16_f16_gfx12", "gfx1200", "B", ["fold", "swap"]),
    ],
)
def test_two_products(instruction, machine, operand, strategies):
    for strategy in strategies:
        kernel = seam_kernel(instruction, machine, strategy, operand=operand)
        check(kernel)
        assert kernel.program.kernel
        assert strategy in ("auto", kernel.plan.strategy, kernel.plan.form)


def test_work_between_the_products():
    for strategy in ("fold", "swap", "exchange"):
        kernel = seam_kernel(TF32, "sm_80", strategy, activation=True)
        check(kernel, activation=True)
        assert kernel.program.count()["arithmetic"] == 8
    with pytest.raises(UnsupportedError, match="no activation of f32"):
        seam_kernel(S8, "sm_80", activation=True)


@pytest.mark.parametrize("operand", ["A", "B"])
def test_folds_into_the_product_before(operand):
    promised = Conditions(order_promised=True, producer_free=True)
    instruction, machine = (TF32, "sm_80") if operand == "A" else ("v_mfma_f32_16x16x4_f32", "gfx942")
    kernel = seam_kernel(instruction, machine, "fold", operand=operand, conditions=promised)
    assert kernel.plan.form == "left"
    check(kernel)


@pytest.mark.parametrize("place", ["global", "shared"])
@pytest.mark.parametrize("along", ["k", "n"])
@pytest.mark.parametrize(
    ("instruction", "machine", "operand", "strategies"),
    [
        (TF32, "sm_80", "A", ["fold", "consumer", "auto"]),
        (F16, "sm_80", "A", ["identity", "fold"]),
        (S8, "sm_80", "A", ["fold", "swap"]),
        ("mma.m8n8k4.f64", "sm_80", "A", ["fold"]),
        ("v_mfma_f32_16x16x4_f32", "gfx942", "B", ["fold", "auto"]),
    ],
)
def test_the_other_operand_from_everywhere(instruction, machine, operand, strategies, place, along):
    """Right in every order of k and n that the plan chooses; of all, auto takes the fewest instructions."""
    coming = NextOperand(place, along, result_free=True)
    conditions = Conditions(producer_free=True, next_operand=coming)
    for strategy in strategies:
        kernel = seam_kernel(instruction, machine, strategy, operand=operand, conditions=conditions)
        check(kernel)
        load = kernel.plan.next_load
        if strategy == "auto":
            assert kernel.plan.cost.instructions == min(
                candidate.cost.instructions for candidate in kernel.plan.candidates if candidate.applies
            )
        assert (load.staged is None) == (place == "global")
        if place == "shared":
            assert bank_conflicts(load.program, kernel.plan.machine) == 0


def test_what_the_next_load_gains_in_a_whole_kernel():
    """s8: registers stay and lanes load whole words, because the product before is reordered for it."""
    fixed, free = (
        seam_kernel(S8, "sm_80", "fold", conditions=Conditions(producer_free=free)) for free in (False, True)
    )
    assert (fixed.plan.chosen.name, free.plan.chosen.name) == ("fold", "fold (both)")
    assert free.plan.next_load.widths == {8: 2}
    assert fixed.plan.next_load.widths == {2: 8}
    count = [sum(kernel.program.count().values()) for kernel in (free, fixed)]
    assert count[0] < count[1]


def test_a_fold_loads_no_more_than_an_exchange():
    fold, exchange = (seam_kernel(TF32, "sm_80", strategy).program for strategy in ("fold", "exchange"))
    assert fold.count()["global_load"] <= exchange.count()["global_load"]


def test_what_has_no_such_kernel():
    with pytest.raises(InputError, match="taken as 'C'"):
        seam_kernel(TF32, "sm_80", operand="C")
    with pytest.raises(UnsupportedError, match="no single product of A and B"):
        seam_kernel("v_mfma_f32_32x32x4_2b_f16", "gfx942")
    with pytest.raises(UnsupportedError, match="does not apply"):
        seam_kernel(TF32, "sm_80", "identity")


@pytest.mark.skipif(cuda.unsupported_reason() is not None, reason=str(cuda.unsupported_reason()))
@pytest.mark.parametrize("case", SEAM_CASES[:2], ids=lambda case: case.name)
def test_folds_and_swaps_take_no_more_instructions_than_exchanges(case):
    document = compare_seams([case])
    assert document["reached"], document["rows"]
    (row,) = document["rows"]
    assert row["instructions"]["fold"] < row["instructions"]["exchange"]


@pytest.mark.skipif(hip.unsupported_reason() is not None, reason=str(hip.unsupported_reason()))
@pytest.mark.parametrize("machine", ["gfx90a", "gfx942", "gfx950", "gfx1200"])
def test_swaps_on_amd_take_no_more_instructions_than_exchanges(machine):
    document = compare_seams([case for case in SEAM_CASES if case.machine == machine][:1])
    assert document["reached"], document["rows"]
    (row,) = document["rows"]
    assert row["instructions"]["swap"] < row["instructions"]["exchange"]


@pytest.mark.slow
@pytest.mark.skipif(cuda.unsupported_reason() is not None, reason=str(cuda.unsupported_reason()))
@pytest.mark.skipif(hip.unsupported_reason() is not None, reason=str(hip.unsupported_reason()))
def test_all_kernels_of_all_targets():
    document = compare_seams()
    assert document["reached"], [row for row in document["rows"] if row["missed"]]


@pytest.mark.skipif(cuda.unsupported_reason() is not None, reason=str(cuda.unsupported_reason()))
def test_nothing_goes_to_local_memory():
    for strategy in ("fold", "swap", "exchange", "shared"):
        program = seam_kernel(TF32, "sm_80", strategy).program
        (listing,) = cuda.inspect(emit(program, "cuda"), "sm_80", program.name)
        assert listing.count("local") == 0
        assert listing.count("matrix") == 6


def test_cases_are_native():
    for case in SEAM_CASES:
        assert isinstance(case, SeamCase)
        assert find_machine(case.machine).native(case.instruction)
