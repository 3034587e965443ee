"""Work on the planes of an image, without products: enlarging, the largest of a window, sums of taps."""

from __future__ import annotations

import numpy as np

from regweave.values import frozen

#: Of a window: rows (each has its address in a register) and columns, at most.
_MOST_ROWS, _MOST_COLUMNS = 3, 7
#: Columns of windows that are so many apart.
_WIDTHS = {2: (2, 3), 4: (4,)}


@frozen
class Repeat:
    """Every pixel `vertical` times `horizontal` times: nearest neighbours at whole scales."""

    vertical: int = 1
    horizontal: int = 1

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the result."""
        return height * self.vertical, width * self.horizontal

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The result for images [..., height, width]."""
        return x.repeat(self.vertical, axis=-2).repeat(self.horizontal, axis=-1)


@frozen
class PixelShuffle:
    """`side` x `side` channels become the pixels of a square: DepthToSpace, pixels innermost (CRD)."""

    side: int

    @property
    def vertical(self) -> int:
        """Rows of the result for each of the image."""
        return self.side

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the result."""
        return height * self.side, width * self.side

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The result for images [batch, channels * side * side, height, width]."""
        batch, channels, height, width = x.shape
        apart = x.reshape(batch, -1, self.side, self.side, height, width).transpose(0, 1, 4, 2, 5, 3)
        return apart.reshape(batch, channels // self.side**2, *self.size(height, width))


@frozen
class Largest:
    """The maximum of a window of `kernel` rows and columns, `strides` apart.

    `pads` in the order of ONNX (top, left, bottom, right); what they add is below everything.
    """

    kernel: tuple[int, int]
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    strides: tuple[int, int] = (1, 1)

    @property
    def is_small(self) -> bool:
        """Whether kernels are made for such windows: of few rows, 1, 2 or 4 apart, with a pixel of the image
        in each."""
        (height, width), (top, left, bottom, right), (down, across) = self.kernel, self.pads, self.strides
        few = 1 <= height <= _MOST_ROWS and 1 <= width <= _MOST_COLUMNS and down in (1, 2, 4)
        few = few and (across == 1 or width in _WIDTHS.get(across, ()))
        return few and min(self.pads) >= 0 and max(top, bottom) < height and max(left, right) < width

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the result; none or fewer where the image is smaller than the window."""
        top, left, bottom, right = self.pads
        rows, columns = height + top + bottom - self.kernel[0], width + left + right - self.kernel[1]
        return rows // self.strides[0] + 1, columns // self.strides[1] + 1

    def band(self, first: int, last: int, height: int) -> tuple[Largest, int, int]:
        """For rows [first, last) of the result: this work on no more rows of the image than these need, and
        which rows these are."""
        top, left, _, right = self.pads
        low, high = first * self.strides[0] - top, (last - 1) * self.strides[0] - top + self.kernel[0]
        pads = (max(0, -low), left, max(0, high - height), right)
        return Largest(self.kernel, pads, self.strides), max(0, low), min(height, high)

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The result for images [..., height, width]."""
        top, left, bottom, right = self.pads
        around = (*((0, 0),) * (x.ndim - 2), (top, bottom), (left, right))
        padded = np.pad(x, around, constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.kernel, axis=(-2, -1))
        return windows[..., :: self.strides[0], :: self.strides[1], :, :].max(axis=(-2, -1))


@frozen
class EnlargedTaps:
    """A convolution of an image that is enlarged `scale` times by nearest neighbours, once its products are
    done on the small one: the sums of its taps.

    Of `side` x `side` planes, one for each tap of a window with as much padding on all sides, those pixels
    are added up that the enlarged window would meet, and an image of the result's size where there is one
    (`added`). `positive`: what is below zero becomes zero.
    """

    scale: int
    side: int
    added: bool = False
    positive: bool = False

    @property
    def vertical(self) -> int:
        """Rows of the result for each of the image."""
        return self.scale

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the result."""
        return height * self.scale, width * self.scale

    def offsets(self, phase: int) -> tuple[int, ...]:
        """How many rows (or columns) of the image each tap is away from the pixel that a result is of;
        `phase` counts the results that are of one pixel."""
        return tuple((phase + tap - self.side // 2) // self.scale for tap in range(self.side))

    def reference(self, x: np.ndarray, addend: np.ndarray | None = None) -> np.ndarray:
        """The result for images [batch, channels * side * side, height, width]."""
        reach = self.side // 2
        taps = x.reshape(x.shape[0], -1, self.side, self.side, *x.shape[2:])
        around = ((0, 0),) * 4 + ((reach, reach),) * 2
        taps = np.pad(taps.repeat(self.scale, axis=-2).repeat(self.scale, axis=-1), around)
        height, width = self.size(*x.shape[2:])
        total = np.zeros((*taps.shape[:2], height, width), x.dtype)
        for row in range(self.side):
            for column in range(self.side):
                total += taps[:, :, row, column, row : row + height, column : column + width]
        total = total if addend is None else total + addend
        return np.maximum(total, 0) if self.positive else total


PlaneWork = Repeat | Largest | PixelShuffle | EnlargedTaps
"""All of these."""
