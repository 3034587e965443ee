"""Images of 16-bit floats: bands of rows are widened, convolved in float32 and narrowed again.

    rows 0 .. 40 of the result   <-   image rows 0 .. 41, the top with its padding
    rows 41 .. 81                <-   image rows 40 .. 82, no padding above or below

Storage halves, sums do not: all products and additions are those of a float32 convolution. A band at a time
keeps what is widened in the caches, so memory beyond image and result stays at a band or two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from regweave.operators import Convolution

#: Bytes of a band in float32, image and result together; a single row of results may take more.
_BAND_BYTES = 1 << 20
#: Rows that a band has a multiple of where it can: no tile is higher.
_ROWS = 8

Compute = Callable[[Convolution, np.ndarray, np.ndarray], object]


def convolve_halves(c: Convolution, x: np.ndarray, y: np.ndarray, compute: Compute) -> None:
    """y = the convolution of x, both float16 [batch, channels, height, width], by a `compute` in float32."""
    rows = band_rows(c)
    for image, result in zip(x, y, strict=True):
        for first in range(0, c.vertical.outputs, rows):
            stop = min(first + rows, c.vertical.outputs)
            axis, lines = c.vertical.band(first, stop)
            wide = np.zeros((1, c.channels, axis.size, c.horizontal.size), np.float32)
            wide[0, :, : len(lines)] = image[:, lines.start : lines.stop]
            sums = np.empty((1, c.filters, stop - first, c.horizontal.outputs), np.float32)
            compute(replace(c, batch=1, vertical=axis), wide, sums)
            with np.errstate(over="ignore"):  # beyond 65504 is infinite, as everywhere in float16
                result[:, first:stop] = sums[0]


def band_rows(c: Convolution) -> int:
    """Rows of results that are computed together."""
    row = 4 * (c.channels * c.horizontal.size * c.vertical.stride + c.filters * c.horizontal.outputs)
    rows = max(1, _BAND_BYTES // row)
    return rows // _ROWS * _ROWS or rows
