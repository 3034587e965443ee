"""Convolutions that are measured: six that people have, with their data and a float64 reference.

    >>> CONVOLUTIONS[4].name, CONVOLUTIONS[4].flops
    ('5x5 1->1 4096x4096', 838860800)

The kernel of the fifth is an outer product of two vectors: a library that is told so may take one after
the other, and no other library is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

Planes = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class ConvolutionCase:
    """y = x * w, padded with zeros by `padding` on every side; one image, no bias."""

    kind: ClassVar[str] = "convolution"

    channels: int
    filters: int
    kernel: int
    height: int
    width: int
    stride: int = 1

    @property
    def padding(self) -> int:
        """As many places as keep the size at stride 1."""
        return self.kernel // 2

    @property
    def name(self) -> str:
        """For example `7x7/2 3->64 224x224`."""
        stride = f"/{self.stride}" if self.stride > 1 else ""
        return (
            f"{self.kernel}x{self.kernel}{stride} {self.channels}->{self.filters} {self.height}x{self.width}"
        )

    @property
    def out_shape(self) -> tuple[int, int, int, int]:
        """[1, filters, height, width] of the result."""
        sizes = [
            (size + 2 * self.padding - self.kernel) // self.stride + 1 for size in (self.height, self.width)
        ]
        return (1, self.filters, sizes[0], sizes[1])

    @property
    def flops(self) -> int:
        """Multiplications and additions, those with padding included."""
        return 2 * int(np.prod(self.out_shape)) * self.channels * self.kernel**2

    @property
    def bytes(self) -> int:
        """Image, weights and result, each once."""
        image = self.channels * self.height * self.width
        return 4 * (image + self.filters * self.channels * self.kernel**2 + int(np.prod(self.out_shape)))

    def data(self) -> ConvolutionData:
        """The arrays of this case, from a fixed seed."""
        random = np.random.default_rng(self.height * self.filters + self.kernel)
        x = random.standard_normal((1, self.channels, self.height, self.width), dtype=np.float32)
        rows = random.standard_normal((self.filters, self.channels, self.kernel, 1), dtype=np.float32)
        columns = random.standard_normal((self.filters, self.channels, 1, self.kernel), dtype=np.float32)
        weights = rows * columns / np.float32(self.kernel * self.channels**0.5)
        return ConvolutionData(self, x, weights)


@dataclass(frozen=True, eq=False)
class ConvolutionData:
    """The arrays of a case: float32, C-contiguous, [1, C, H, W] and [filters, C, kernel, kernel]."""

    case: ConvolutionCase
    x: Planes
    weights: Planes

    @cached_property
    def expected(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The result in float64: one product of matrices per tap, summed."""
        case = self.case
        padded = np.pad(self.x[0].astype(np.float64), ((0, 0), *[(case.padding, case.padding)] * 2))
        _, filters, height, width = case.out_shape
        total = np.zeros((filters, height * width))
        for row in range(case.kernel):
            for column in range(case.kernel):
                taps = padded[
                    :,
                    row : row + case.stride * height : case.stride,
                    column : column + case.stride * width : case.stride,
                ][:, :height, :width]
                total += self.weights[:, :, row, column].astype(np.float64) @ taps.reshape(case.channels, -1)
        return total.reshape(case.out_shape)


CONVOLUTIONS = (
    ConvolutionCase(3, 16, 3, 1080, 1920),
    ConvolutionCase(8, 8, 3, 1080, 1920),
    ConvolutionCase(3, 64, 7, 224, 224, stride=2),
    ConvolutionCase(64, 64, 3, 56, 56),
    ConvolutionCase(1, 1, 5, 4096, 4096),
    ConvolutionCase(32, 32, 3, 512, 512),
)
