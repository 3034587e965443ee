"""The text form means what the builder's calls mean."""

from __future__ import annotations

import pytest

from regweave.assembly.amd import Kernel, Part
from regweave.assembly.amd.text import parse_kernel
from regweave.errors import AssemblyError, RegweaveError
from regweave.machines.amd.assembly import GFX90A, GFX906, find_target

TEXT = """
kernel scale                       ; the name
workgroup 64 1 1
lds 256
argument x pointer
argument n u32                     // eight bytes on
reserve row s1 @ s2
vector offset, value
scalar base x2, count
variable quad

`s_load_dwordx2 %0, %kernarg, argument(x)` base
`s_load_dword %0, %kernarg, argument(n)` count
`v_mov_b32 %0.3, %row` quad with 0:v4
v_lshlrev_b32 offset, 2, thread_x
v_add_u32 offset, offset, quad.3
loop:
  global_load_dword value, offset, base
  v_mul_f32 value, 2.0, value
  global_store_dword offset, value, base
  s_sub_u32 count, count, 1
  s_cmp_lg_u32 count, 0
  s_cbranch_scc1 loop
"""


def built() -> Kernel:
    k = Kernel(GFX906, name="scale", workgroup=(64, 1, 1), lds_bytes=256)
    x, n = k.argument("x"), k.argument("n", "u32")
    row = k.reserve("row", "s1", "s2")
    offset, value = k.vector("offset"), k.vector("value")
    base, count = k.scalar("base", count=2), k.scalar("count")
    k.emit("s_load_dwordx2", base, "kernarg", x)
    k.emit("s_load_dword", count, "kernarg", n)
    quad = k.vector("quad", count=4)
    k.emit("v_mov_b32", Part(quad, 3), row)
    k.emit("v_lshlrev_b32", offset, 2, "thread_x")
    k.emit("v_add_u32", offset, offset, Part(quad, 3))
    k.label("loop")
    k.emit("global_load_dword", value, offset, base)
    k.emit("v_mul_f32", value, 2.0, value)
    k.emit("global_store_dword", offset, value, base)
    k.emit("s_sub_u32", count, count, 1)
    k.emit("s_cmp_lg_u32", count, 0)
    k.emit("s_cbranch_scc1", "loop")
    return k


def test_text_and_calls_make_the_same_kernel():
    assert parse_kernel(TEXT, GFX906).finish().text == built().finish().text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not name the kernel"),
        ("vector x", "begins with one kernel's name"),
        ("kernel a\nkernel b", "begins with one kernel's name.*line 2"),
        ("kernel a\nvector x\nlds 16", "'lds' stands behind"),
        ("kernel a\nlds many", "whole numbers"),
        ("kernel a\nlds 70000\nworkgroup 64\nvector x", "70000 bytes of LDS.*line 2: lds 70000"),
        ("kernel a\nworkgroup 99999\nvector x", "99999 x 1 x 1.*line 2: workgroup 99999"),
        ("kernel a-b\n\nvector x", "cannot be a kernel's name.*line 1: kernel a-b"),
        ("kernel a\nvector x, x", "declared twice"),
        ("kernel a\nvector x y", "is not a symbol"),
        ("kernel a\nvariable x, x", "not a new symbol"),
        ("kernel a\nreserve x s2 s8", "reserve NAME s2 @ s8"),
        ("kernel a\nreserve x s2 @ s7", "multiple of 2"),
        ("kernel a\naccumulation x x4", "no accumulation registers"),
        ("kernel a\nargument x short", "one of pointer"),
        ("kernel a\nvector x\n\nv_mov_b32 x, y", "no register is registered as 'y'.*line 4: v_mov_b32 x, y"),
        ("kernel a\nvariable x\nv_mov_b32 x, 0", "no register is registered as 'x'"),
        ("kernel a\nvector x\nv_mov_b32 x, argument(n)", "no argument 'n'"),
        ("kernel a\n`v_mov_b32 %1, 0` 3", "bound to nothing"),
    ],
)
def test_errors_tell_the_line(text, message):
    with pytest.raises(RegweaveError, match=message):
        parse_kernel(text, GFX906)


def test_settings():
    kernel = parse_kernel("kernel a\nworkgroup 8 8\noccupancy 4\nwaits manual\nv_mov_b32 v0, v0", GFX906)
    assert (kernel.workgroup, kernel.occupancy, kernel.waits) == ((8, 8, 1), 4, "manual")
    with pytest.raises(RegweaveError, match='"insert" or "manual"'):
        parse_kernel("kernel a\nwaits never\nv_nop", GFX906)


def test_targets_by_name():
    assert find_target("gfx90a") is GFX90A
    with pytest.raises(RegweaveError, match=r"'gfx1100'.*nearest: gfx90a, gfx906"):
        find_target("gfx1100")


def test_a_loop_that_never_writes_what_it_reads():
    with pytest.raises(AssemblyError, match=r"may read 'x' before it is written.*l\+0: v_add_f32 x, x, x"):
        parse_kernel("kernel a\nvector x\nl:\nv_add_f32 x, x, x\ns_branch l", GFX906).finish()
