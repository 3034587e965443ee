"""Kernels of convolutions whose channels lie side by side in memory: lanes are filters, or channels."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.kernels.channels_last.arguments import (
        BandEntry,
        FilterEntry,
        LastArguments,
        SpanEntry,
        WindowEntry,
    )
    from regweave.kernels.channels_last.kernel import last_kernel
    from regweave.kernels.channels_last.tiles import DenseTile, DepthTile

__all__ = [
    "BandEntry",
    "DenseTile",
    "DepthTile",
    "FilterEntry",
    "LastArguments",
    "SpanEntry",
    "WindowEntry",
    "last_kernel",
]

__getattr__ = lazy_names(
    __name__,
    arguments=("BandEntry", "FilterEntry", "LastArguments", "SpanEntry", "WindowEntry"),
    kernel=("last_kernel",),
    tiles=("DenseTile", "DepthTile"),
)
