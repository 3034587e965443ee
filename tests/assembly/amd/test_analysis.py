"""Live ranges of parts and under masks, lost comparisons, and the choice of registers."""

from __future__ import annotations

import pytest

from regweave.assembly.amd import Kernel, Part
from regweave.assembly.amd.text import parse_kernel
from regweave.errors import AssemblyError, RegisterError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942


def kernel(machine=GFX906, **options) -> Kernel:
    return Kernel(machine, name="k", **options)


def registers(k: Kernel) -> dict[str, str]:
    finished = k.finish()
    return {variable.name: run[0] for variable, run in finished.registers.items()}


def test_a_tuple_lives_from_its_first_part_on():
    k = kernel()
    before, quad, after = k.vector("before"), k.vector("quad", count=4), k.vector("after")
    k.emit("v_mov_b32", before, 1)
    k.emit("v_add_u32", after, before, before)
    for at in range(4):
        k.emit("v_mov_b32", Part(quad, at), after)
    for at in range(4):
        k.emit("v_add_u32", after, after, Part(quad, at))
    found = registers(k)
    assert found["before"] == found["after"] == "v0"  # quad is not alive up there
    assert found["quad"] == "v1"


def test_a_part_that_was_never_written_is_found():
    k = kernel()
    quad, sum_ = k.vector("quad", count=4), k.vector("sum")
    for at in (0, 1, 3):
        k.emit("v_mov_b32", Part(quad, at), 0)
    k.emit("v_add_u32", sum_, Part(quad, 2), Part(quad, 3))
    with pytest.raises(AssemblyError, match=r"may read 'quad' \(register 2 of 4\) before it is written"):
        k.finish()


def masked(restore: str) -> Kernel:
    """x = 0; where a lane's number is below 8, x = its double; then something else; then x is used."""
    k = kernel()
    x, t, saved, other = k.vector("x"), k.vector("t"), k.scalar("saved", count=2), k.vector("other")
    k.emit("v_mov_b32", x, 0)
    k.emit("v_cmp_gt_u32", "vcc", 8, "thread_x")
    k.emit("s_and_saveexec_b64", saved, "vcc")
    k.emit("v_mov_b32", t, 3)
    k.emit("v_add_u32", x, t, "thread_x")
    k.emit_line(restore)
    k.emit("v_mov_b32", other, 5)
    k.emit("v_add_u32", x, x, other)
    k.emit("ds_write_b32", other, x)
    return k


@pytest.mark.parametrize("restore", ["s_mov_b64 exec, saved", "s_or_b64 exec, exec, saved"])
def test_lanes_that_are_switched_off_keep_their_value(restore):
    found = registers(masked(restore))
    assert found["x"] not in (found["t"], found["thread_x"])  # x = 0 is alive while t and the sum are made


def test_behind_the_restored_mask_a_write_is_whole_again():
    k = masked("s_mov_b64 exec, saved")
    k.emit("v_mov_b32", k["other"], 1)
    finished = k.finish()
    live = {row.name: (row.first, row.last) for row in finished.register_map.rows}
    assert live["t"] == (3, 4)
    assert live["other"][0] == 6


def test_a_temporary_of_a_masked_region_does_not_live_outside():
    k = masked("s_nop 0")  # the mask is never restored
    live = {row.name: row.first for row in k.finish().register_map.rows}
    assert live["t"] == 3


@pytest.mark.parametrize("between", ["", "next:", "s_branch next\nnext:"])
def test_a_comparison_that_is_overwritten_in_a_later_block(between):
    text = f"""kernel k
        s_cmp_eq_u32 group_x, 0
        {between}
        s_add_u32 s5, group_x, 1
        s_cbranch_scc1 end
        end:"""
    with pytest.raises(AssemblyError, match=r"SCC is set by 's_cmp_eq_u32 .* and overwritten by 's_add_u32"):
        parse_kernel(text, GFX906).finish()
    parse_kernel(text.replace("s_cbranch_scc1", "s_branch"), GFX906).finish()  # nobody reads either


def test_a_comparison_that_is_overwritten_before_its_branch():
    k = kernel()
    i = k.scalar("i")
    k.emit("s_mov_b32", i, 0)
    k.label("loop")
    k.emit("s_cmp_lt_u32", i, 8)
    k.emit("s_add_u32", i, i, 1)
    k.emit("s_cbranch_scc1", "loop")
    with pytest.raises(
        AssemblyError, match=r"SCC is set by 's_cmp_lt_u32 i, 8' and overwritten by 's_add_u32"
    ):
        k.finish()


def test_a_comparison_in_vcc_that_is_overwritten():
    k = kernel()
    x, y = k.vector("x"), k.vector("y")
    k.emit("v_cmp_gt_u32", "vcc", 8, "thread_x")
    k.emit("v_add_co_u32", x, "vcc", "thread_x", "thread_x")
    k.emit("v_cndmask_b32", y, 0, x, "vcc")
    with pytest.raises(AssemblyError, match="VCC is set by"):
        k.finish()


