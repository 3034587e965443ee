"""`plan.apply` and `plan.verify`: values of any kind move as the plan says."""

import ml_dtypes
import numpy as np
import pytest

from regweave import layout, rearrange
from regweave.errors import InputError, UnsupportedError, VerificationError
from regweave.layouts import Layout, element_type
from regweave.rearrangement.proof import prove
from regweave.rearrangement.slots import items_of, registers_of, used_bits

PAIRS = [
    ("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", "sm_80"),
    ("mma.m8n8k4.f64:C", "mma.m8n8k4.f64:A", "sm_80"),
    ("mma.m16n8k32.s8:C@s8", "mma.m16n8k32.s8:A", "sm_80"),
    ("mma.m16n8k64.s4:C@s4", "mma.m16n8k64.s4:A", "sm_80"),
    ("mma.m16n8k16.f16:C@f16", "mma.m16n8k16.f16:B", "sm_80"),
    ("v_mfma_f32_16x16x16_f16:D@f16", "v_mfma_f32_16x16x16_f16:A", "gfx942"),
    ("wgmma.m64n8k8.tf32:D", "wgmma.m64n8k8.tf32:A", "sm_90a"),
]


def tile_on(tile, place):
    return tile.ravel()[place.table]


@pytest.mark.parametrize("strategy", ["direct", "lean"])
@pytest.mark.parametrize(("source", "destination", "machine"), PAIRS)
def test_values_move(source, destination, machine, strategy):
    plan = rearrange(source, destination, machine, strategy)
    assert plan.verify() is plan
    tile = np.random.default_rng(3).normal(size=plan.source.shape)
    found = plan.apply(tile_on(tile, plan.source))
    assert np.array_equal(found, tile_on(tile, plan.destination))


@pytest.mark.parametrize(
    ("dtype", "numbers", "kind"),
    [
        ("f16", "f32", np.float16),
        ("bf16", "f32", ml_dtypes.bfloat16),
        ("e4m3", "f32", ml_dtypes.float8_e4m3fn),
        ("e5m2", "f32", ml_dtypes.float8_e5m2),
        ("e3m2", "f32", ml_dtypes.float6_e3m2fn),
        ("e2m3", "f32", ml_dtypes.float6_e2m3fn),
        ("e2m1", "f32", ml_dtypes.float4_e2m1fn),
        ("e2m1b8", "f32", ml_dtypes.float4_e2m1fn),
        ("s16", "s32", np.int16),
        ("u16", "s32", np.uint16),
        ("s8", "s32", np.int8),
        ("u8", "s32", np.uint8),
        ("s4", "s32", ml_dtypes.int4),
        ("u4", "s32", ml_dtypes.uint4),
    ],
)
def test_values_are_narrowed_on_the_way(dtype, numbers, kind):
    source = layout("mma.m16n8k32.s8:C").retype(numbers).repeat(1, 4)
    plan = rearrange(source, layout("mma.m16n8k32.s8:A").retype(dtype), "sm_120a", "lean")
    rng = np.random.default_rng(5)
    if numbers == "f32":
        largest = float(ml_dtypes.finfo(kind).max)
        tile = rng.normal(size=plan.source.shape, scale=min(40, largest / 3)).astype(np.float32)
        wanted = np.clip(tile, -largest, largest).astype(kind).astype(np.float32)
    else:
        tile = rng.integers(-400, 400, plan.source.shape)
        bounds = ml_dtypes.iinfo(kind)
        wanted = np.clip(tile, bounds.min, bounds.max)
    found = plan.apply(tile_on(tile, plan.source))
    assert np.array_equal(found.astype(wanted.dtype), tile_on(wanted, plan.destination))


@pytest.mark.parametrize(
    ("dtype", "kind"), [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)]
)
def test_odd_values_are_narrowed(dtype, kind):
    values = np.array([[0.0, -0.0, np.nan, 1e9, -np.inf, 2.0**-9, -(2.0**-16), 3e-5]], dtype=np.float32)
    numbers = np.arange(8).reshape(1, 8)
    plan = rearrange(Layout("s", (1, 8), "f32", numbers), Layout("d", (1, 8), dtype, numbers), "sm_120")
    largest = float(ml_dtypes.finfo(kind).max)
    wanted = np.clip(values, -largest, largest).astype(kind).astype(np.float32)
    found = plan.apply(values)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.signbit(found[0, 1])


@pytest.mark.parametrize(
    ("dtype", "kind"), [("e4m3fnuz", ml_dtypes.float8_e4m3fnuz), ("e5m2fnuz", ml_dtypes.float8_e5m2fnuz)]
)
def test_types_without_special_values_are_narrowed(dtype, kind):
    largest = float(ml_dtypes.finfo(kind).max)
    values = np.array([[0.0, -0.0, np.nan, largest, -1e9, 0.9 * largest, 3e-5, -1.0]], dtype=np.float32)
    numbers = np.arange(8).reshape(1, 8)
    plan = rearrange(Layout("s", (1, 8), "f32", numbers), Layout("d", (1, 8), dtype, numbers), "gfx942")
    wanted = np.clip(values, -largest, largest).astype(kind).astype(np.float32)
    found = plan.apply(values)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert found[0, 3] == largest
    assert not np.signbit(found[0, 1])


