"""NVIDIA GPUs: their generations, their `mma` instructions and fragments."""

from regweave.machines.nvidia.generations import MACHINES, SM_75, SM_80, SM_90A, SM_100A, SM_120
from regweave.machines.nvidia.instructions import INSTRUCTIONS

__all__ = [
    "INSTRUCTIONS",
    "MACHINES",
    "SM_75",
    "SM_80",
    "SM_90A",
    "SM_100A",
    "SM_120",
]
