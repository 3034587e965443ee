"""Moves go where both sides can have the same registers, and only there."""

from __future__ import annotations

import random

import numpy as np
import pytest

from regweave.assembly.amd import FinishedKernel, Kernel, Part
from regweave.assembly.amd.text import parse_kernel
from regweave.devices.emulator import run
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942, GcnMachine


def finish(text: str, machine: GcnMachine = GFX906) -> FinishedKernel:
    return parse_kernel(f"kernel k\n{text}", machine).finish()


def body(kernel: FinishedKernel) -> list[str]:
    return [line.strip() for line in kernel.body()]


def test_a_move_goes_where_its_source_ends():
    kernel = finish("vector x, y, z\nv_mov_b32 x, 1\nv_mov_b32 y, x\nv_mov_b32 z, y\nv_add_u32 z, z, z")
    assert body(kernel) == ["v_mov_b32 v0, 1", "v_add_u32 v0, v0, v0", "s_endpgm"]
    assert (kernel.moves_gone, kernel.instructions) == (2, 3)
    assert kernel.mix["vector"] == 2
    assert "; 1: v_mov_b32 y, x: both are v0" in "\n".join(kernel.body(annotate=True))


def test_a_keyword_is_a_source_like_any_other():
    kernel = finish("vector x\nv_mov_b32 x, thread_x\nv_add_u32 x, x, x")
    assert body(kernel)[0] == "v_add_u32 v0, v0, v0"


def test_pairs_go_as_a_whole():
    kernel = finish(
        "scalar p x2, q x2\ns_load_dwordx2 p, kernarg, 0\ns_mov_b64 q, p\ns_add_u32 q.0, q.0, q.1"
    )
    assert not any("s_mov_b64" in line for line in body(kernel))
    text = "vector p x2, q x2\nv_mov_b32 p.0, 1\nv_mov_b32 p.1, 2\nv_mov_b64 q, p\nv_add_u32 q.0, q.0, q.1"
    assert finish(text, GFX942).moves_gone == 1
    text = "accumulation p, q\nvector x\nv_accvgpr_write_b32 p, 1\nv_accvgpr_mov_b32 q, p\n"
    text += "v_accvgpr_read_b32 x, q"
    assert finish(text, GFX90A).moves_gone == 1


@pytest.mark.parametrize(
    "line",
    [
        "v_mov_b32 y, x\nv_add_u32 z, x, y\nv_add_u32 x, x, z\nv_add_u32 z, x, y",  # both live on
        "v_mov_b32_dpp y, x quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf\nv_add_u32 z, y, y",
        "v_mov_b32_sdwa y, x dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0\nv_add_u32 z, y, y",
        "v_not_b32 y, x\nv_add_u32 z, y, y",
        "`v_mov_b32 v0, v0`\nv_add_u32 z, x, v0",  # the author names one register twice
    ],
)
def test_what_is_more_than_a_move_stays(line):
    assert finish(f"vector x, y, z\nv_xor_b32 x, 3, thread_x\n{line}").moves_gone == 0


def test_lanes_that_are_switched_off_keep_what_they_had():
    kernel = finish(
        "vector x, y\nscalar saved x2\nv_mov_b32 y, 5\nv_mov_b32 x, 7\nv_cmp_gt_u32 vcc, 8, thread_x\n"
        "s_and_saveexec_b64 saved, vcc\nv_mov_b32 y, x\ns_mov_b64 exec, saved\nds_write_b32 y, y"
    )
    assert kernel.moves_gone == 0


def test_a_load_is_waited_for_where_it_is_read_not_where_it_was_moved():
    kernel = finish(
        "vector at, x, y\nscalar b x2\ns_load_dwordx2 b, kernarg, 0\nv_mov_b32 at, 0\n"
        "global_load_dword x, at, b\nv_mov_b32 y, x\nv_add_u32 at, at, 1\nv_add_u32 y, y, y\n"
        "ds_write_b32 at, y"
    )
    text = body(kernel)
    assert text[text.index("s_waitcnt vmcnt(0)") - 1].startswith("v_add_u32")


def moved(machine: GcnMachine, seed: int) -> tuple[Kernel, list[int]]:
    """Random arithmetic with many moves, and what each lane's results are for lane 0 and no input."""
    choose = random.Random(seed)
    k = Kernel(machine, name="k")
    base, at = k.scalar("base", count=2), k.vector("at")
    k.emit("s_load_dwordx2", base, "kernarg", k.argument("out"))
    k.emit("v_and_b32", at, 63, "thread" if machine.unified else "thread_x")
    k.emit("v_lshlrev_b32", at, 2, at)
    values = {k.vector(f"x{i}"): i for i in range(5)}
    for v, number in values.items():
        k.emit("v_mov_b32", v, number)
    pair = k.vector("pair", count=2)
    halves = [1, 2]
    for i in range(2):
        k.emit("v_mov_b32", Part(pair, i), halves[i])
    count = k.scalar("count")
    k.emit("s_movk_i32", count, 3)
    k.label("loop")
    rounds = []
    for _ in range(choose.randint(5, 25)):
        a, b, c = (choose.choice(list(values)) for _ in range(3))
        kind = choose.randrange(5)
        rounds.append((kind, a, b, c))
        if kind < 3:
            fresh = k.vector("fresh")
            k.emit("v_mov_b32", fresh, b)
            k.emit("v_mov_b32", a, fresh)
        elif kind == 3:
            k.emit("v_add_u32", a, b, c)
        else:
            k.emit("v_mov_b32", Part(pair, 0), Part(pair, 1))
            k.emit("v_add_u32", Part(pair, 1), Part(pair, 0), a)
    k.emit("s_sub_u32", count, count, 1)
    k.emit("s_cmp_lg_u32", count, 0)
    k.emit("s_cbranch_scc1", "loop")
    for _ in range(3):
        for kind, a, b, c in rounds:
            if kind < 3:
                values[a] = values[b]
            elif kind == 3:
                values[a] = (values[b] + values[c]) % 2**32
            else:
                halves = [halves[1], (halves[1] + values[a]) % 2**32]
    for number, v in enumerate([*values, Part(pair, 0), Part(pair, 1)]):
        k.emit("global_store_dword", at, v, base, modifiers=f"offset:{256 * number}")
    return k, [*values.values(), *halves]


@pytest.mark.parametrize("machine", [GFX906, GFX90A], ids=lambda m: m.name)
def test_what_is_computed_stays_the_same(machine):
    gone = 0
    for seed in range(20):
        kernel, wanted = moved(machine, seed)
        finished = kernel.finish()
        out = np.zeros((7, 64), np.uint32)
        run(finished, grid=(1, 1), arguments={"out": out})
        np.testing.assert_array_equal(out, np.repeat(np.array(wanted, np.uint32)[:, None], 64, 1))
        gone += finished.moves_gone
    assert gone > 20
