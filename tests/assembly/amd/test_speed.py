"""A kernel of 2,000 instructions is analysed and assigned in under half a second."""

from __future__ import annotations

import time

from regweave.assembly.amd import FinishedKernel, Kernel, Part
from regweave.machines.amd.assembly import GFX906


def product(steps: int) -> Kernel:
    """An unrolled f32 product: 64 sums, operands from LDS."""
    k = Kernel(GFX906, name="product", workgroup=(256, 1, 1), lds_bytes=16384)
    sums = k.vectors("sum", 64)
    left = [k.vector(f"left{i}", count=4) for i in range(4)]
    right = [k.vector(f"right{i}", count=4) for i in range(4)]
    at, count, base = k.vector("at"), k.scalar("count"), k.scalar("base", count=2)
    k.emit("v_lshlrev_b32", at, 4, "thread_x")
    for v in sums:
        k.emit("v_mov_b32", v, 0)
    k.emit("s_movk_i32", count, 16)
    k.label("loop")
    for step in range(steps):
        mine, others = left[step % 2 :: 2], right[step % 2 :: 2]
        for i in range(2):
            k.emit("ds_read_b128", mine[i], at, modifiers=f"offset:{128 * step + 16 * i}")
            k.emit("ds_read_b128", others[i], at, modifiers=f"offset:{128 * step + 64 + 16 * i}")
        for i in range(8):
            for j in range(8):
                a, b = Part(mine[i // 4], i % 4), Part(others[j // 4], j % 4)
                k.emit("v_fmac_f32", sums[8 * i + j], a, b)
    k.emit("s_sub_u32", count, count, 1)
    k.emit("s_cmp_lg_u32", count, 0)
    k.emit("s_cbranch_scc1", "loop")
    k.emit("s_load_dwordx2", base, "kernarg", k.argument("out"))
    for i, v in enumerate(sums):
        k.emit("global_store_dword", at, v, base, modifiers=f"offset:{16 * i}")
    return k


def timed() -> tuple[float, FinishedKernel]:
    kernel = product(28)
    started = time.perf_counter()
    finished = kernel.finish()
    return time.perf_counter() - started, finished


def test_two_thousand_instructions_take_less_than_half_a_second():
    times, kernels = zip(*(timed() for _ in range(3)), strict=True)
    assert len(kernels[0].operations) > 2000
    assert min(times) < 0.5
    assert kernels[0].used == kernels[0].bound
    loop = kernels[0].inner_loop()
    assert loop is not None
    assert loop["fma_share"] > 0.9
