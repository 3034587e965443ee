"""Vector entries that AVX-512 writes in its own way: masks in k registers, powers of two as a scale.

Half vectors have a view of their own there, and need no mask.
"""

from __future__ import annotations

from regweave.machines.instructions import Instruction, Pattern
from regweave.machines.x86 import meanings

AVX512_ENTRIES: tuple[Instruction, ...] = (
    Instruction(
        "load_masked",
        (Pattern("d:v from:m lanes:k", "vmovups %=0{%2}{z}, %1", latency=7),),
        meanings.load_masked,
        "d = memory in the mask's lanes, 0 in the others; nothing is read there",
    ),
    Instruction(
        "broadcast_masked",
        (Pattern("d:v from:s lanes:k", "vbroadcastss %=0{%2}{z}, %1", latency=7),),
        None,
        "one element of memory in the mask's lanes, 0 in the others",
    ),
    Instruction(
        "store_masked",
        (Pattern("to:m a:v lanes:k", "vmovups %0{%2}, %1"),),
        meanings.store_masked,
        "memory = a in the mask's lanes; nothing is written in the others",
    ),
    Instruction(
        "select",
        (Pattern("d:v lanes:k x:v y:v", "vblendmps %=0{%1}, %3, %2", latency=1),),
        meanings.select,
        "d = x in the mask's lanes, y in the others",
    ),
    Instruction(
        "select_less",
        (Pattern("d:v a:v b:v|m|b x:v y:v ~t:k", ("vcmpps %=5, %1, %2, 17", "vblendmps %=0{%5}, %4, %3")),),
        meanings.select_less,
        "d = x where a < b, y elsewhere (also where unordered)",
    ),
    Instruction(
        "power_of_two_scale",
        (Pattern("d:v a:v n:v", "vscalefps %=0, %1, %2", latency=4),),
        meanings.power_of_two_scale,
        "d = a * 2^n for an integral n, |n| <= 252",
    ),
    Instruction(
        "fraction",
        (Pattern("d:v a:v", "vreduceps %=0, %1, 9", latency=4),),
        meanings.fraction,
        "d = a - floor(a), 0 for an infinite a",
    ),
    Instruction(
        "mask_from_count",
        (
            Pattern(
                "d:k n:r ~c:r ~m:r",
                (
                    "mov %=2:d, 16",
                    "cmp %1, %2",
                    "cmovb %+2, %1",
                    "mov %=3:d, -1",
                    "bzhi %+3:d, %+3:d, %2:d",
                    "kmovw %=0, %3:d",
                ),
                flags="lost",
            ),
        ),
        meanings.mask_from_count,
        "lanes below n, for 0 <= n < 2^31",
    ),
    Instruction(
        "load_half",
        (Pattern("d:v from:h", "vmovups %=0:y, %1", latency=7, throughput=0.5),),
        None,
        "lower half of d = memory, upper half 0",
    ),
    Instruction(
        "broadcast_half",
        (Pattern("d:v from:s", "vbroadcastss %=0:y, %1", latency=7, throughput=0.5),),
        None,
        "every lane of the lower half = one element of memory, upper half 0",
    ),
    Instruction(
        "fma_half",
        (Pattern("d:v a:v b:v", "vfmadd231ps %+0:y, %1:y, %2:y", latency=4, throughput=0.5),),
        None,
        "lower half of d = a * b + d, one rounding; upper half 0",
    ),
    Instruction(
        "load_mask",
        (Pattern("d:k from:w", "kmovw %=0, %1", latency=8),),
        None,
        "d = the mask in memory: one bit per lane",
    ),
    Instruction("mask_all", (Pattern("d:k", "kxnorw %=0, %=0, %=0"),), meanings.mask_all, "all lanes"),
    Instruction(
        "mask_and", (Pattern("d:k a:k b:k", "kandw %=0, %1, %2"),), meanings.mask_and, "lanes in both"
    ),
    Instruction(
        "mask_or", (Pattern("d:k a:k b:k", "korw %=0, %1, %2"),), meanings.mask_or, "lanes in either"
    ),
)
