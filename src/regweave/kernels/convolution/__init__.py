"""Kernels of convolutions: tiles of filters x rows x vectors, on the image itself or on strips of its
rows.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.kernels.convolution.arguments import (
        BlockEntry,
        ConvArguments,
        PlaneEntry,
        StripEntry,
        TileEntry,
    )
    from regweave.kernels.convolution.kernel import conv_kernel
    from regweave.kernels.convolution.paired import paired_bytes
    from regweave.kernels.convolution.rolling import rolling_bytes
    from regweave.kernels.convolution.rowpairs import Pairs, pairs
    from regweave.kernels.convolution.tile import ConvTile
    from regweave.kernels.convolution.transforms import Transform, transform

__all__ = [
    "BlockEntry",
    "ConvArguments",
    "ConvTile",
    "Pairs",
    "PlaneEntry",
    "StripEntry",
    "TileEntry",
    "Transform",
    "conv_kernel",
    "paired_bytes",
    "pairs",
    "rolling_bytes",
    "transform",
]

__getattr__ = lazy_names(
    __name__,
    arguments=("BlockEntry", "ConvArguments", "PlaneEntry", "StripEntry", "TileEntry"),
    kernel=("conv_kernel",),
    paired=("paired_bytes",),
    rolling=("rolling_bytes",),
    rowpairs=("Pairs", "pairs"),
    tile=("ConvTile",),
    transforms=("Transform", "transform"),
)
