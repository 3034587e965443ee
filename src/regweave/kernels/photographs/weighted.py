"""Filters of any weights, in f32, of images of bytes, of 16-bit numbers and of f32 as they lie in memory.

An image's rows are done segment by segment, so that all that a segment needs stays near:

    line       a row's pixels, and what the kernel reaches beside them, as f32 (`lines`)
    ring       the last rows: these lines, or where the kernel is a column times a row of weights, the sums
               along them
    results    rows of the ring times weights, a few vectors at once; as the image's own type, rounded

Channels stay interleaved: the pixel beside is `channels` elements further. Beyond an image's edges tables
name other rows, and other elements of a row. The last segment ends with the row and does some elements again.

This module says what a filter is and what its kernel is called with; `segments` writes the kernel:

    void weighted(const WeightedArguments *args, size_t part)           part: the number of the band
"""

from __future__ import annotations

import ctypes
from typing import Literal

from regweave.values import frozen

Kind = Literal["u8", "u16", "f32"]

#: Fields of the arguments.
NAMES = ("rows", "outs", "length", "last", "borders", "keep", "weights")
#: Rows of the result in a band, elements of a segment.
ROWS, SEGMENT = 64, 256
#: Bytes of the stack for the ring.
_MOST_RING = 48 << 10
_FLOAT = 4


class WeightedArguments(ctypes.Structure):
    """What the kernel is called with.

    rows, outs   tables of addresses: of the image's rows from the first that is reached on, of the result's
    length       elements of a row, `SEGMENT` or more
    last         the first row of the last band: bands may overlap
    borders      table of elements of a row: what stands for those left of it, then right of it
    keep         all ones, or 0: then elements left and right of the rows are 0
    weights      f32: per response a column of weights and a row of them, or all rows of weights
    """

    _fields_ = tuple((name, ctypes.c_int64) for name in NAMES)


@frozen
class WeightedFilter:
    """A filter of images of a kind, each of its one or two responses `height` x `width` weights, or if
    `separable` a column and a row of them. One response may be its `magnitude`, of two the root of the sum of
    squares is taken."""

    kind: Kind
    channels: int
    height: int
    width: int
    responses: int = 1
    separable: bool = False
    magnitude: bool = False

    @property
    def left(self) -> int:
        """Elements that it reaches to the left."""
        return self.width // 2 * self.channels

    @property
    def right(self) -> int:
        """Elements that it reaches to the right."""
        return (self.width - 1) * self.channels - self.left

    @property
    def line(self) -> int:
        """Elements that a segment reads."""
        return SEGMENT + self.left + self.right

    @property
    def ring_row(self) -> int:
        """Bytes of a row of the ring."""
        size = SEGMENT * self.responses if self.separable else self.line
        return -(-size * _FLOAT // 64) * 64

    def fits(self) -> bool:
        """Whether the last rows find room on the stack, and what lies beside a segment in a segment."""
        room = self.ring_row * self.height + self.line * _FLOAT
        return room <= _MOST_RING and max(self.left, self.right) <= SEGMENT and self.responses <= 2
