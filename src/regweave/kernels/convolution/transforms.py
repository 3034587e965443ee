"""Fewer products for a column of taps: rows are transformed, multiplied one by one, and transformed back.

A filter of r rows over m output rows is a product of polynomials, and a polynomial of degree m + r - 2 is
known from its values at m + r - 1 points: m + r - 1 products instead of m * r (Toom 1963, Cook 1966; for
convolutions Winograd 1980, arXiv 1509.09308).

    >>> t = transform(4, 3)
    >>> [str(point) for point in t.points]      # and infinity
    ['0', '3/4', '-3/4', '3/2', '-3/2']
    >>> results = t.inverse @ ((t.filter @ taps) * (t.forward @ rows))          # 6 products give 4 results

The points are such that no product is much larger than the results: with 0, 1, -1, 2, -2 rounding errors
are two to four times those of the plain sum, with these 1.2 times. What is not finite would spread from its
row to all of its group: kernels look for that, and leave it alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache, cached_property
from math import prod

import numpy as np

from regweave.values import frozen

#: Points by their number, short fractions of powers of two. 0, then opposite ones as far as there are two:
#: each pair's sums and differences are shared.
_POINTS = {
    count: tuple(map(Fraction, points))
    for count, points in {
        1: (0,),
        2: (0, 1),
        3: (0, 1, -1),
        4: (0, 1, -1, Fraction(1, 2)),
        5: (0, Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
    }.items()
}

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
        return _POINTS[self.products - 1]

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
    def filter_rows(self) -> Matrix:
        """[products][taps]: powers of the points, over what `forward_rows` are too large by."""
        rows = []
        for point in self.points:
            scale = prod((point - other for other in self.points if other != point), start=Fraction(1))
            rows.append(tuple(point**power / scale for power in range(self.taps)))
        return (*rows, tuple(Fraction(power == self.taps - 1) for power in range(self.taps)))

    @property
    def filter(self) -> np.ndarray:
        """`filter_rows` in float64."""
        return np.array(self.filter_rows, np.float64)

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