def test_a_long_lived_low_register_does_not_split_the_pool_in_vain():
    """v0 stays, v1..v3 come and go, then two quads: they must still fit eight waves' 32 registers."""
    k = kernel(occupancy=8)
    keep = k.vector("keep")
    k.emit("v_mov_b32", keep, "thread_x")
    small = k.vectors("small", 15)
    for v in small:
        k.emit("v_mov_b32", v, 1)
    for v in small[::2]:
        k.emit("v_add_u32", keep, keep, v)
    quads = [k.vector(f"quad{i}", count=4) for i in range(5)]
    for quad in quads[:2]:
        k.emit("ds_read_b128", quad, keep)
    for v in small[1::2]:
        k.emit("v_add_u32", keep, keep, v)
    for quad in quads[2:]:
        k.emit("ds_read_b128", quad, keep)
    for quad in quads:
        for at in range(4):
            k.emit("v_add_u32", keep, keep, Part(quad, at))
    finished = k.finish()
    assert finished.used["vector"] <= 32
    assert finished.occupancy >= 8


def crowd(number: int, machine=GFX906, **options) -> Kernel:
    k = kernel(machine, **options)
    crowd = [k.vector(f"x{i}") for i in range(number)]
    for v in crowd:
        k.emit("v_mov_b32", v, 0)
    for v in crowd:
        k.emit("v_add_u32", crowd[0], crowd[0], v)
    return k


def test_what_runs_out_is_said_with_what_would_free_most():
    with pytest.raises(
        RegisterError,
        match=r"(?s)needs 30 of 24 vector registers.*x29.*to free most: "
        r"reload or recompute 'x0' \(1 registers, untouched from 0 to 30\)",
    ) as error:
        crowd(30, occupancy=10).finish()
    assert "defined at" in str(error.value)


def test_nothing_is_spilled_and_all_registers_can_be_used():
    assert crowd(256).finish().used["vector"] == 256
    with pytest.raises(RegisterError, match="needs 257 of 256"):
        crowd(257).finish()


def test_vector_and_accumulation_registers_share_what_an_occupancy_leaves():
    k = crowd(60, GFX90A, occupancy=4)
    acc = k.accumulation("acc", count=32)
    pair = k.vector("pair", count=2)
    for at in range(2):
        k.emit("v_mov_b32", Part(pair, at), 0)
    k.emit("v_mfma_f32_32x32x4_2b_f16", acc, pair, pair, 0)
    finished = k.finish()
    assert finished.used["accumulation"] == 32
    assert finished.occupancy >= 4
    k = crowd(110, GFX90A, occupancy=4)
    acc, pair = k.accumulation("acc", count=32), k.vector("pair", count=2)
    for at in range(2):
        k.emit("v_mov_b32", Part(pair, at), 0)
    k.emit("v_mfma_f32_32x32x4_2b_f16", acc, pair, pair, 0)
    with pytest.raises(
        RegisterError, match="110 vector and 32 accumulation registers, 144 of the shared file"
    ):
        k.finish()


def test_tuples_are_aligned_as_the_machine_wants():
    for machine, step in ((GFX906, 1), (GFX90A, 2), (GFX942, 2)):
        k = kernel(machine)
        one, pair = k.vector("one"), k.vector("pair", count=2)
        thread = "thread_x" if machine is GFX906 else "thread"
        k.emit("v_mov_b32", one, thread)
        k.emit("ds_read_b64", pair, one)
        k.emit("ds_write_b64", one, pair)
        finished = k.finish()
        run = next(run for variable, run in finished.registers.items() if variable is pair)
        assert int(run[0][1:]) % step == 0
        assert finished.used["vector"] == 3


def test_scalar_pairs_and_quads_are_aligned():
    k = kernel()
    one, pair, quad = k.scalar("one"), k.scalar("pair", count=2), k.scalar("quad", count=4)
    k.emit("s_load_dword", one, "kernarg", 0)
    k.emit("s_load_dwordx2", pair, "kernarg", 8)
    k.emit("s_load_dwordx4", quad, "kernarg", 16)
    k.emit("s_add_u32", one, one, Part(pair, 0))
    k.emit("s_add_u32", one, one, Part(quad, 0))
    found = registers(k)
    assert int(found["pair"][1:]) % 2 == 0
    assert int(found["quad"][1:]) % 4 == 0


def test_two_keywords_of_one_register_that_live_together_are_refused():
    k = kernel()
    k.reserve("tile", "s1", "s8")
    k.reserve("other", "s1", "s8")
    k.emit("s_mov_b32", "tile", 1)
    k.emit("s_mov_b32", "other", 2)
    k.emit("s_add_u32", "tile", "tile", "other")
    with pytest.raises(RegisterError, match="is pinned to s8 too"):
        k.finish()


def test_the_same_kernel_gets_the_same_text():
    assert crowd(40).finish().text == crowd(40).finish().text


def test_what_lies_out_of_line_is_no_inner_loop():
    k = kernel()
    x, i = k.vector("x"), k.scalar("i")
    k.emit("v_mov_b32", x, 1.0)
    k.emit("s_movk_i32", i, 4)
    k.emit("s_branch", "loop")
    k.label("rare")
    for _ in range(9):
        k.emit("v_add_f32", x, x, x)
    k.emit("s_branch", "back")
    k.label("loop")
    k.emit("s_cmp_eq_u32", i, 2)
    k.emit("s_cbranch_scc1", "rare")
    k.label("back")
    k.emit("v_fma_f32", x, x, x, x)
    k.emit("s_sub_u32", i, i, 1)
    k.emit("s_cmp_lg_u32", i, 0)
    k.emit("s_cbranch_scc1", "loop")
    k.emit("ds_write_b32", x, x)
    inner = k.finish().inner_loop()
    assert inner is not None
    assert (inner["instructions"], inner["fma_share"]) == (6, 1 / 6)
