"""Results that are a part of their register or of its lanes: what was there before lives on."""

from __future__ import annotations

import numpy as np
import pytest

from regweave.assembly.amd import Kernel, Part
from regweave.assembly.amd.masks import follow_masks
from regweave.assembly.amd.proof import prove_registers
from regweave.assembly.amd.text import parse_kernel
from regweave.devices import emulator
from regweave.errors import AssemblyError, RegisterError, VerificationError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942


def shared(
    template: str, *, machine=GFX906, first: int = 0x11223344, source: int = 0x55667788
) -> tuple[bool, int]:
    """Whether x, written by the template over an older x, shares its register with what lived in between; and
    what x is at the end."""
    k = Kernel(machine, name="k")
    x, y, z, out, at = k.vector("x"), k.vector("y"), k.vector("z"), k.scalar("out", count=2), k.vector("at")
    k.emit("s_load_dwordx2", out, "kernarg", k.argument("out"))
    k.emit("v_mov_b32", x, first)
    k.emit("v_mov_b32", y, source)
    k.emit("v_mov_b32", z, 0)
    k.emit("v_add_u32", y, z, y)
    k.emit_template(template, x, y, z)
    k.emit("v_lshlrev_b32", at, 2, "thread" if machine.unified else "thread_x")
    k.emit("global_store_dword", at, x, out)
    finished = k.finish()
    found = np.zeros(64, np.uint32)
    emulator.run(finished, grid=1, arguments={"out": found})
    assert (found == found[0]).all()
    return finished.registers[x] == finished.registers[y], int(found[0])


@pytest.mark.parametrize(
    ("template", "kept", "result"),
    [
        ("v_mov_b32_sdwa %0, %1 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD", True, 0x11228844),
        ("v_mov_b32_sdwa %0, %1 dst_sel:BYTE_1 src0_sel:BYTE_3", True, 0x11225544),
        ("v_mov_b32_sdwa %0, %1 dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:BYTE_3", False, 0x5500),
        ("v_mov_b32_sdwa %0, %1 dst_sel:DWORD src0_sel:BYTE_3", False, 0x55),
        ("v_mad_u16 %0, %1, 1, %2 op_sel:[0,0,0,1]", True, 0x77883344),
        ("v_mad_u16 %0, %1, 1, %2", True, 0x11227788),
        ("v_max3_u16 %0, %1, %2, %2 op_sel:[1,0,0,1]", True, 0x55663344),
        ("v_mad_legacy_u16 %0, %1, 1, %2", False, 0x7788),
        ("v_or_b32 %0, %1, %2", False, 0x55667788),
    ],
)  # fmt: skip
def test_a_partial_result_keeps_the_rest_alive(template, kept, result):
    assert shared(template) == (not kept, result)


def test_eight_bit_floats_go_into_one_half():
    both = 0x3F800000  # 1.0, which is 0x40 in fp8
    same, found = shared("v_cvt_pk_fp8_f32 %0, %1, %1 op_sel:[0,0,1]", machine=GFX942, source=both)
    assert (same, found) == (False, 0x40403344)


def test_the_half_that_nobody_wrote_is_seen():
    k = Kernel(GFX906, name="k")
    x, out, at = k.vector("x"), k.scalar("out", count=2), k.vector("at")
    k.emit("s_load_dwordx2", out, "kernarg", k.argument("out"))
    k.emit("v_lshlrev_b32", at, 2, "thread_x")
    k.emit("v_fma_f16", x, 1.0, 1.0, 1.0)
    k.emit("global_store_dword", at, x, out)
    found = np.zeros((64, 2), np.float16)
    emulator.run(k.finish(), grid=1, arguments={"out": found})
    assert (found[:, 0] == 2).all()
    assert np.isnan(found[:, 1]).all()


@pytest.mark.parametrize(("saved", "restored"), [((0, 2), (2, 2)), ((0, 2), (0, 2)), ((2, 2), (2, 2))])
def test_the_full_mask_is_in_one_pair_of_a_tuple(saved, restored):
    k = Kernel(GFX906, name="k")
    x, masks = k.vector("x"), k.scalar("masks", count=4)
    k.emit("v_cmp_eq_u32", "vcc", 5, "thread_x")
    for at in (0, 2):
        k.emit("s_mov_b64", Part(masks, at, 2), "vcc")
    k.emit("s_and_saveexec_b64", Part(masks, *saved), "vcc")
    k.emit("s_mov_b64", "exec", Part(masks, *restored))
    k.emit("v_mov_b32", x, 1)
    finished = k.finish()
    assert follow_masks(finished.program, finished.flow).full(5) == (saved == restored)


@pytest.mark.parametrize("threads", [64, 48, 96, 128])
def test_lanes_beyond_the_workgroup_may_be_switched_on(threads):
    k = Kernel(GFX906, name="k", workgroup=(threads, 1, 1))
    x, saved = k.vector("x"), k.scalar("saved", count=2)
    k.emit("s_mov_b64", saved, "exec")
    k.emit("v_mov_b32", x, 1)
    k.emit("s_mov_b64", "exec", -1)
    k.emit("v_mov_b32", x, 2)
    k.emit("s_mov_b64", "exec", saved)
    k.emit("v_mov_b32", x, 3)  # x is still 2 in the lanes beyond
    finished = k.finish()
    whole = threads % 64 == 0
    masks = follow_masks(finished.program, finished.flow)
    assert [masks.full(i) for i in range(6)] == [whole, whole, whole, True, True, whole]


