"""An unrolled f32 product for GCN in 2,000 instructions: 64 sums per work-item, operands from LDS.

    regweave asm demo/gcn_product.py --machine gfx906 --map product.html
    regweave asm demo/gcn_product.py --machine gfx906 --json | jq '.made_ms, .registers, .inner_loop'

Nothing is said of registers: 64 sums, two sets of operands that are loaded in turns, addresses and counters
are variables. The report says how many registers they took, and how few any assignment could do with.
"""

from regweave.assembly.amd import Kernel, Part

STEPS = 28


def kernel(machine):
    """The product for `machine`; STEPS steps of the sum in each round of its loop."""
    k = Kernel(machine, name="product", workgroup=(256, 1, 1), lds_bytes=16384)
    sums = k.vectors("sum", 64)
    left = [k.vector(f"left{i}", count=4) for i in range(4)]
    right = [k.vector(f"right{i}", count=4) for i in range(4)]
    at, count, base = k.vector("at"), k.scalar("count"), k.scalar("base", count=2)
    k.emit("v_lshlrev_b32", at, 4, "thread" if machine.unified else "thread_x")
    for v in sums:
        k.emit("v_mov_b32", v, 0)
    k.emit("s_movk_i32", count, 16)
    k.label("loop")
    for step in range(STEPS):
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
