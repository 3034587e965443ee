"""NVIDIA GPUs: their generations, their `mma` instructions and fragments."""

from regweave.layouts import Layout
from regweave.machines.nvidia.generations import MACHINES, SM_75, SM_80, SM_90A, SM_100A, SM_120
from regweave.machines.nvidia.instructions import INSTRUCTIONS
from regweave.machines.ondemand import OnDemand

#: Layouts that belong to no matrix instruction.
LAYOUTS: OnDemand[Layout] = OnDemand({})
#: Beginnings of names that are left out, and why.
OUT_OF_SCOPE: dict[str, str] = {}

__all__ = [
    "INSTRUCTIONS",
    "LAYOUTS",
    "MACHINES",
    "OUT_OF_SCOPE",
    "SM_75",
    "SM_80",
    "SM_90A",
    "SM_100A",
    "SM_120",
]
