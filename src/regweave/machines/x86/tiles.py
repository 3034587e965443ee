"""x86-64 vector registers as tiles, and the two machines as targets of rearrangements.

On AVX-512 one instruction picks any positions of two registers (`vpermt2ps`), which the exchange `pick`
stands for. AVX2 has fixed patterns within and across halves only (`unpcklps`, `shufps`, `vperm2f128`):
`pick_fixed`.
"""

from __future__ import annotations

from regweave.machines.gpu import MatrixInstruction, WarpMachine
from regweave.machines.ondemand import OnDemand
from regweave.machines.tiles import tile_layouts, vector_machine
from regweave.machines.x86.machine import AVX2, AVX512, VectorMachine


def _target(machine: VectorMachine, exchange: str) -> WarpMachine:
    vectors = machine.register_class("vector")
    layouts = tile_layouts(machine.name, machine.lanes, vectors.count)
    return vector_machine(machine.name, "x86", machine.title, machine.lanes, vectors, exchange, layouts)


MACHINES = {"avx512": _target(AVX512, "pick"), "avx2": _target(AVX2, "pick_fixed")}
INSTRUCTIONS: OnDemand[MatrixInstruction] = OnDemand({})
LAYOUTS = OnDemand({**MACHINES["avx512"].layouts.entries, **MACHINES["avx2"].layouts.entries})
OUT_OF_SCOPE: dict[str, str] = {}
