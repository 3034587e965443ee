"""A multiplication and an addition with one rounding, on NumPy arrays: what fused multiply-add means.

    >>> fused(np.float32([1 + 2**-12]), np.float32([1 - 2**-12]), np.float32([-1]))
    array([-5.9604645e-08], dtype=float32)

The product of two float32 (or float16) is exact in float64. The sum is rounded to odd there, so that rounding
it once more to the narrow type gives what a single rounding would have given. For float64 product and sum are
taken apart into two numbers each (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums"); where
that would overflow or lose bits below the smallest numbers, Python's fractions decide.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_SPLIT = float((1 << 27) + 1)
#: Magnitudes between which no part of a product or sum is lost.
_LEAST, _MOST = 2.0**-900, 2.0**900


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding; all of one type, float16, float32 or float64."""
    if a.dtype == np.float64:
        return _double(*np.broadcast_arrays(a, b, c))
    with np.errstate(all="ignore"):
        return _wide(a, b, c).astype(a.dtype)


def fused_scaled(a: Array, b: Array, c: Array, power: Array) -> Array:
    """(a * b + c) * 2^power with one rounding."""
    with np.errstate(all="ignore"):
        if a.dtype != np.float64:
            return np.ldexp(_wide(a, b, c), power).astype(a.dtype)
        a, b, c, power = np.broadcast_arrays(a, b, c, power)
        result = np.ldexp(_double(a, b, c), power)
        small = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (np.abs(result) < 1 / _MOST) & (power != 0)
    for place in zip(*np.nonzero(small), strict=True):
        factor = Fraction(2) ** int(power[place])
        first, second, third, near = (float(x[place]) for x in (a, b, c, result))
        result[place] = _exact(first, second, third, near, factor)
    return result


def _wide(a: Array, b: Array, c: Array) -> Array:
    return _odd_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))


def _odd_sum(x: Array, y: Array) -> Array:
    """x + y, where it is inexact the neighbour whose last bit is odd."""
    total, error = _two_sum(x, y)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & (error != 0) & even
    if not inexact.any():
        return total
    nudged = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(inexact, nudged, total)


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    a_high = _SPLIT * a - (_SPLIT * a - a)
    b_high = _SPLIT * b - (_SPLIT * b - b)
    a_low, b_low = a - a_high, b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _double(a: Array, b: Array, c: Array) -> Array:
    with np.errstate(all="ignore"):
        high, low = _two_product(a, b)
        total, rest = _two_sum(c, low)
        top, bottom = _two_sum(high, total)
        result = top + _odd_sum(rest, bottom)
        # an infinite c decides, whatever the product of finite numbers is
        plain = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c)
    sizes = np.abs(np.stack([a, b, c, plain, high]))
    safe = ((sizes == 0) | ((sizes > _LEAST) & (sizes < _MOST))).all(0) & ((high != 0) | (a == 0) | (b == 0))
    result = np.where(safe & (plain != 0), result, plain)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    for place in zip(*np.nonzero(finite & ~(safe & (plain != 0))), strict=True):
        result[place] = _exact(float(a[place]), float(b[place]), float(c[place]), float(plain[place]))
    return result


def _exact(a: float, b: float, c: float, plain: float, factor: Fraction = Fraction(1)) -> float:
    value = (Fraction(a) * Fraction(b) + Fraction(c)) * factor
    if value == 0:
        return plain if plain == 0 else 0.0
    try:
        return value.numerator / value.denominator  # rounded once
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
