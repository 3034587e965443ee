"""Means over many pixels of 8 or 16 bits: sums that go down and along an image, as many steps for any size.

    down      V[q] += element of the row that comes in - element of the row that goes out
    beyond    V left and right of the row is V at other places of it, or 0
    along     P[q] = P[q - channels] + V[q]
    result    (P[e + (width - 1) channels] - P[e - channels]) / pixels, rounded

The sums along may overflow, their differences do not. A part of the work is a range of rows; its sums V and P
are memory of its own. This module says what a filter is and what its kernel is called with; `running` goes
through the rows.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import ClassVar

from regweave.assembly import Listing
from regweave.machines.x86 import VectorMachine
from regweave.values import frozen

#: Bytes of a line of the cache, of a sum of words and of one of 32 bits.
LINE, _WORD, _DOUBLE = 64, 2, 4
#: Elements that a vector may write behind the last one.
_SLACK = 64


class MeanArguments(ctypes.Structure):
    """What the kernel is called with, beside the number of the part.

    rows, outs    tables of addresses: of the image's rows from the first that is reached on, of the result's
    nought        address of a row of zeros
    length        elements of a row, `MeanFilter.least` or more
    count         rows of the result; `parts` share them
    borders       table of places in a row: what stands for the elements left of it, then right of it
    keep          all ones, or 0: then there are zeros left and right of the rows
    scratch       64-byte aligned, `step` bytes for each part: `MeanFilter.scratch_bytes`
    sums          `MeanFilter.sums`
    """

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "rows",
            "outs",
            "nought",
            "length",
            "count",
            "parts",
            "borders",
            "keep",
            "scratch",
            "step",
            "sums",
        )
    )


@frozen
class MeanFilter:
    """The mean of `height` x `width` pixels, an odd number below 16384, of bytes of up to 8 channels, or if
    `deep` of 16-bit numbers."""

    channels: int
    height: int
    width: int
    deep: bool = False

    #: Elements that a row must have.
    least: ClassVar[int] = 32

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return 2 if self.deep else 1

    @property
    def sum_bytes(self) -> int:
        """Bytes of a sum down the columns."""
        return _DOUBLE if self.deep else _WORD

    @property
    def left(self) -> int:
        """Elements that it reaches to the left."""
        return self.width // 2 * self.channels

    @property
    def right(self) -> int:
        """Elements that it reaches to the right."""
        return (self.width - 1) * self.channels - self.left

    def sums(self, length: int) -> int:
        """Bytes of the sums down the columns, whole cache lines."""
        return -(-self.sum_bytes * (length + self.left + self.right + _SLACK) // LINE) * LINE

    def scratch_bytes(self, length: int) -> int:
        """Bytes of memory of its own that a part needs, for rows of so many elements."""
        return self.sums(length) * (1 + _DOUBLE // self.sum_bytes) + LINE


@lru_cache(maxsize=32)
def mean_filter_kernel(filter: MeanFilter, machine: VectorMachine) -> Listing:
    """The kernel `void f(const MeanArguments *, size_t part)`."""
    # they build on this module
    if machine.name == "avx512":
        from regweave.kernels.photographs.masked_means import MaskedMeans

        return MaskedMeans(filter, machine).b.finish()
    from regweave.kernels.photographs.narrow_means import NarrowMeans

    return NarrowMeans(filter, machine).b.finish()
