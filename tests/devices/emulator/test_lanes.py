"""Instructions that move data between lanes, and those that look at one lane, against loops over lanes."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regweave.assembly.amd.text import parse_kernel
from regweave.devices.emulator import read_kernel, run
from regweave.devices.emulator.instructions.lanes import moves, swizzle
from regweave.devices.emulator.program import read_steps
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly import GFX90A, GFX906

VALUES = np.arange(64, dtype=np.uint32) * 0x01000193 + 5
HEAD = """
kernel lanes
argument x pointer
argument y pointer
scalar from x2, to x2
vector at, value, other, result
`s_load_dwordx2 %0, %kernarg, argument(x)` from
`s_load_dwordx2 %0, %kernarg, argument(y)` to
v_lshlrev_b32 at, 2, THREAD
global_load_dword value, at, from
global_load_dword other, at, from offset:256
v_mov_b32 result, 99
"""
TAIL = """
s_mov_b64 exec, -1
global_store_dword at, result, to
"""


def lanes(body, other=None, machine=GFX906):
    text = (HEAD + body + TAIL).replace("THREAD", "thread_x" if machine is GFX906 else "thread")
    x = np.concatenate([VALUES, np.zeros(64, np.uint32) if other is None else other]).astype(np.uint32)
    y = np.zeros(64, np.uint32)
    run(parse_kernel(text, machine).finish(), grid=1, arguments={"x": x, "y": y}, unwritten=["y"])
    return y


ROW = 16
CONTROLS = {
    "quad_perm:[1,0,3,2]": lambda i: i ^ 1,
    "quad_perm:[3,3,0,0]": lambda i: i // 4 * 4 + (3, 3, 0, 0)[i % 4],
    "row_shl:3": lambda i: i + 3 if i % ROW + 3 < ROW else None,
    "row_shr:5": lambda i: i - 5 if i % ROW >= 5 else None,
    "row_ror:4": lambda i: i // ROW * ROW + (i - 4) % ROW,
    "row_mirror": lambda i: i // ROW * ROW + 15 - i % ROW,
    "row_half_mirror": lambda i: i // 8 * 8 + 7 - i % 8,
    "wave_shl:1": lambda i: i + 1 if i < 63 else None,
    "wave_shr:1": lambda i: i - 1 if i else None,
    "wave_rol:1": lambda i: (i + 1) % 64,
    "wave_ror:1": lambda i: (i - 1) % 64,
    "row_bcast:15": lambda i: i // ROW * ROW - 1 if i // ROW % 2 else None,
    "row_bcast:31": lambda i: 31 if i >= 32 else None,
}


@pytest.mark.parametrize("control", CONTROLS)
def test_dpp(control):
    source = CONTROLS[control]
    found = lanes(f"v_mov_b32 result, value {control} row_mask:0xf bank_mask:0xf")
    wanted = [99 if source(i) is None else VALUES[source(i)] for i in range(64)]
    assert np.array_equal(found, np.array(wanted, np.uint32))


def test_dpp_with_masks_and_zeros():
    found = lanes("v_add_u32 result, value, other row_shr:1 row_mask:0x5 bank_mask:0xf bound_ctrl:0")
    for i in range(64):
        moved = 0 if i % ROW == 0 else VALUES[i - 1]
        assert found[i] == (moved if i // ROW % 2 == 0 else 99)


def test_dpp_from_a_lane_that_is_off():
    """It is as if there were no such lane."""
    body = "s_mov_b64 exec, 0xffff\nv_mov_b32 result, value {} row_mask:0xf bank_mask:0xf"
    assert lanes(body.format("wave_rol:1"))[15] == 99
    assert lanes(body.format("wave_rol:1 bound_ctrl:0").replace("0xf bank", "0xf bank"))[14] == VALUES[15]


def test_row_newbcast():
    found = lanes("v_mov_b32 result, value row_newbcast:3 row_mask:0xf bank_mask:0xf", machine=GFX90A)
    assert np.array_equal(found, VALUES[np.arange(64) // 16 * 16 + 3])


@settings(max_examples=8, deadline=None)
@given(numbers=st.lists(st.integers(0, 255), min_size=64, max_size=64))
def test_permutes(numbers):
    other = np.array(numbers, np.uint32)
    taken = (other // 4) % 64
    assert np.array_equal(lanes("ds_bpermute_b32 result, other, value", other), VALUES[taken])
    sent = np.zeros(64, np.uint32)
    for lane, target in enumerate(taken):
        sent[target] = VALUES[lane]
    assert np.array_equal(lanes("ds_permute_b32 result, other, value", other), sent)


def test_a_permute_from_a_lane_that_is_off_gives_zero():
    other = (np.arange(64) ^ 32).astype(np.uint32) * 4
    found = lanes("s_mov_b64 exec, 0xffffffff\nds_bpermute_b32 result, other, value", other)
    assert not found[:32].any()
    assert (found[32:] == 99).all()


@pytest.mark.parametrize(
    ("offset", "source"),
    [
        ("0x80b1", lambda i: i ^ 1),
        ("swizzle(QUAD_PERM,1,0,3,2)", lambda i: i ^ 1),
        ("swizzle(SWAP,8)", lambda i: i ^ 8),
        ("swizzle(REVERSE,16)", lambda i: i ^ 15),
        ("swizzle(BROADCAST,4,2)", lambda i: i // 4 * 4 + 2),
        ('swizzle(BITMASK_PERM,"01pip")', lambda i: i & ~31 | 8 | i & 4 | ~i & 2 | i & 1),
        ("0x401f", lambda i: i ^ 16),
    ],
)
def test_swizzle(offset, source):
    found = lanes(f"ds_swizzle_b32 result, value offset:{offset}")
    assert np.array_equal(found, VALUES[[source(i) for i in range(64)]])


def test_patterns_that_there_are_not():
    with pytest.raises(AssemblyError, match="swizzle mode"):
        swizzle(0xC100)
    with pytest.raises(AssemblyError, match="row_bcast:7 is unknown"):
        moves("row_bcast", "7")


def test_single_lanes():
    body = """
    v_readlane_b32 s20, value, 7
    v_writelane_b32 result, s20, 60
    s_mov_b64 exec, 0xff00
    v_readfirstlane_b32 s21, value
    v_mov_b32 result, s21
    """
    found = lanes(body)
    assert found[60] == VALUES[7]
    assert (found[8:16] == VALUES[8]).all()
    assert found[0] == 99


def test_counting_lanes():
    body = "v_mbcnt_lo_u32_b32 result, -1, 0\nv_mbcnt_hi_u32_b32 result, -1, result"
    assert np.array_equal(lanes(body), np.arange(64))


def test_parts_of_registers():
    parts = "dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:WORD_1"
    found = lanes(f"v_add_u32_sdwa result, value, value {parts}")
    assert np.array_equal(found, (99 & ~0xFF00) | ((VALUES & 255) + (VALUES >> 16) & 255) << 8)


def test_parts_with_their_sign():
    kernel = parse_kernel(
        (HEAD + "v_not_b32 result, value" + TAIL).replace("THREAD", "thread_x"), GFX906
    ).finish()
    signed = "v_mov_b32_sdwa \\1, sext(\\2) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0"
    lines = [re.sub(r"v_not_b32 (v\d+), (v\d+)", signed, line) for line in kernel.body()]
    program = replace(read_kernel(kernel), steps=read_steps(lines, GFX906))
    x, y = np.concatenate([VALUES, VALUES]), np.zeros(64, np.uint32)
    run(program, grid=1, arguments={"x": x, "y": y})
    assert np.array_equal(y, VALUES.astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32))


def test_halves():
    halves = VALUES.view(np.uint16).reshape(64, 2)
    found = lanes("v_pk_add_u16 result, value, value op_sel:[0,1] op_sel_hi:[0,0]").view(np.uint16)
    with np.errstate(over="ignore"):
        assert np.array_equal(found.reshape(64, 2)[:, 0], halves[:, 0] + halves[:, 1])
        assert np.array_equal(found.reshape(64, 2)[:, 1], halves[:, 0] + halves[:, 0])


def test_index_mode():
    body = """
    vector table x4
    v_mov_b32 table.0, 10
    v_mov_b32 table.1, 11
    v_mov_b32 table.2, 12
    v_mov_b32 table.3, value
    s_mov_b32 s20, 2
    s_set_gpr_idx_on s20, gpr_idx(SRC0)
    v_add_u32 result, table.0, 100
    s_set_gpr_idx_off
    s_mov_b32 s20, 1
    s_set_gpr_idx_on s20, gpr_idx(DST)
    v_mov_b32 table.0, result
    s_set_gpr_idx_off
    v_add_u32 result, table.1, table.2
    """
    assert (lanes(body.replace("v_add_u32 result, table.0, 100", "v_mov_b32 result, table.0")) == 24).all()


def test_scalar_registers_by_number():
    body = """
    scalar table x4, found
    s_mov_b32 table.0, 5
    s_mov_b32 table.1, 6
    s_mov_b32 table.2, 7
    s_mov_b32 table.3, 8
    s_mov_b32 m0, 2
    s_movrels_b32 found, table.0
    s_movreld_b32 table.0, 100
    s_add_u32 found, found, table.2
    v_mov_b32 result, found
    """
    assert (lanes(body) == 107).all()
