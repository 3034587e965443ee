"""Fewer products for a column of taps: rows are transformed, multiplied one by one, and transformed back.

A filter of r rows over m output rows is a product of polynomials, and a polynomial of degree m + r - 2 is
known from its values at m + r - 1 points: m + r - 1 products instead of m * r (Toom 1963, Cook 1966; for
convolutions Winograd 1980, arXiv 1509.09308).

    >>> t = transform(4, 3)
    >>> t.points                                # and infinity
    (Fraction(0, 1), Fraction(1, 1), Fraction(-1, 1), Fraction(2, 1), Fraction(-2, 1))
    >>> results = t.inverse @ ((t.filter @ taps) * (t.forward @ rows))          # 6 products give 4 results

`forward` and `inverse` hold small whole numbers. The values between them are a few times larger than those
of the plain sum, so with four results rounding errors are two to four times as large, with two no larger.
What is not finite would spread from its row to all of its group: kernels look for that, and leave it alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache, cached_property

import numpy as np

from regweave.values import frozen

#: 0, then pairs of opposite numbers: each pair's sums and differences are shared.
_POINTS = tuple(map(Fraction, (0, 1, -1, 2, -2)))

Matrix = tuple[tuple[Fraction, ...], ...]


@frozen
class Transform:
    """`outputs` results of a filter of `taps` from `outputs + taps - 1` products."""

    outputs: int
    taps: int

    @property
    def products(self) -> int:
        """Transformed rows: one product each."""
        return self.outputs + self.taps - 1

    @property
    def points(self) -> tuple[Fraction, ...]:
        """Where the polynomials are evaluated, beside infinity, which stands last."""
        return _POINTS[: self.products - 1]

    @cached_property
    def inverse_rows(self) -> Matrix:
        """[outputs][products]: powers of the points; infinity has the highest."""
        last = self.outputs - 1
        return tuple(
            (*(point**power for point in self.points), Fraction(power == last))
            for power in range(self.outputs)
        )

    @cached_property
    def forward_rows(self) -> Matrix:
        """[products][products]: row p divides the product of (x - point) by (x - point p)."""
        rows = [
            (*_polynomial(other for other in self.points if other != point), Fraction(0))
            for point in self.points
        ]
        return (*rows, _polynomial(self.points))

    @cached_property
    def filter(self) -> np.ndarray:
        """[products, taps] in float64: powers of the points, over what `forward_rows` are too large by."""
        rows = []
        for point in self.points:
            scale = Fraction(1)
            for other in self.points:
                if other != point:
                    scale *= point - other
            rows.append([float(point**power / scale) for power in range(self.taps)])
        return np.array([*rows, [float(power == self.taps - 1) for power in range(self.taps)]])

    @property
    def forward(self) -> np.ndarray:
        """`forward_rows` in float64."""
        return np.array(self.forward_rows, np.float64)

    @property
    def inverse(self) -> np.ndarray:
        """`inverse_rows` in float64."""
        return np.array(self.inverse_rows, np.float64)


@cache
def transform(outputs: int, taps: int) -> Transform:
    """The transform for that many results and taps."""
    return Transform(outputs, taps)


def _polynomial(roots: Iterable[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients of the product of (x - root), lowest power first."""
    coefficients = (Fraction(1),)
    for root in roots:
        shifted = (Fraction(0), *coefficients)
        scaled = (*(-root * c for c in coefficients), Fraction(0))
        coefficients = tuple(a + b for a, b in zip(shifted, scaled, strict=True))
    return coefficients
