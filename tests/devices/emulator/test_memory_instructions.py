"""Loads, stores and atomic operations of every unit and width, against the bytes that they must move."""

import numpy as np
import pytest

from regweave.assembly.amd.text import parse_kernel
from regweave.devices.emulator import run
from regweave.errors import KernelError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942

HEAD = """
kernel memory
workgroup SIZE
lds 4096
argument x pointer
argument y pointer
scalar from x2, to x2, buffer x4
vector at, lane, value x4, other x2
`s_load_dwordx2 %0, %kernarg, argument(x)` from
`s_load_dwordx2 %0, %kernarg, argument(y)` to
s_mov_b32 buffer.0, from.0
s_mov_b32 buffer.1, from.1
s_mov_b32 buffer.2, 1000
s_mov_b32 buffer.3, 0x20000
v_and_b32 lane, 0x3ff, THREAD
v_lshlrev_b32 at, 4, lane
"""


def moved(body, x=None, machine=GFX906, size=64, **settings):
    text = (HEAD + body).replace("THREAD", "thread_x" if machine is GFX906 else "thread")
    x = np.arange(2048, dtype=np.uint32) * 0x9E3779B1 if x is None else x
    y = np.zeros(4 * 256, np.uint32)
    kernel = parse_kernel(text.replace("SIZE", str(size)), machine).finish()
    run(kernel, grid=1, arguments={"x": x.view(np.uint32), "y": y}, **settings)
    return x.view(np.uint32), y


