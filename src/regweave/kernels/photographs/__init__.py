"""Kernels that filter 8-bit and 16-bit images as they lie in memory, in whole numbers.

`structure` describes a filter, `kernel` goes over the image; `rows` makes sums along a row, and down the
columns `columns` keeps them in registers, or `rolled` with `kept` in memory; `finishing` makes pixels of
them. Means of many pixels (`means`) are `running` sums, with `masked_means` or, on AVX2,
`narrow_means`.

Weights that are no whole numbers are multiplied in f32: `weighted` describes such a filter, `segments` goes
over the image by `lines`, and `floats` are its pixels.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.kernels.photographs.arguments import (
        BAND,
        PhotographArguments,
        band_rows,
        in_memory,
        least_length,
    )
    from regweave.kernels.photographs.kernel import photograph_kernel
    from regweave.kernels.photographs.means import MeanArguments, MeanFilter, mean_filter_kernel
    from regweave.kernels.photographs.segments import weighted_kernel
    from regweave.kernels.photographs.structure import ByteFilter
    from regweave.kernels.photographs.weighted import ROWS, SEGMENT, WeightedArguments, WeightedFilter

__all__ = [
    "BAND",
    "ROWS",
    "SEGMENT",
    "ByteFilter",
    "MeanArguments",
    "MeanFilter",
    "PhotographArguments",
    "WeightedArguments",
    "WeightedFilter",
    "band_rows",
    "in_memory",
    "least_length",
    "mean_filter_kernel",
    "photograph_kernel",
    "weighted_kernel",
]

__getattr__ = lazy_names(
    __name__,
    arguments=("BAND", "PhotographArguments", "band_rows", "in_memory", "least_length"),
    kernel=("photograph_kernel",),
    means=("MeanArguments", "MeanFilter", "mean_filter_kernel"),
    segments=("weighted_kernel",),
    structure=("ByteFilter",),
    weighted=("ROWS", "SEGMENT", "WeightedArguments", "WeightedFilter"),
)
