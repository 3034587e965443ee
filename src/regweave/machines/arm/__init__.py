"""AArch64 processors: NEON registers as tiles, as far as rearrangements need.

`tbl` picks any bytes of two consecutive registers by a third, which the exchange `pick` stands for.
"""

from __future__ import annotations

from regweave.machines.gpu import MatrixInstruction
from regweave.machines.machine import RegisterClass
from regweave.machines.ondemand import OnDemand
from regweave.machines.picks import Picks
from regweave.machines.tiles import tile_layouts, vector_machine

# the low halves of v8 to v15 belong to the caller
_VECTORS = RegisterClass(
    "vector", "w", tuple(f"v{i}" for i in range(32)), 128, saved=frozenset(f"v{i}" for i in range(8, 16))
)
LAYOUTS = tile_layouts("neon", 4, _VECTORS.count)
NEON = vector_machine(
    "neon", "arm", "AArch64 with NEON", 4, _VECTORS, Picks(4, (), any_one=True, any_two=(1, 2, 4)), LAYOUTS
)
MACHINES = {"neon": NEON}
INSTRUCTIONS: OnDemand[MatrixInstruction] = OnDemand({})
OUT_OF_SCOPE: dict[str, str] = {}

__all__ = ["INSTRUCTIONS", "LAYOUTS", "MACHINES", "NEON", "OUT_OF_SCOPE"]
