"""Two rows of results at once, with a third fewer products and nothing but sums beside them.

A kernel's rows are taken in parts of three and of two, each a minimal filter for two results (Winograd 1980):

    three taps    y0 = A + B + C    A: (d0 - d2) g0                    B: (d1 + d2) (g0 + g1 + g2) / 2
                  y1 = B - C + D    C: (d2 - d1) (g0 - g1 + g2) / 2    D: (d3 - d1) g2
    two taps      y0 = A + B        A: (d0 - d1) g0                    B: d1 (g0 + g1)
                  y1 = B + D        D: (d2 - d1) g1

The products of all parts and of all kernel columns go to the same four sums. Five rows are three and two: 7
products instead of 10, with 6 sums of image rows; points beyond 0, 1 and -1 would spare one product more, and
cost more than that in sums (and accuracy, see transforms).

    >>> [pairs(rows).products for rows in (2, 3, 4, 5, 6, 7)]
    [3, 4, 6, 7, 8, 10]
"""

from __future__ import annotations

from functools import cache, cached_property

import numpy as np

from regweave.values import frozen

#: Kernel columns that one reading of the image rows serves, at most.
_MOST_COLUMNS = 3
#: Numbers of the sums.
A, B, C, D = range(4)
#: A combination of rows: (first, sign, second) is first + sign * second; (first, 0, first) a row itself.
Combined = tuple[int, int, int]
#: Of parts by their taps: each product's sum, what it combines, and its factors of the taps.
_PARTS: dict[int, tuple[tuple[int, Combined, tuple[float, ...]], ...]] = {
    2: ((A, (0, -1, 1), (1, 0)), (B, (1, 0, 1), (1, 1)), (D, (2, -1, 1), (0, 1))),
    3: (
        (A, (0, -1, 2), (1, 0, 0)),
        (B, (1, 1, 2), (0.5, 0.5, 0.5)),
        (C, (2, -1, 1), (0.5, -0.5, 0.5)),
        (D, (3, -1, 1), (0, 0, 1)),
    ),
}


@frozen
class Term:
    """A product for each kernel column: the number of its sum, of A, B, C and D; the image rows that it
    combines; what it multiplies them by, a factor for each kernel row."""

    sum: int
    rows: Combined
    taps: tuple[float, ...]


@frozen
class Pairs:
    """Two results of a column of `taps` taps; `outputs` and `image_rows` as of Transform."""

    taps: int
    outputs = 2

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """What is multiplied, for all parts."""
        found, start = [], 0
        twos = -self.taps % 3
        for part in (3,) * ((self.taps - 2 * twos) // 3) + (2,) * twos:
            behind = self.taps - start - part
            for number, (first, sign, second), factors in _PARTS[part]:
                taps = (0.0,) * start + factors + (0.0,) * behind
                found.append(Term(number, (start + first, sign, start + second), taps))
            start += part
        return tuple(found)

    @property
    def products(self) -> int:
        """Products for each kernel column."""
        return len(self.terms)

    @property
    def image_rows(self) -> int:
        """Rows that both results read."""
        return self.taps + 1

    @property
    def filter(self) -> np.ndarray:
        """[products, taps]: what makes the weights of the products."""
        return np.array([term.taps for term in self.terms], np.float64)


@cache
def pairs(taps: int) -> Pairs:
    """The pairs for that many kernel rows, two or more."""
    return Pairs(taps)


def column_groups(columns: int) -> tuple[range, ...]:
    """Kernel columns that are multiplied by one reading of the image rows; see paired."""
    size = min(_MOST_COLUMNS, -(-columns // 2))
    return tuple(range(at, min(at + size, columns)) for at in range(0, columns, size))