@pytest.mark.parametrize("half", ["lo", "hi"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_that_have_registers_of_their_own_are_joined(dtype, half):
    source = f"v_wmma_f16_16x16x16_f16:D@{dtype}_{half}^T"
    plan = rearrange(source, f"v_wmma_f32_16x16x16_{dtype}:A", "gfx1100")
    tile = np.random.default_rng(7).integers(-99, 99, plan.source.shape)
    assert np.array_equal(plan.apply(tile_on(tile, plan.source)), tile_on(tile, plan.destination))


@pytest.mark.parametrize(
    ("source", "destination", "machine", "why"),
    [
        ("mma.m16n8k256.b1.xor:C", "mma.m16n8k256.b1.xor:A", "sm_80", r"for the kernel to say.*@b1"),
        ("mma.m16n8k16.f16:C", "mma.m16n8k32.s8:A", "sm_80", r"takes a scale.*@s8"),
        ("mma.m16n8k16.f16.f16:C", "mma.m16n8k8.tf32:A", "sm_80", r"wider elements would travel"),
        ("mma.m16n8k16.f16.f16:C", "mma.m16n8k32.e4m3:A", "sm_120", r"share registers already.*@e4m3"),
        ("mma.m8n8k4.f64:C", "mma.m16n8k8.tf32:A", "sm_80", r"no instruction does it"),
    ],
)
def test_what_is_no_narrowing_says_why(source, destination, machine, why):
    with pytest.raises(UnsupportedError, match=why):
        rearrange(source, destination, machine)


@pytest.mark.parametrize("strategy", ["shared", "exchange"])
def test_elements_in_several_slots_move(strategy):
    columns, rows = [(0, 1 << bit) for bit in range(5)], [(1 << bit, 0) for bit in range(4)]
    twice = Layout.linear("twice", (16, 32), "f32", lane=[*rows, (0, 0)], item=columns)
    once = Layout.linear("once", (16, 32), "f32", lane=columns, item=rows)
    plan = rearrange(twice, once, "sm_80", strategy)
    assert np.array_equal(plan.apply(twice.table), once.table)


def test_a_fold_moves_nothing():
    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", "sm_80", "fold")
    values = np.arange(128).reshape(32, 4)
    assert plan.apply(values)[1].tolist() == [4, 6, 5, 7]


def test_arrays_of_other_shapes_are_named():
    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", "sm_80")
    with pytest.raises(InputError, match=r"shape \(4, 32\).*\(32, 4\)"):
        plan.apply(np.zeros((4, 32)))
    refused = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", "sm_80", "refuse")
    with pytest.raises(UnsupportedError, match="nothing is moved"):
        refused.apply(np.zeros((32, 4)))
    assert refused.verify() is refused


def test_a_wrong_program_is_found():
    plan = rearrange("mma.m16n8k32.s8:C@s8", "mma.m16n8k32.s8:A", "sm_80", "direct")
    other = rearrange(plan.source, plan.source, "sm_80")
    with pytest.raises(VerificationError, match="lane 0 register 0 does not receive element"):
        prove(other.chosen.program, plan.relation)


@pytest.mark.parametrize("name", ["b1", "s4", "e4m3", "f16", "f32", "f64"])
def test_registers_hold_items(name):
    kind = element_type(name)
    rng = np.random.default_rng(1)
    bits = (
        rng.integers(0, 1 << kind.bits, (3, 7), dtype=np.uint64)
        if kind.bits < 64
        else rng.integers(0, 2**63, (3, 7), dtype=np.uint64)
    )
    registers = registers_of(bits, kind)
    assert np.array_equal(items_of(registers, kind, 7), bits)
    assert not np.any(registers & ~used_bits(7, kind))


def test_only_numbers_are_converted():
    plan = rearrange(Layout("s", (1, 2), "f32", [[0, 1]]), Layout("d", (1, 2), "f16", [[0, 1]]), "sm_80")
    assert plan.apply([[1e9, -np.inf]]).tolist() == [[np.inf, -np.inf]]
    assert plan.apply([[True, 1e300]]).tolist() == [[1.0, np.inf]]
    for values in ([["1", "2"]], [[1j, 2]], [[None, 1]], [[1], [2, 3]]):
        with pytest.raises(InputError, match=r"numbers of f32|different lengths"):
            plan.apply(values)
    whole = rearrange(
        Layout("s", (1, 4), "s32", [[0, 1, 2, 3]]), Layout("d", (1, 4), "s8", [[0, 1, 2, 3]]), "sm_80"
    )
    assert whole.apply([[1000, -1000, 3, 2**31 - 1]]).tolist() == [[127, -128, 3, 127]]
    for values in ([[1.5, 0, 0, 0]], [[2**31, 0, 0, 0]], [[np.nan, 0, 0, 0]]):
        with pytest.raises(InputError, match="numbers of s32"):
            whole.apply(values)