def test_registers_that_are_not_followed_under_a_name_are_refused():
    for name in ("src_scc", "src_vccz", "src_execz", "lds_direct"):
        k = Kernel(GFX906, name="k")
        with pytest.raises(AssemblyError, match=f"'{name}' reads a register that is not followed"):
            k.emit("v_mov_b32", "v1", name)
    k.emit("s_mov_b64", "s[8:9]", "src_shared_base")
    assert "  s_mov_b64 s[8:9], src_shared_base" in k.finish().body()


def many(machine, number: int, **options) -> Kernel:
    """A kernel with so many vector registers alive at once."""
    k = Kernel(machine, name="k", **options)
    values = k.vectors("value", number)
    for value in values:
        k.emit("v_mov_b32", value, 0)
    for value in values:
        k.emit("ds_write_b32", value, value)
    return k


@pytest.mark.parametrize(
    ("machine", "options", "waves"),
    [
        (GFX906, {}, 10),
        (GFX906, {"lds_bytes": 9362}, 1),  # 9728 in steps of 512: six workgroups
        (GFX906, {"lds_bytes": 6553}, 2),  # 6656: nine, of one wave each
        (GFX906, {"lds_bytes": 512}, 10),
        (GFX906, {"workgroup": (128, 1, 1)}, 8),  # 16 barriers
        (GFX906, {"workgroup": (1024, 1, 1)}, 8),  # two workgroups of 16 waves
        (GFX90A, {"workgroup": (128, 1, 1)}, 8),
        (GFX90A, {"workgroup": (256, 1, 1), "lds_bytes": 16385}, 3),
    ],
)
def test_occupancy_is_of_whole_workgroups(machine, options, waves):
    assert many(machine, 4, **options).finish().occupancy == waves


def test_a_large_workgroup_fits_on_its_compute_unit():
    assert many(GFX906, 64, workgroup=(1024, 1, 1)).finish().occupancy == 4
    with pytest.raises(RegisterError, match="of 64 vector registers"):
        many(GFX906, 65, workgroup=(1024, 1, 1)).finish()
    with pytest.raises(RegisterError, match="of 128 vector registers"):
        many(GFX90A, 129, workgroup=(16, 64, 1)).finish()


LOOP = """kernel k
    scalar saved x2, inner x2, count
    vector x, t, u, at
    v_mov_b32 x, 0
    v_mov_b32 at, 3
    s_movk_i32 count, 3
    loop:
    v_mov_b32 u, 7
    v_add_u32 x, x, u
    v_cmp_gt_u32 vcc, 9, thread_x
    s_and_saveexec_b64 saved, vcc
    v_mov_b32 t, 5
    INNER
    v_add_u32 x, x, t
    RESTORE
    s_sub_u32 count, count, 1
    s_cmp_lg_u32 count, 0
    s_cbranch_scc1 loop
    ds_write_b32 at, x
    LAST
"""
RESTORE = "s_mov_b64 exec, saved"


@pytest.mark.parametrize(
    ("restore", "inner", "last", "alone"),
    [
        (RESTORE, "s_nop 0", "s_nop 0", False),
        ("s_or_b64 exec, exec, saved", "s_nop 0", "s_nop 0", False),
        ("s_mov_b64 exec, -1", "s_nop 0", "s_nop 0", False),
        # in the lanes of an inner mask t is another, in those that it leaves out the one before
        (RESTORE, "v_cmp_gt_u32 vcc, 4, thread_x\\ns_and_saveexec_b64 inner, vcc\\nv_mov_b32 t, 6\\n"
                  "s_mov_b64 exec, inner", "s_nop 0", False),
        # t is read where other lanes are on
        (RESTORE, "s_nop 0", "ds_write_b32 at, t", True),
        ("s_nop 0", "s_mov_b64 exec, saved", "s_nop 0", True),
        (RESTORE, "v_readlane_b32 s9, t, 40", "s_nop 0", True),
        # EXEC becomes who knows what
        (RESTORE, "s_mov_b64 exec, vcc\\nv_nop", "s_nop 0", True),
        (RESTORE, "s_not_b64 exec, exec\\nv_nop", "s_nop 0", True),
    ],
)  # fmt: skip
def test_a_temporary_of_a_masked_region_in_a_loop_shares_its_register(restore, inner, last, alone):
    text = LOOP.replace("RESTORE", restore).replace("INNER", inner.replace("\\n", "\n")).replace("LAST", last)
    kernel = parse_kernel(text, GFX906)
    kernel.emit("s_endpgm")
    finished = kernel.finish()
    runs = {variable.name: run for variable, run in finished.registers.items()}
    assert (runs["t"] != runs["u"]) == alone
    assert finished.used["vector"] == (5 if alone else 4)
    if not alone:
        return
    shared = {v: runs["u"] if v.name == "t" else run for v, run in finished.registers.items()}
    with pytest.raises(VerificationError, match=r"may hold (what was there before|register 0 of 'u')"):
        prove_registers(finished.program, finished.flow, shared, kernel.given)
