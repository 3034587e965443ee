"""Kernels that filter 8-bit images as they lie in memory, in whole numbers."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.kernels.photographs.arguments import (
        BAND,
        PhotographArguments,
        least_length,
        spare_registers,
    )
    from regweave.kernels.photographs.kernel import photograph_kernel
    from regweave.kernels.photographs.means import MeanArguments, MeanFilter, mean_filter_kernel
    from regweave.kernels.photographs.structure import ByteFilter

__all__ = [
    "BAND",
    "ByteFilter",
    "MeanArguments",
    "MeanFilter",
    "PhotographArguments",
    "least_length",
    "mean_filter_kernel",
    "photograph_kernel",
    "spare_registers",
]

__getattr__ = lazy_names(
    __name__,
    arguments=("BAND", "PhotographArguments", "least_length", "spare_registers"),
    kernel=("photograph_kernel",),
    means=("MeanArguments", "MeanFilter", "mean_filter_kernel"),
    structure=("ByteFilter",),
)
