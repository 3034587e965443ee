"""Vector entries that AVX2 writes in its own way: masks are vectors of all ones or zeros.

The scale by a power of two is two factors, made with integer arithmetic: one could overflow.
"""

from __future__ import annotations

from regweave.machines.instructions import Instruction, Pattern
from regweave.machines.x86 import meanings

AVX2_ENTRIES: tuple[Instruction, ...] = (
    Instruction(
        "load_masked",
        (Pattern("d:v from:m lanes:v", "vmaskmovps %=0, %2, %1", latency=8),),
        meanings.load_masked,
        "d = memory in the mask's lanes, 0 in the others; nothing is read there",
    ),
    Instruction(
        "broadcast_masked",
        (Pattern("d:v from:s lanes:v", ("vbroadcastss %=0, %1", "vandps %=0, %+0, %2"), latency=8),),
        None,
        "one element of memory in the mask's lanes, 0 in the others",
    ),
    Instruction(
        "store_masked",
        (Pattern("to:m a:v lanes:v", "vmaskmovps %0, %2, %1"),),
        meanings.store_masked,
        "memory = a in the mask's lanes; nothing is written in the others",
    ),
    Instruction(
        "select",
        (Pattern("d:v lanes:v x:v y:v", "vblendvps %=0, %3, %2, %1", latency=3),),
        meanings.select,
        "d = x in the mask's lanes, y in the others",
    ),
    Instruction(
        "select_less",
        (
            Pattern("d:v a:v b:v|m x:v y:v ~t:v", ("vcmpps %=5, %1, %2, 17", "vblendvps %=0, %4, %3, %5")),
            Pattern(
                "d:v a:v b:b x:v y:v ~t:v",
                ("vbroadcastss %=5, %2", "vcmpps %+5, %1, %+5, 17", "vblendvps %=0, %4, %3, %5"),
            ),
        ),
        meanings.select_less,
        "d = x where a < b, y elsewhere (also where unordered)",
    ),
    Instruction(
        "power_of_two_scale",
        (
            Pattern(
                "d:v a:v n:v ~i:v ~h:v",
                (
                    "vcvtps2dq %=3, %2",
                    "vpsrad %=4, %3, 1",
                    "vpsubd %+3, %+3, %4",
                    "vpaddd %+4, %+4, %#0000007f",
                    "vpslld %+4, %+4, 23",
                    "vmulps %+4, %1, %+4",
                    "vpaddd %+3, %+3, %#0000007f",
                    "vpslld %+3, %+3, 23",
                    "vmulps %=0, %4, %3",
                ),
                latency=14,
            ),
        ),
        meanings.power_of_two_scale,
        "d = a * 2^n for an integral n, |n| <= 252",
    ),
    Instruction(
        "mask_from_count",
        (
            Pattern(
                "d:v n:r",
                ("vmovd %=0:x, %1:d", "vpbroadcastd %=0, %+0:x", "vpcmpgtd %=0, %+0, %#iota"),
            ),
        ),
        meanings.mask_from_count,
        "lanes below n, for 0 <= n < 2^31",
    ),
    Instruction(
        "load_mask",
        (Pattern("d:v from:m", "vmovups %=0, %1", latency=7),),
        None,
        "d = the mask in memory: one word per lane, all ones or zeros",
    ),
    Instruction("mask_all", (Pattern("d:v", "vpcmpeqd %=0, %=0, %=0"),), meanings.mask_all, "all lanes"),
    Instruction(
        "mask_and", (Pattern("d:v a:v b:v", "vandps %=0, %1, %2"),), meanings.mask_and, "lanes in both"
    ),
    Instruction(
        "mask_or", (Pattern("d:v a:v b:v", "vorps %=0, %1, %2"),), meanings.mask_or, "lanes in either"
    ),
)
