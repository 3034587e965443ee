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

Results two rows apart (stride 2) take the even rows of the filter on the even rows of the image and the odd
ones on the odd ones: a transform for each *phase*, whose results are added. A phase of a single tap stays as
it is. 3 results of 3 taps take 4 + 3 products instead of 9, 2 results of 7 taps 5 + 4 instead of 14.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    """`outputs` results, `stride` rows apart, of a filter of `taps`, from `products` transformed rows."""

    outputs: int
    taps: int
    stride: int = 1

    @cached_property
    def phases(self) -> tuple[Transform, ...]:
        """Of each phase its transform; phase p takes every `stride`-th row and tap from number p on."""
        if self.stride == 1:
            return (self,)
        counts = (len(range(phase, self.taps, self.stride)) for phase in range(self.stride))
        return tuple(Transform(self.outputs, count) for count in counts)

    @property
    def image_rows(self) -> int:
        """Rows that the results read."""
        return (self.outputs - 1) * self.stride + self.taps

    @cached_property
    def products(self) -> int:
        """Transformed rows: one product each."""
        return sum(phase.image_rows for phase in self.phases)

    @property
    def points(self) -> tuple[Fraction, ...]:
        """Where the polynomials are evaluated, beside infinity, which stands last; of stride 1."""
        return _POINTS[self.products - 1] if self.taps > 1 else ()

    @cached_property
    def inverse_rows(self) -> Matrix:
        """[outputs][products]: powers of the points; infinity has the highest."""
        if self.stride > 1:
            parts = [phase.inverse_rows for phase in self.phases]
            return tuple(tuple(c for row in rows for c in row) for rows in zip(*parts, strict=True))
        if self.taps == 1:
            return _identity(self.outputs)
        last = self.outputs - 1
        return tuple(
            (*(point**power for point in self.points), Fraction(power == last))
            for power in range(self.outputs)
        )

    @cached_property
    def forward_rows(self) -> Matrix:
        """[products][image rows]: row p divides the product of (x - point) by (x - point p)."""
        if self.stride > 1:
            return self._by_phases([phase.forward_rows for phase in self.phases], self.image_rows)
        if self.taps == 1:
            return _identity(self.outputs)
        rows = [
            (*_polynomial(other for other in self.points if other != point), Fraction(0))
            for point in self.points
        ]
        return (*rows, _polynomial(self.points))

    @cached_property
    def filter_rows(self) -> Matrix:
        """[products][taps]: powers of the points, over what `forward_rows` are too large by."""
        if self.stride > 1:
            return self._by_phases([phase.filter_rows for phase in self.phases], self.taps)
        if self.taps == 1:
            return ((Fraction(1),),) * self.outputs
        rows = []
        for point in self.points:
            scale = prod((point - other for other in self.points if other != point), start=Fraction(1))
            rows.append(tuple(point**power / scale for power in range(self.taps)))
        return (*rows, tuple(Fraction(power == self.taps - 1) for power in range(self.taps)))

    def _by_phases(self, parts: Sequence[Matrix], columns: int) -> Matrix:
        """The rows of all phases' matrices, whose columns are every `stride`-th one from the phase on."""
        rows = []
        for phase, part in enumerate(parts):
            for row in part:
                wide = [Fraction(0)] * columns
                wide[phase :: self.stride] = row
                rows.append(tuple(wide))
        return tuple(rows)

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
def transform(outputs: int, taps: int, stride: int = 1) -> Transform:
    """The transform for that many results, so many rows apart, and taps."""
    return Transform(outputs, taps, stride)


def _identity(size: int) -> Matrix:
    return tuple(tuple(Fraction(row == column) for column in range(size)) for row in range(size))


def _polynomial(roots: Iterable[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients of the product of (x - root), lowest power first."""
    coefficients = (Fraction(1),)
    for root in roots:
        shifted = (Fraction(0), *coefficients)
        scaled = (*(-root * c for c in coefficients), Fraction(0))
        coefficients = tuple(a + b for a, b in zip(shifted, scaled, strict=True))
    return coefficients
