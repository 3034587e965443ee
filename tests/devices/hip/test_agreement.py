"""Objects against their kernels: counts that are off, instructions that differ, reservations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regweave.assembly.amd import FinishedKernel
from regweave.assembly.amd.text import parse_kernel
from regweave.devices.hip import Agreement, assemble, check_object, read_counts
from regweave.devices.hip.agreement import compare_lines
from regweave.devices.hip.disassembler import unsupported_reason
from regweave.errors import AssemblyError, VerificationError
from regweave.kernels.amd import block_product, product_kernel
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942, TARGETS

pytest.importorskip("ziglang")

SUMS = """kernel k
lds 512
argument x pointer
vector at, quad x4
scalar base x2
s_load_dwordx2 base, kernarg, argument(x)
v_lshlrev_b32 at, 4, THREAD
global_load_dwordx4 quad, at, base offset:0
v_fma_f32 quad.0, -|quad.1|, 2.0, quad.3 clamp
v_mul_f32 quad.1, 3.5, quad.1
v_add_u32 quad.2, -200, quad.2
v_cmp_lt_f32 vcc, 0.5, quad.0
v_cndmask_b32 quad.0, 7, quad.0, vcc
v_add_f64 quad.0:1, quad.2:3, 4.0
ds_write_b64 at, quad.0:1 offset:64
s_cbranch_vccz end
global_store_dword at, quad.0, base
end:
"""


def kernel(machine) -> FinishedKernel:
    return parse_kernel(SUMS.replace("THREAD", "thread" if machine.unified else "thread_x"), machine).finish()


def made(kernel: FinishedKernel) -> bytes:
    return assemble(kernel.text, kernel.machine.target_id)


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_an_object_agrees_and_is_read_back(machine):
    k = kernel(machine)
    agreement = check_object(k, made(k))
    assert isinstance(agreement, Agreement)
    assert agreement.counts == read_counts(made(k), "k")
    if unsupported_reason(machine.name) is None:
        assert agreement.instructions == k.instructions


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
def test_the_block_products_agree_with_their_objects(machine, dtype):
    k = product_kernel(block_product(machine.name, dtype, columns=128))
    agreement = check_object(k, made(k))
    assert agreement.instructions in (None, k.instructions)
    assert all(k.used[name] <= k.bound[name] for name in k.used)  # the peak of what is live, no more


@pytest.mark.parametrize(
    ("field", "by", "message"),
    [
        ("vectors", -1, "the object has 8 vector registers .*expected 4"),
        ("vectors", 1, "the object has 5 vector registers in its metadata.*expected 6"),
        ("scalars", 1, "the object has 4 scalar registers.*expected 5"),
        ("scalars", -1, "the object has 4 scalar registers.*expected 3"),
        ("lds_bytes", 4, "the object has 512 bytes of LDS.*expected 516"),
    ],
)
def test_counts_that_are_off_by_one(field, by, message):
    k = kernel(GFX906)
    data = made(k)
    wrong = replace(k, demands=replace(k.demands, **{field: getattr(k.demands, field) + by}))
    with pytest.raises(VerificationError, match=message):
        check_object(wrong, data)


def test_a_register_beyond_what_is_declared():
    k = kernel(GFX906)
    wrong = replace(k, demands=replace(k.demands, vectors=k.demands.vectors - 1))
    with pytest.raises(VerificationError, match="an instruction touches v4, and 4 are declared"):
        check_object(wrong, made(wrong))


def test_an_instruction_that_is_another_one():
    k = kernel(GFX906)
    if unsupported_reason("gfx906") is not None:
        pytest.skip(str(unsupported_reason("gfx906")))
    other = assemble(k.text.replace("offset:64", "offset:68"), k.machine.target_id)
    with pytest.raises(VerificationError, match=r"as 'ds_write_b64 .*offset:68'.*offset:64"):
        check_object(k, other)


@pytest.mark.parametrize(
    ("ours", "theirs", "agree"),
    [
        ("v_mov_b32 v0, 3.5", "v_mov_b32_e32 v0, 0x40600000", True),
        ("v_mov_b32 v0, -200", "v_mov_b32_e32 v0, 0xffffff38", True),
        ("v_add_f64 v[0:1], v[2:3], 3.5", "v_add_f64 v[0:1], v[2:3], 0x400c0000", True),
        ("v_add_f16 v0, 3.5, v1", "v_add_f16_e32 v0, 0x4300, v1", True),
        ("v_mov_b32 v0, 3.5", "v_mov_b32_e32 v0, 0x40600001", False),
        ("v_mov_b32 v0, v1", "v_mov_b32_e32 v0, v2", False),
        ("s_branch .Lk_end", "s_branch 3", True),
        ("s_branch .Lk_end", "s_cbranch_scc0 3", False),
        ("ds_read_b32 v0, v1", "ds_read_b32 v0, v1 offset:4", False),
        ("ds_read_b32 v0, v1 offset:0", "ds_read_b32 v0, v1", True),
        (
            "v_mov_b32_dpp v2, v1 row_mirror",
            "v_mov_b32_dpp v2, v1 row_mirror row_mask:0xf bank_mask:0xf",
            True,
        ),
        (
            "v_mov_b32_dpp v2, v1 row_mirror row_mask:0x10",
            "v_mov_b32_dpp v2, v1 row_mirror row_mask:0x0",
            False,
        ),
        (
            "v_mov_b32_dpp v2, v1 quad_perm:[0,1,2,3] bound_ctrl:0",
            "v_mov_b32_dpp v2, v1 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf bound_ctrl:1",
            True,
        ),
        (
            "v_mov_b32_sdwa v1, v2 dst_sel:BYTE_1",
            "v_mov_b32_sdwa v1, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
            True,
        ),
        ("v_add_f32 v0, neg(v1), -abs(v2)", "v_add_f32_e64 v0, -v1, -|v2|", True),
        ("v_add_f32 v0, neg(v1), abs(v2)", "v_add_f32_e64 v0, -v1, -|v2|", False),
        ("global_load_dword v0, v1, off glc offset:8", "global_load_dword v0, v1, off offset:8 glc", True),
        ("global_load_dword v0, v1, off slc offset:8", "global_load_dword v0, v1, off offset:8 glc", False),
        ("s_waitcnt 0x0f70", "s_waitcnt vmcnt(0)", True),
        ("s_waitcnt vmcnt(0) & lgkmcnt(1)", "s_waitcnt vmcnt(0) lgkmcnt(1)", True),
        ("s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(1)", False),
    ],
)
def test_what_counts_as_the_same_instruction(ours, theirs, agree):
    if agree:
        assert compare_lines([ours, "end:"], [theirs], "k") == 1
    else:
        with pytest.raises(VerificationError, match="LLVM reads instruction 0 as"):
            compare_lines([ours], [theirs], "k")


def test_an_instruction_too_many():
    with pytest.raises(VerificationError, match=r"instruction 1 as 's_nop 0'.*expected nothing"):
        compare_lines(["s_endpgm"], ["s_endpgm", "s_nop 0"], "k")


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_nothing_is_reserved_for_xnack_and_the_name_says_so(machine):
    k = kernel(machine)
    assert f"{machine.name}:xnack-" in k.text
    assert ".amdhsa_reserve_xnack_mask 0" in k.text
    with pytest.raises(AssemblyError, match="xnack"):
        assemble(k.text.replace("xnack_mask 0", "xnack_mask 1"), machine.target_id)
    with pytest.raises(AssemblyError, match="target"):
        assemble(k.text, f"{machine.name}:xnack+")


@pytest.mark.parametrize("machine", [GFX90A, GFX942], ids=lambda m: m.name)
def test_accumulators_begin_at_a_multiple_of_four(machine):
    text = "kernel k\naccumulation acc x4\nvector p x2, x x5\n" + "".join(
        f"v_mov_b32 {name}, 0\n" for name in ("p.0", "p.1", *(f"x.{i}" for i in range(5)))
    )
    text += "v_mfma_f32_16x16x16f16 acc, p, p, 0\n" + "".join(f"ds_write_b32 p.0, x.{i}\n" for i in range(5))
    k = parse_kernel(text, machine).finish()
    assert k.used["vector"] == 7
    assert check_object(k, made(k)).counts.offset == 8
    with pytest.raises(AssemblyError, match="accum_offset"):
        assemble(k.text.replace("accum_offset 8", "accum_offset 7"), machine.target_id)
