"""NVIDIA's generations, from sm_75 (which has no tf32) to sm_120.

Costs follow the throughput table of the CUDA programming guide: 64 results per clock and
multiprocessor for integer, logic, select and byte-permute instructions, 32 for warp shuffles and
shared-memory words. A step that runs at half the rate costs two issue slots.
"""

from __future__ import annotations

from regweave.machines.gpu import StepCosts, WarpMachine
from regweave.machines.machine import RegisterClass
from regweave.machines.nvidia.instructions import INSTRUCTIONS

_COSTS = StepCosts(
    shuffle=2, select=1, permute=1, move=1, logic=1, test=1, convert=1, shared_store=2, shared_load=2
)
# R255 reads as zero, so 255 can be handed out
_GENERAL = RegisterClass("general", "r", tuple(f"R{number}" for number in range(255)), 32)


def _generation(name: str, title: str, shared_kilobytes: int, packings: set[str]) -> WarpMachine:
    return WarpMachine(
        name=name,
        family="nvidia",
        title=title,
        lanes=32,
        classes=(_GENERAL,),
        costs=_COSTS,
        shuffle_widths=(2, 4, 8, 16, 32),
        packings=frozenset(packings),
        exchanges=frozenset({"shuffle", "movmatrix"}),
        shared_bytes=shared_kilobytes << 10,
        shared_banks=32,
        shared_widths=(4, 8, 16),
        instructions=INSTRUCTIONS.on(name),
    )


_HALF = {"pack_f16"}
_BOTH = {"pack_f16", "pack_bf16"}

# kilobytes of shared memory that one block can have
SM_75 = _generation("sm_75", "NVIDIA Turing", 64, _HALF)
SM_80 = _generation("sm_80", "NVIDIA Ampere (A100)", 163, _BOTH)
SM_90A = _generation("sm_90a", "NVIDIA Hopper (H100, H200)", 227, _BOTH)
SM_100A = _generation("sm_100a", "NVIDIA Blackwell (B200)", 227, _BOTH)
SM_120 = _generation("sm_120", "NVIDIA Blackwell (RTX 50)", 99, _BOTH)

MACHINES = {machine.name: machine for machine in (SM_75, SM_80, SM_90A, SM_100A, SM_120)}
