"""Convolutions of images whose channels lie side by side in memory."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.convolution.channels_last.choice import LastChoice, choose_last
    from regweave.convolution.channels_last.native import LastConvolution
    from regweave.convolution.channels_last.packing import pack_last

__all__ = ["LastChoice", "LastConvolution", "choose_last", "pack_last"]

__getattr__ = lazy_names(
    __name__,
    choice=("LastChoice", "choose_last"),
    native=("LastConvolution",),
    packing=("pack_last",),
)
