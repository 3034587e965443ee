"""Filters of photographs that are measured: 8 and 16 bits, 12 megapixels and one, colour and grey.

>>> FILTERS[0].name, FILTERS[0].bytes
('gaussian3 3000x4000x3', 72000000)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from regweave.convolution.separable import factors
from regweave.images.filters import ImageFilter, image_filter

_ROWS = 64


@dataclass(frozen=True)
class FilterCase:
    """A filter by name on an image [height, width, channels] of 8 or 16 bits that goes on as at its edge."""

    kind: ClassVar[str] = "filter"

    filter: str
    height: int
    width: int
    channels: int
    bits: int = 8

    @property
    def name(self) -> str:
        """For example `gaussian3 3000x4000x3`."""
        size = f"{self.height}x{self.width}x{self.channels}"
        return f"{self.filter} {size}" if self.bits == 8 else f"{self.filter} {size} {self.bits} bits"

    @property
    def bytes(self) -> int:
        """Image and result, each once."""
        return 2 * self.height * self.width * self.channels * self.bits // 8

    @property
    def flops(self) -> int:
        """Multiplications and additions with all weights that are not zero."""
        weights = int(np.count_nonzero(image_filter(self.filter).kernels))
        return 2 * weights * self.height * self.width * self.channels

    def data(self) -> FilterData:
        """The image, from a fixed seed."""
        shape = self.height, self.width, self.channels
        kind = np.uint8 if self.bits == 8 else np.uint16
        x = np.random.default_rng(self.height).integers(0, 1 << self.bits, shape, dtype=kind)
        return FilterData(self, x, image_filter(self.filter))


@dataclass(frozen=True, eq=False)
class FilterData:
    """A case's image [height, width, channels], C-contiguous, and its filter."""

    case: FilterCase
    x: np.ndarray[Any, np.dtype[np.uint8 | np.uint16]]
    chosen: ImageFilter

    @property
    def tolerance(self) -> float:
        """Two steps of 255 and a half: libraries round in their own ways, some twice."""
        return 2.5 / 255

    @property
    def plain(self) -> np.ndarray[Any, np.dtype[np.uint8 | np.uint16]]:
        """The image as libraries take it: a grey one has no axis of channels."""
        return self.x[:, :, 0] if self.case.channels == 1 else self.x

    @cached_property
    def factors(self) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] | None:
        """A column and a row of weights for each kernel, of which it is the product; None where it is not."""
        found = factors(self.chosen.kernels[:, None])
        height = self.chosen.kernels.shape[1]
        return None if found is None else [(pair[:height], pair[height:]) for pair in found]

    @cached_property
    def expected(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The exact result, rounded to even, in a type that differences fit into."""
        high, wide = self.chosen.kernels.shape[1:]
        around = ((high // 2, high // 2), (wide // 2, wide // 2), (0, 0))
        padded, out = np.pad(self.x, around, mode="edge"), np.empty(self.x.shape, np.int32)
        for first in range(0, len(out), _ROWS):
            part = padded[first : first + _ROWS + high - 1].astype(np.float64)
            found = [self._response(part, n) for n in range(len(self.chosen.kernels))]
            values = np.sqrt(np.square(found).sum(axis=0)) if self.chosen.magnitude else found[0]
            out[first : first + _ROWS] = np.clip(np.rint(values), 0, (1 << self.case.bits) - 1)
        return out

    def _response(self, part: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
        kernel = self.chosen.kernels[n].astype(np.float64)
        high, wide = kernel.shape
        rows, columns = part.shape[0] - high + 1, part.shape[1] - wide + 1
        total = np.zeros((rows, columns, part.shape[2]))
        if self.factors is not None:
            down = kernel.sum(axis=1) if kernel.sum() else kernel[:, -1]
            # the row of weights that belongs to this column of weights
            along = (kernel.T @ down) / (down @ down)
            below = np.zeros((rows, *part.shape[1:]))
            for i, weight in enumerate(down):
                below += weight * part[i : i + rows]
            for j, weight in enumerate(along):
                total += weight * below[:, j : j + columns]
            return total
        for i, j in np.argwhere(kernel):
            total += kernel[i, j] * part[i : i + rows, j : j + columns]
        return total


_NAMES = ("gaussian3", "gaussian5", "gaussian9", "box9", "box31", "laplacian", "sobel", "unsharp")
FILTERS = (
    *(FilterCase(name, 3000, 4000, channels) for channels in (3, 1) for name in _NAMES),
    *(FilterCase(name, 1000, 1000, 3) for name in _NAMES),
    FilterCase("gaussian11", 3000, 4000, 3),
    *(FilterCase(name, 3000, 4000, 3, 16) for name in ("gaussian5", "gaussian9", "box9", "box31")),
)
