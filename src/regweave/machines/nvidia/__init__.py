"""NVIDIA GPUs: their generations, their matrix instructions and fragments, their loads of matrices."""

from regweave.machines.nvidia.generations import (
    MACHINES,
    SM_70,
    SM_75,
    SM_80,
    SM_86,
    SM_89,
    SM_90A,
    SM_100A,
    SM_120,
    SM_120A,
)
from regweave.machines.nvidia.instructions import INSTRUCTIONS
from regweave.machines.nvidia.movements import LAYOUTS

_SPARSE = "products with 2:4 sparse A hold metadata beside the operands; ask for the dense instruction"
#: Beginnings of names that are left out, and why.
OUT_OF_SCOPE = {
    "mma.sp": _SPARSE,
    "wgmma.mma_async.sp": _SPARSE,
    "wgmma.sp": _SPARSE,
    "tcgen05.mma": "its operands are not in registers; ask for the layouts of tcgen05.ld and tcgen05.st",
    "wmma.": "wmma leaves its fragments unspecified; ask for the mma instruction that it stands for",
}

__all__ = [
    "INSTRUCTIONS",
    "LAYOUTS",
    "MACHINES",
    "OUT_OF_SCOPE",
    "SM_70",
    "SM_75",
    "SM_80",
    "SM_86",
    "SM_89",
    "SM_90A",
    "SM_100A",
    "SM_120",
    "SM_120A",
]
