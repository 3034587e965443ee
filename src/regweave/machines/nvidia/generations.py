"""NVIDIA's generations, from Volta (known by its layouts only) to Blackwell.

Costs follow the arithmetic throughput table of the CUDA guides, in results per clock and multiprocessor:
64 for 32-bit logic, shifts, comparisons and selects on every generation here, 32 for warp shuffles and
for conflict-free 32-bit words of shared memory. A step at half the rate costs two issue slots. From Ampere
on the integer unit also packs two f32 into a register (F2FP, one instruction). Turing converts each one alone
on a unit of 16 results per clock (F2F, four slots) and permutes the two together. Integers are narrowed
to 16, 8 and 4 bits two at a time by I2IP, one of the conversions that the table gives 16 per clock.

    target               native packing of two f32                    shared memory of a block
    sm_75                -                                            64 KiB
    sm_80                F2FP f16, bf16                               163 KiB
    sm_86                F2FP f16, bf16                               99 KiB
    sm_89, sm_120        F2FP f16, bf16, e4m3, e5m2                   99 KiB
    sm_90a               F2FP f16, bf16, e4m3, e5m2                   227 KiB
    sm_100a, sm_120a     F2FP f16, bf16, e4m3, e5m2, e3m2, e2m3, e2m1 227 KiB, 99 KiB

The packings were read from SASS, where each is one instruction but for two: e2m1 comes as a byte that a
permute puts below what is there already, and its two halves take two more instructions to bytes of their
own (`e2m1b8`). So were the scaled addresses of shared memory (`STS.64 [R20.X8+0x108]`), which Hopper gave up
for addresses with a uniform register.
"""

from __future__ import annotations

from collections.abc import Mapping

from regweave.machines.gpu import StepCosts, WarpMachine
from regweave.machines.machine import RegisterClass
from regweave.machines.nvidia.instructions import INSTRUCTIONS
from regweave.machines.nvidia.movements import LAYOUTS

_COSTS = StepCosts(
    shuffle=2, select=1, permute=1, move=1, logic=1, test=1, convert=1, shared_store=2, shared_load=2
)
_NARROW_INTEGERS = {f"pack_{sign}{bits}": 4 for bits in (16, 8, 4) for sign in "su"}
_SMALL_COSTS = {"pack_e2m1": 2, "pack_e2m1b8": 4, **_NARROW_INTEGERS}
# two F2F at 16 per clock, one PRMT
_TURING_COSTS = {"pack_f16": 9, **_NARROW_INTEGERS}
# R255 reads as zero, so 255 can be handed out
_GENERAL = RegisterClass("general", "r", tuple(f"R{number}" for number in range(255)), 32)

_TURING = ("pack_f16", *_NARROW_INTEGERS)
_AMPERE = (*_TURING, "pack_bf16")
_ADA = (*_AMPERE, "pack_e4m3", "pack_e5m2")
_SMALL = (*_ADA, "pack_e3m2", "pack_e2m3", "pack_e2m1", "pack_e2m1b8")
_SHUFFLE = ("shuffle",)
_TRANSPOSE = ("shuffle", "movmatrix")
_SCALES = (4, 8, 16)


def _generation(
    name: str,
    title: str,
    shared_kilobytes: int,
    packings: tuple[str, ...],
    exchanges: tuple[str, ...] = _TRANSPOSE,
    opcode_costs: Mapping[str, int] = _NARROW_INTEGERS,
    shared_scales: tuple[int, ...] = (),
) -> WarpMachine:
    return WarpMachine(
        name=name,
        family="nvidia",
        title=title,
        lanes=32,
        classes=(_GENERAL,),
        costs=_COSTS,
        shuffle_widths=(2, 4, 8, 16, 32),
        packings=frozenset(packings),
        exchanges=frozenset(exchanges),
        shared_bytes=shared_kilobytes << 10,
        shared_banks=32,
        shared_widths=(4, 8, 16),
        instructions=INSTRUCTIONS.on(name),
        layouts=LAYOUTS.on(name),
        opcode_costs=opcode_costs,
        shared_scales=shared_scales,
    )


# kilobytes of shared memory that one block can have
SM_70 = _generation("sm_70", "NVIDIA Volta (V100)", 96, ("pack_f16",), _SHUFFLE, {"pack_f16": 9}, _SCALES)
SM_75 = _generation("sm_75", "NVIDIA Turing (RTX 20)", 64, _TURING, _TRANSPOSE, _TURING_COSTS, _SCALES)
SM_80 = _generation("sm_80", "NVIDIA Ampere (A100)", 163, _AMPERE, shared_scales=_SCALES)
SM_86 = _generation("sm_86", "NVIDIA Ampere (RTX 30)", 99, _AMPERE, shared_scales=_SCALES)
SM_89 = _generation("sm_89", "NVIDIA Ada (RTX 40, L40)", 99, _ADA, shared_scales=_SCALES)
SM_90A = _generation("sm_90a", "NVIDIA Hopper (H100, H200)", 227, _ADA)
SM_100A = _generation("sm_100a", "NVIDIA Blackwell (B200)", 227, _SMALL, opcode_costs=_SMALL_COSTS)
SM_120 = _generation("sm_120", "NVIDIA Blackwell (RTX 50)", 99, _ADA)
SM_120A = _generation(
    "sm_120a", "NVIDIA Blackwell (RTX 50), all of its features", 99, _SMALL, opcode_costs=_SMALL_COSTS
)

MACHINES = {
    machine.name: machine for machine in (SM_70, SM_75, SM_80, SM_86, SM_89, SM_90A, SM_100A, SM_120, SM_120A)
}
