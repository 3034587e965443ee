"""Kernels whose waits are missing, too weak, or just strong enough."""

from dataclasses import replace

import numpy as np
import pytest

from regweave.devices.emulator import Program, run
from regweave.devices.emulator.program import read_steps
from regweave.errors import KernelError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942

HEAD = """
s_load_dwordx2 s[6:7], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v1, 2, v0
"""


def launch(body, machine=GFX906, size=64, x=None, lds=1024, head=HEAD):
    keywords = tuple((k.name, int(k.register[1:])) for k in machine.keywords if k.letter == "s")
    steps = read_steps((head + body + "\ns_endpgm").splitlines(), machine)
    empty = Program("trial", machine, (), lds, (("x", "pointer", 0),), 8, (size, 1, 1), 0, keywords, 16)
    x = np.arange(1024, dtype=np.uint32) if x is None else x
    run(replace(empty, steps=steps), grid=1, arguments={"x": x})
    return x


LOADS = """
global_load_dword v2, v1, s[6:7]
global_load_dword v3, v1, s[6:7] offset:256
WAIT
v_add_u32 v4, {}, {}
s_waitcnt vmcnt(0)
global_store_dword v1, v4, s[6:7]
"""


@pytest.mark.parametrize(
    ("wait", "register", "fine"),
    [
        ("s_waitcnt vmcnt(2)", "v2", False),
        ("s_waitcnt vmcnt(1)", "v2", True),
        ("s_waitcnt vmcnt(1)", "v3", False),
        ("s_waitcnt vmcnt(0)", "v3", True),
        ("s_waitcnt lgkmcnt(0)", "v2", False),
        ("s_waitcnt 0x0", "v3", True),
    ],
)
def test_vector_memory_arrives_in_order(wait, register, fine):
    body = LOADS.replace("WAIT", wait).format(register, register)
    if fine:
        assert launch(body)[5] == 2 * (5 if register == "v2" else 69)
        return
    offset = " offset:256" if register == "v3" else ""
    words = f"reads {register} before 'global_load_dword {register}, v1, s.6:7.{offset}' has brought it"
    with pytest.raises(KernelError, match=words):
        launch(body)


def test_stores_are_counted_too():
    body = """
    global_load_dword v2, v1, s[6:7]
    global_store_dword v1, v0, s[6:7] offset:512
    s_waitcnt vmcnt(1)
    v_add_u32 v2, v2, v2
    global_store_dword v1, v2, s[6:7]
    """
    assert launch(body)[7] == 14


SCALARS = """
s_load_dword s8, s[6:7], 0x4
ds_write_b32 v1, v0
ds_read_b32 v2, v1
WAIT
v_mov_b32 v3, {}
s_waitcnt lgkmcnt(0)
global_store_dword v1, v3, s[6:7]
"""


@pytest.mark.parametrize(
    ("count", "source", "fine"),
    [(0, "s8", True), (1, "s8", False), (0, "v2", True), (1, "v2", False), (2, "v2", False)],
)
def test_scalar_loads_come_in_no_order(count, source, fine):
    body = SCALARS.replace("WAIT", f"s_waitcnt lgkmcnt({count})").format(source)
    if fine:
        launch(body)
        return
    with pytest.raises(KernelError, match=f"reads {source} before"):
        launch(body)


def test_lds_is_in_order_whatever_scalar_loads_do():
    body = """
    ds_write_b32 v1, v0
    ds_read_b32 v2, v1
    ds_read_b32 v3, v1
    s_waitcnt lgkmcnt(1)
    v_mov_b32 v4, v2
    """
    launch(body)
    with pytest.raises(KernelError, match="reads v3 before"):
        launch(body + "v_mov_b32 v4, v3")


FLAT = """
v_mov_b32 v3, s7
v_add_co_u32 v2, vcc, s6, v1
v_addc_co_u32 v3, vcc, 0, v3, vcc
flat_load_dword v4, v[2:3]
WAIT
v_mov_b32 v5, v4
"""


@pytest.mark.parametrize("wait", ["vmcnt(0)", "lgkmcnt(0)", "vmcnt(0) lgkmcnt(0)"])
def test_flat_operations_belong_to_both(wait):
    body = FLAT.replace("WAIT", f"s_waitcnt {wait}")
    if len(wait.split()) == 2:
        launch(body)
        return
    with pytest.raises(KernelError, match="reads v4 before"):
        launch(body)


@pytest.mark.parametrize(
    ("line", "fine"),
    [
        ("v_mov_b32 v2, 0", False),
        ("ds_read_b32 v2, v1", False),
        ("global_load_dword v2, v1, s[6:7] offset:4", True),
    ],
)
def test_writing_to_what_is_under_way(line, fine):
    body = (
        f"ds_write_b32 v1, v0\nglobal_load_dword v2, v1, s[6:7]\n{line}\ns_waitcnt vmcnt(0)\nv_mov_b32 v3, v2"
    )
    if fine:
        launch(body)
        return
    with pytest.raises(KernelError, match=r"(writes|loads to) v2 before 'global_load_dword v2"):
        launch(body)


