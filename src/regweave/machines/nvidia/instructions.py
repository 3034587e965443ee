"""NVIDIA's matrix instructions by name and by mnemonic.

    >>> INSTRUCTIONS["mma.m16n8k8.tf32"].fragments["C"].element(5, 2)
    (9, 2)
    >>> INSTRUCTIONS.resolve("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
    'mma.m16n8k8.tf32'

A product of two fp8 operands can be written with `kind::f8f6f4` too; it is the same instruction.
"""

from __future__ import annotations

from itertools import chain

from regweave.machines.gpu import MatrixInstruction
from regweave.machines.nvidia.mma import mma_entries
from regweave.machines.nvidia.volta import volta_entries
from regweave.machines.nvidia.wgmma import wgmma_entries
from regweave.machines.ondemand import Entry, OnDemand


def _table() -> OnDemand[MatrixInstruction]:
    entries: dict[str, Entry[MatrixInstruction]] = {}
    aliases: dict[str, str] = {}
    for name, mnemonic, entry in chain(volta_entries(), mma_entries(), wgmma_entries()):
        assert name not in entries, name
        assert mnemonic not in aliases, mnemonic
        entries[name] = entry
        aliases[mnemonic] = name
        if mnemonic.startswith("mma.sync.aligned.m16n8k32.row.col.f") and name.split(".")[2] in _F8:
            aliases[mnemonic.replace(".col.", ".col.kind::f8f6f4.")] = name
    return OnDemand(entries, aliases)


_F8 = ("e4m3", "e5m2")
INSTRUCTIONS = _table()
