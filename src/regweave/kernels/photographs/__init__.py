"""Kernels that filter 8-bit images as they lie in memory, in whole numbers."""

from regweave.kernels.photographs.kernel import (
    BAND,
    PhotographArguments,
    least_length,
    photograph_kernel,
    spare_registers,
)
from regweave.kernels.photographs.structure import ByteFilter

__all__ = [
    "BAND",
    "ByteFilter",
    "PhotographArguments",
    "least_length",
    "photograph_kernel",
    "spare_registers",
]
