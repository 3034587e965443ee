"""What is measured: cascades and products with their data and a float64 reference.

    >>> case = CASCADES[0]
    >>> case.name, case.rows, case.widths
    ('16384x64-64-64-64', 16384, (64, 64, 64, 64))

A case makes its data from a fixed seed, so two runs compare the same numbers. Weights are scaled so
that values keep their size through every stage: denormals or overflows would time something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

Matrix = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class CascadeCase:
    """y = relu(... relu(x @ w0 + b0) ... @ wn + bn), x of `rows` x widths[0]."""

    kind: ClassVar[str] = "cascade"

    rows: int
    widths: tuple[int, ...]

    @property
    def name(self) -> str:
        """For example `16384x64-64-64-64`."""
        return f"{self.rows}x{'-'.join(map(str, self.widths))}"

    @property
    def flops(self) -> int:
        """Multiplications and additions of the products."""
        return sum(2 * self.rows * k * n for k, n in pairwise(self.widths))

    @property
    def bytes(self) -> int:
        """Input, weights, biases and result, each once."""
        weights = sum((k + 1) * n for k, n in pairwise(self.widths))
        return 4 * (self.rows * (self.widths[0] + self.widths[-1]) + weights)

    def data(self) -> CascadeData:
        """The arrays of this case, from a fixed seed."""
        return cascade_data(self)


@dataclass(frozen=True)
class ProductCase:
    """c = a @ b, square, nothing packed beforehand."""

    kind: ClassVar[str] = "product"

    size: int

    @property
    def name(self) -> str:
        """For example `1024x1024x1024`."""
        return f"{self.size}x{self.size}x{self.size}"

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.size**3

    @property
    def bytes(self) -> int:
        """Both operands and the result, each once."""
        return 12 * self.size**2

    def data(self) -> ProductData:
        """The arrays of this case, from a fixed seed."""
        return product_data(self)


@dataclass(frozen=True, eq=False)
class CascadeData:
    """The arrays of a cascade case: float32, C-contiguous; weights [K, N], biases [N]."""

    x: Matrix
    weights: tuple[Matrix, ...]
    biases: tuple[Matrix, ...]
    expected: np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class ProductData:
    """The arrays of a product case: float32, C-contiguous."""

    a: Matrix
    b: Matrix
    expected: np.ndarray[Any, np.dtype[np.float64]]


CASCADES = (
    CascadeCase(16384, (64, 64, 64, 64)),
    CascadeCase(262144, (64, 64, 64)),
    CascadeCase(4096, (64, 512, 64)),
    CascadeCase(1536, (192, 384, 192)),
    CascadeCase(128, (384, 1536, 384)),
)
PRODUCTS = (ProductCase(1024), ProductCase(2048))


def cascade_data(case: CascadeCase) -> CascadeData:
    """Inputs of `case` and its result in float64."""
    random = np.random.default_rng(len(case.widths) * 1_000_003 + case.rows)
    x = random.standard_normal((case.rows, case.widths[0]), dtype=np.float32)
    weights, biases, expected = [], [], x.astype(np.float64)
    for k, n in pairwise(case.widths):
        # variance 2 / k keeps the size of what a ReLU lets through
        weights.append(random.standard_normal((k, n), dtype=np.float32) * np.float32((2 / k) ** 0.5))
        biases.append(random.standard_normal(n, dtype=np.float32) * np.float32(0.1))
        expected = np.maximum(expected @ weights[-1].astype(np.float64) + biases[-1], 0)
    return CascadeData(x, tuple(weights), tuple(biases), expected)


def product_data(case: ProductCase) -> ProductData:
    """Inputs of `case` and their product in float64."""
    random = np.random.default_rng(case.size)
    a = random.standard_normal((case.size, case.size), dtype=np.float32)
    b = random.standard_normal((case.size, case.size), dtype=np.float32)
    return ProductData(a, b, a.astype(np.float64) @ b.astype(np.float64))


def relative_error(result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """The largest deviation of any element, in units of the largest expected magnitude."""
    if result.shape != expected.shape:
        return float("inf")
    scale = float(np.max(np.abs(expected), initial=0.0)) or 1.0
    return float(np.max(np.abs(result - expected), initial=0.0)) / scale
