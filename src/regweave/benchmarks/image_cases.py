"""Colours of photographs that are measured: 12 megapixels times a 3 x 4 matrix, from and to bytes and f32.

>>> IMAGES[0].name, IMAGES[0].bytes
('u8 3->3 3000x4000', 72000048)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

_TYPES = {"u8": np.dtype(np.uint8), "f32": np.dtype(np.float32)}


@dataclass(frozen=True)
class ImageCase:
    """y[p] = matrix[:, :3] @ x[p] + matrix[:, 3], rounded and clamped where `dtype` is u8."""

    kind: ClassVar[str] = "image"

    dtype: str
    height: int
    width: int
    channels: int = 3
    results: int = 3

    @property
    def name(self) -> str:
        """For example `u8 3->3 3000x4000`."""
        return f"{self.dtype} {self.channels}->{self.results} {self.height}x{self.width}"

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.height * self.width * self.channels * self.results

    @property
    def bytes(self) -> int:
        """Image, matrix and result, each once."""
        elements = self.height * self.width * (self.channels + self.results)
        return _TYPES[self.dtype].itemsize * elements + 4 * self.results * (self.channels + 1)

    def data(self) -> ImageData:
        """The arrays of this case, from a fixed seed."""
        random = np.random.default_rng(self.height)
        x = random.integers(0, 256, (self.height, self.width, self.channels), dtype=np.uint8)
        matrix = random.random((self.results, self.channels + 1), dtype=np.float32)
        matrix[:, :-1] /= matrix[:, :-1].sum(axis=1, keepdims=True)
        return ImageData(self, x.astype(_TYPES[self.dtype]), matrix)


@dataclass(frozen=True, eq=False)
class ImageData:
    """The arrays of a case, C-contiguous: image [height, width, channels], matrix with its constants."""

    case: ImageCase
    x: np.ndarray[Any, Any]
    matrix: np.ndarray[Any, np.dtype[np.float32]]

    @property
    def tolerance(self) -> float | None:
        """A step of 255 and a half where results are rounded, which libraries do in their own ways."""
        return 1.5 / 255 if self.case.dtype == "u8" else None

    @cached_property
    def expected(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The result in float64."""
        matrix = self.matrix.astype(np.float64)
        sums = self.x.astype(np.float64) @ matrix[:, :-1].T + matrix[:, -1]
        return np.clip(np.rint(sums), 0, 255) if self.case.dtype == "u8" else sums


IMAGES = (ImageCase("u8", 3000, 4000), ImageCase("f32", 3000, 4000))