@pytest.mark.parametrize("unit", ["global", "flat", "buffer"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_words(unit, count):
    name = f"dword{f'x{count}' if count > 1 else ''}"
    part = "value.0" if count == 1 else f"value.0:{count - 1}"
    loads = {
        "global": f"global_load_{name} {part}, at, from",
        "flat": "v_mov_b32 other.1, from.1\nv_add_co_u32 other.0, vcc, from.0, at\n"
        f"v_addc_co_u32 other.1, vcc, 0, other.1, vcc\nflat_load_{name} {part}, other",
        "buffer": f"s_mov_b32 buffer.2, 8192\nbuffer_load_{name} {part}, at, buffer, 0 offen",
    }
    x, y = moved(f"{loads[unit]}\nglobal_store_{name} at, {part}, to")
    assert np.array_equal(y[:256].reshape(64, 4)[:, :count], x[:256].reshape(64, 4)[:, :count])
    assert not y[:256].reshape(64, 4)[:, count:].any()


@pytest.mark.parametrize(
    ("name", "dtype"), [("ubyte", np.uint8), ("sbyte", np.int8), ("ushort", np.uint16), ("sshort", np.int16)]
)
@pytest.mark.parametrize("unit", ["global", "buffer"])
def test_narrow_loads(unit, name, dtype):
    line = f"{unit}_load_{name} value.0, at, "
    line += "from offset:6" if unit == "global" else "buffer, 0 offen offset:6"
    x, y = moved(f"s_mov_b32 buffer.2, 8192\n{line}\nglobal_store_dword at, value.0, to")
    wanted = x.view(dtype).reshape(-1, 16 // np.dtype(dtype).itemsize)[:64, 6 // np.dtype(dtype).itemsize]
    assert np.array_equal(y[:256:4], wanted.astype(np.int64).astype(np.uint32))


def test_halves_of_registers():
    body = """
    global_load_dword value.0, at, from
    v_mov_b32 value.1, 0
    global_load_short_d16_hi value.0, at, from offset:4
    global_load_sbyte_d16 value.1, at, from offset:9
    global_store_dword at, value.0, to
    global_store_short_d16_hi at, value.0, to offset:4
    global_store_byte at, value.1, to offset:8
    """
    x, y = moved(body)
    octets, found = x[:256].view(np.uint8).reshape(64, 16), y[:256].view(np.uint8).reshape(64, 16)
    assert np.array_equal(found[:, [0, 1, 2, 3, 4, 5, 8]], octets[:, [0, 1, 4, 5, 4, 5, 9]])


@pytest.mark.parametrize(("name", "count"), [("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)])
def test_lds_words(name, count):
    part = "value.0" if count == 1 else f"value.0:{count - 1}"
    body = f"""
    global_load_dwordx4 value, at, from
    ds_write_{name} at, {part} offset:16
    v_mov_b32 value.0, 0
    ds_read_{name} {part}, at offset:16
    global_store_dwordx4 at, value, to
    """
    x, y = moved(body)
    assert np.array_equal(y[:256], x[:256])


@pytest.mark.parametrize(
    ("name", "step"), [("2_b32", 4), ("2st64_b32", 256), ("2_b64", 8), ("2st64_b64", 512)]
)
def test_lds_pairs(name, step):
    wide = "64" in name[-3:]
    a, b = ("value.0:1", "value.2:3") if wide else ("value.0", "value.1")
    back = "value" if wide else "value.2:3"
    body = f"""
    global_load_dwordx4 value, at, from
    v_lshlrev_b32 lane, {3 if wide else 2}, lane
    ds_write{name} lane, {a}, {b} offset0:0 offset1:{64 if step < 256 else 1}
    ds_read{name} {back}, lane offset0:0 offset1:{64 if step < 256 else 1}
    global_store_dwordx4 at, value, to
    """
    x, y = moved(body)
    given, found = x[:256].reshape(64, 4), y[:256].reshape(64, 4)
    assert np.array_equal(found, given if wide else given[:, [0, 1, 0, 1]])


def test_lds_bytes_and_halves():
    body = """
    global_load_dword value.0, at, from
    ds_write_b32 at, value.0
    ds_write_b8 at, value.0 offset:5
    ds_write_b16_d16_hi at, value.0 offset:6
    ds_read_i8 value.1, at offset:5
    ds_read_u16 value.2, at offset:6
    v_mov_b32 value.3, 7
    ds_read_u8_d16_hi value.3, at offset:1
    global_store_dwordx4 at, value, to
    """
    x, y = moved(body)
    word, found = x[:256:4], y[:256].reshape(64, 4)
    assert np.array_equal(found[:, 1], word.astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32))
    assert np.array_equal(found[:, 2], word >> 16)
    assert np.array_equal(found[:, 3], 7 | (word >> 8 & 255) << 16)


@pytest.mark.parametrize("strict", [False, True])
def test_beyond_a_buffer(strict):
    """1000 bytes: lane 62 has two of its four words, lane 63 none."""
    body = "buffer_load_dwordx4 value, at, buffer, 0 offen\nglobal_store_dwordx4 at, value, to"
    if strict:
        with pytest.raises(KernelError, match="reaches beyond its buffer"):
            moved(body, strict_buffers=True)
        return
    x, y = moved(body)
    assert np.array_equal(y[:250], x[:250])
    assert not y[250:256].any()


def test_stores_beyond_a_buffer_are_dropped():
    body = """
    s_mov_b32 buffer.0, to.0
    s_mov_b32 buffer.1, to.1
    s_movk_i32 buffer.2, 40
    v_mov_b32 value.0, 5
    buffer_store_dword value.0, at, buffer, 4 offen offset:4
    """
    _, y = moved(body)
    assert list(np.flatnonzero(y)) == [2, 6]


def test_records_of_a_buffer():
    body = """
    s_or_b32 buffer.1, buffer.1, 0x100000
    s_movk_i32 buffer.2, 60
    buffer_load_dword value.0, lane, buffer, 0 idxen offset:12
    global_store_dword at, value.0, to
    """
    x, y = moved(body)
    assert np.array_equal(y[:240:4], x[3:243:4])
    assert not y[240:256].any()


def test_scalar_loads_through_a_buffer():
    body = """
    scalar words x4
    s_movk_i32 buffer.2, 24
    s_buffer_load_dwordx4 words, buffer, 16
    v_mov_b32 value.0, words.0
    v_mov_b32 value.1, words.1
    v_mov_b32 value.2, words.2
    v_mov_b32 value.3, words.3
    global_store_dwordx4 at, value, to
    """
    x, y = moved(body)
    assert list(y[:4]) == [x[4], x[5], 0, 0]


@pytest.mark.parametrize("machine", [GFX906, GFX90A])
def test_atomic_operations_take_turns(machine):
    body = """
    v_mov_b32 value.0, 3
    v_mov_b32 other.0, 0
    global_atomic_add other.0, value.0, to
    global_atomic_umax other.0, lane, to offset:4
    v_mov_b32 value.1, 0
    ds_write_b32 value.1, value.1
    s_barrier
    ds_add_rtn_u32 value.2, value.1, value.0
    v_lshrrev_b32 at, 2, at
    global_store_dword at, value.2, to offset:256
    """
    _, y = moved(body, machine=machine)
    assert y[0] == 3 * 64
    assert y[1] == 63
    assert np.array_equal(np.sort(y[64:128]), 3 * np.arange(64))


def test_atomics_that_return_and_compare():
    body = """
    v_mov_b32 other.0, 0
    v_mov_b32 value.0, lane
    v_mov_b32 value.1, 0
    global_atomic_add value.2, other.0, lane, to glc
    global_atomic_cmpswap value.3, other.0, value.0:1, to offset:4 glc
    v_lshrrev_b32 at, 2, at
    global_store_dword at, value.2, to offset:256
    global_store_dword at, value.3, to offset:512
    """
    _, y = moved(body)
    assert np.array_equal(y[64:128], np.cumsum(np.arange(64)) - np.arange(64))
    assert y[1] == 1  # lane 0 swapped 0 for 0, lane 1 swapped it for 1, and then nobody found 0
    assert list(y[128:131]) == [0, 0, 1]


def test_floats_and_wide_atomics():
    body = """
    v_mov_b32 other.0, 0
    v_mov_b32 value.0, 0.5
    global_atomic_add_f32 other.0, value.0, to
    v_mov_b32 value.0, -1
    v_mov_b32 value.1, 0
    global_atomic_add_x2 other.0, value.0:1, to offset:8
    """
    _, y = moved(body, machine=GFX90A)
    assert y[:1].view(np.float32)[0] == 32
    assert y[2:4].view(np.uint64)[0] == 64 * (2**32 - 1)


DIRECT = """
s_movk_i32 m0, 64
v_lshlrev_b32 lane, 2, lane
LOAD
WAIT
ds_read_b32 value.0, lane offset:80
global_store_dword lane, value.0, to
"""


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        (GFX906, "global_load_dword lane, from offset:16 lds"),
        (GFX90A, "buffer_load_dword lane, buffer, 0 offen offset:16 lds"),
        (GFX942, "global_load_lds_dword lane, from offset:16"),
    ],
)
def test_loads_to_lds(machine, line):
    body = DIRECT.replace("LOAD", line)
    x, y = moved(body.replace("WAIT", "s_waitcnt vmcnt(0)"), machine=machine)
    assert np.array_equal(y[:64], x[4:68])
    finished = parse_kernel(
        (HEAD + body.replace("WAIT", "")).replace("THREAD", "thread_x" if machine is GFX906 else "thread")
        .replace("SIZE", "64"), machine,
    ).finish()  # fmt: skip
    assert any("vmcnt(0)" in line for line in finished.body())


def test_all_waves_take_part():

    body = """
    v_mov_b32 other.0, 0
    v_mov_b32 value.0, 1
    global_atomic_add other.0, value.0, to
    """
    _, y = moved(body, size=256)
    assert y[0] == 256
