"""x86-64 vector registers as tiles, and the machines as targets of rearrangements.

The exchange is `pick`: on AVX-512 any lanes of two registers (`vpermt2ps`), on AVX2 fixed patterns and any
lanes of one register. `avx512_vbmi` picks bytes as well.
"""

from __future__ import annotations

from regweave.machines.gpu import MatrixInstruction, WarpMachine
from regweave.machines.ondemand import OnDemand
from regweave.machines.picks import Picks
from regweave.machines.tiles import tile_layouts, vector_machine
from regweave.machines.x86.machine import AVX2, AVX512, AVX512_VBMI, VectorMachine
from regweave.machines.x86.picks import AVX2_PICKS, AVX512_PICKS, AVX512_VBMI_PICKS


def _target(machine: VectorMachine, picks: Picks) -> WarpMachine:
    vectors = machine.register_class("vector")
    layouts = tile_layouts(machine.name, machine.lanes, vectors.count)
    return vector_machine(machine.name, "x86", machine.title, machine.lanes, vectors, picks, layouts)


MACHINES = {
    machine.name: _target(machine, picks)
    for machine, picks in ((AVX512, AVX512_PICKS), (AVX512_VBMI, AVX512_VBMI_PICKS), (AVX2, AVX2_PICKS))
}
INSTRUCTIONS: OnDemand[MatrixInstruction] = OnDemand({})
LAYOUTS = OnDemand(
    {name: entry for machine in MACHINES.values() for name, entry in machine.layouts.entries.items()}
)
OUT_OF_SCOPE: dict[str, str] = {}
