"""AMD GPUs: their generations, their matrix and dot instructions and fragments."""

from regweave.layouts import Layout
from regweave.machines.amd.generations import (
    GFX90A,
    GFX906,
    GFX908,
    GFX942,
    GFX950,
    GFX1100,
    GFX1100_W64,
    GFX1200,
    GFX1200_W64,
    INSTRUCTIONS,
    MACHINES,
)
from regweave.machines.ondemand import OnDemand

#: Layouts that belong to no matrix instruction.
LAYOUTS: OnDemand[Layout] = OnDemand({})
#: Beginnings of names that are left out, and why.
OUT_OF_SCOPE = {
    "v_smfmac": "its A operand is sparse (two of every four numbers are stored)",
    "v_swmmac": "its A operand is sparse (two of every four numbers are stored)",
}

__all__ = [
    "GFX90A",
    "GFX906",
    "GFX908",
    "GFX942",
    "GFX950",
    "GFX1100",
    "GFX1100_W64",
    "GFX1200",
    "GFX1200_W64",
    "INSTRUCTIONS",
    "LAYOUTS",
    "MACHINES",
    "OUT_OF_SCOPE",
]
