"""One direction of a convolution: which places of the image each output reads.

    >>> a = Axis(224, 7, stride=2, before=3, after=3)
    >>> a.outputs, a.inside(0)            # the outputs whose first tap lies within the image
    (112, range(2, 112))

Output o reads, for tap k, the place `o * stride + k * dilation - before` of the image, if there is such a
place; a tap that falls into the padding adds nothing. From this follow the output's size, the outputs that
need no look at the border (`interior`), and everything that kernels do at one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regweave.values import frozen


@frozen
class Axis:
    """One direction: `size` places of the image, `kernel` taps `dilation` apart, outputs `stride` apart.

    `before` and `after` are the places of padding at either end.
    """

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def span(self) -> int:
        """Places from the first tap of an output to its last, both counted."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def outputs(self) -> int:
        """How many outputs there are; 0 or less where the padded image is shorter than the span."""
        return (self.size + self.before + self.after - self.span) // self.stride + 1

    @property
    def overlap(self) -> int:
        """Places that the spans of neighbouring outputs have in common; 0 where they do not meet."""
        return max(0, self.span - self.stride)

    def place(self, output: int, tap: int) -> int:
        """The place that `output` reads for `tap`; below 0, or `size` and above, it is padding."""
        return output * self.stride + tap * self.dilation - self.before

    def inside(self, tap: int) -> range:
        """The outputs whose `tap` lies within the image; empty (not reversed) where there are none."""
        shift = self.before - tap * self.dilation
        first = max(0, -(-shift // self.stride))
        end = min(self.outputs, (self.size - 1 + shift) // self.stride + 1)
        return range(min(first, max(0, self.outputs)), max(min(first, max(0, self.outputs)), end))

    @property
    def products(self) -> int:
        """Pairs of an output and a tap that lies within the image."""
        shifts = self.before - np.arange(self.kernel, dtype=np.int64) * self.dilation
        first = np.maximum(0, -(-shifts // self.stride))
        ends = np.minimum(self.outputs, (self.size - 1 + shifts) // self.stride + 1)
        return int(np.maximum(0, ends - first).sum())

    def taps(self, output: int) -> range:
        """The taps of `output` that lie within the image."""
        start = output * self.stride - self.before
        first = min(self.kernel, max(0, -(start // self.dilation)))
        end = max(0, min(self.kernel, (self.size - 1 - start) // self.dilation + 1))
        return range(first, max(first, end))

    def places(self, first: int, stop: int) -> tuple[int, int]:
        """The first place of the image that outputs `first` .. `stop - 1` read, and the one behind the last;
        both 0 where they read nothing but padding."""
        start = first * self.stride - self.before
        low, high = max(0, start), min(self.size, start + (stop - 1 - first) * self.stride + self.span)
        return (low, high) if low < high else (0, 0)

    def band(self, first: int, stop: int) -> tuple[Axis, range]:
        """The axis whose outputs are `first` .. `stop - 1` of this one, and the places that it reads.

        Where they read nothing but padding, the axis has one place, which must hold zeros.
        """
        start = self.place(first, 0)
        end = self.place(stop - 1, 0) + self.span
        low, high = self.places(first, stop)
        if low == high:
            return replace(self, size=1, before=0, after=end - start - 1), range(0)
        return replace(self, size=high - low, before=low - start, after=end - high), range(low, high)

    @property
    def interior(self) -> range:
        """The outputs all of whose taps lie within the image."""
        first, last = self.inside(0), self.inside(self.kernel - 1)
        start, end = max(first.start, last.start), min(first.stop, last.stop)
        return range(start, max(start, end))