def test_lds_under_way_at_a_barrier():
    body = "ds_write_b32 v1, v0\ns_barrier"
    with pytest.raises(KernelError, match="before LDS operations of the wave have finished"):
        launch(body, size=128)
    launch(body.replace("s_barrier", "s_waitcnt lgkmcnt(0)\ns_barrier"), size=128)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        # a wave writes what another one has read, or several have
        ("ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\ns_barrier\nv_xor_b32 v2, 256, v1\nds_read_b32 v3, v1\n"
         "ds_write_b32 v2, v0", "another wave read in 'ds_read_b32 v3, v1'"),
        ("v_mov_b32 v2, 0\nv_cmp_eq_u32 vcc, 0, v0\ns_and_saveexec_b64 s[8:9], vcc\nds_write_b32 v2, v0\n"
         "s_mov_b64 exec, s[8:9]\ns_waitcnt lgkmcnt(0)\ns_barrier\nds_read_b32 v3, v2\n"
         "v_cmp_eq_u32 vcc, 64, v0\ns_and_saveexec_b64 s[8:9], vcc\nds_write_b32 v2, v0",
         "writes byte 0 of LDS, which another wave read"),
        # two waves write one place in one instruction
        ("v_and_b32 v2, 0xff, v1\nds_write_b32 v2, v2", "which another wave writes in 'ds_write_b32 v2, v2'"),
        # an atomic operation and a plain one
        ("v_mov_b32 v2, 0\nv_cmp_eq_u32 vcc, 0, v0\ns_and_saveexec_b64 s[8:9], vcc\nds_write_b32 v2, v2\n"
         "s_mov_b64 exec, s[8:9]\nds_add_u32 v2, v0", "another wave wrote"),
    ],
)  # fmt: skip
def test_races(body, words):
    with pytest.raises(KernelError, match=words):
        launch(body, size=128)


def test_atomic_operations_do_not_race():
    body = """
    v_mov_b32 v2, 0
    v_cmp_eq_u32 vcc, 0, v0
    s_and_saveexec_b64 s[8:9], vcc
    ds_write_b32 v2, v2
    s_mov_b64 exec, s[8:9]
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_add_u32 v2, v0
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_read_b32 v3, v2
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v3, s[6:7]
    """
    assert (launch(body, size=128)[:128] == 127 * 64).all()


@pytest.mark.parametrize("machine", [GFX906, GFX942])
def test_a_load_to_lds_that_nobody_waits_for(machine):
    load = "global_load_lds_dword v1, s[6:7]" if machine is GFX942 else "global_load_dword v1, s[6:7] lds"
    body = f"s_mov_b32 m0, 0\n{load}\nds_read_b32 v2, v1"
    with pytest.raises(KernelError, match=r"reads LDS before 'global_load_.*has brought it"):
        launch(body, machine)
    launch(body.replace("ds_read", "s_waitcnt vmcnt(0)\nds_read"), machine)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "s_mov_b64 exec, 1\nglobal_load_dwordx2 v[2:3], v1, s[6:7] offset:4092",
            "reads 8 bytes at .*byte 4092",
        ),
        (
            "v_mov_b32 v2, 0\ns_mov_b64 exec, 1\nglobal_store_dword v2, v0, s[0:1]",
            "writes to the arguments, which is constant",
        ),
        ("v_mov_b32 v2, 0\nglobal_atomic_add v2, v0, s[0:1]", "writes to the arguments, which is constant"),
    ],
)
def test_buffers(body, words):
    with pytest.raises(KernelError, match=words):
        launch(body)


@pytest.mark.parametrize("machine", [GFX906, GFX90A])
def test_clamping_scaling_and_signs(machine):
    body = """
    v_cvt_f32_u32 v2, v0
    v_add_f32 v3, v2, -4.0 clamp
    v_mul_f32 v4, v2, v2 mul:2
    v_add_f32 v3, v3, v4
    v_sub_f32 v4, |v2|, -v2 div:2
    v_add_f32 v3, v3, v4
    v_cvt_pkrtz_f16_f32 v5, v2, 1.0
    v_pk_add_f16 v5, v5, v5 neg_lo:[1,0] neg_hi:[0,1]
    v_cvt_f32_f16 v5, v5
    v_add_f32 v3, v3, v5
    global_store_dword v1, v3, s[6:7]
    """
    lane = np.arange(64, dtype=np.float32)
    wanted = np.clip(lane - 4, 0, 1) + 2 * lane * lane + lane
    assert np.array_equal(launch(body, machine)[:64].view(np.float32), wanted)


def test_a_comparison_leaves_zeros_for_lanes_that_are_off():
    body = """
    s_mov_b64 exec, 0xff
    v_cmp_lt_u32 s[8:9], v0, 100
    s_mov_b64 exec, -1
    v_mov_b32 v2, s8
    v_mov_b32 v3, s9
    global_store_dword v1, v2, s[6:7]
    global_store_dword v1, v3, s[6:7] offset:256
    """
    body = body.replace("v0, 100", "v0, v4").replace(
        "s_mov_b64 exec, 0xff", "v_mov_b32 v4, 100\ns_mov_b64 exec, 0xff"
    )
    x = launch(body)
    assert (x[0], x[64]) == (0xFF, 0)
