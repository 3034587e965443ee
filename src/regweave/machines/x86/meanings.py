"""What the vector entries mean, on NumPy float32 arrays of one value per lane.

Each function takes the entry's operands in order (the destination's old value first where the entry reads it,
masks as booleans) and returns the destination's new value. Tests run every entry natively and compare bit for
bit, NaN payloads apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regweave.machines.fused import fused

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Bools = NDArray[np.bool_]


def _bits(a: Floats) -> NDArray[np.uint32]:
    return a.view(np.uint32)


def move(a: Floats) -> Floats:
    return a


def broadcast(a: Floats) -> Floats:
    return np.full_like(a, a[0])


def zero() -> np.float32:
    return np.float32(0)


def add(a: Floats, b: Floats) -> Floats:
    return a + b


def sub(a: Floats, b: Floats) -> Floats:
    return a - b


def mul(a: Floats, b: Floats) -> Floats:
    return a * b


def div(a: Floats, b: Floats) -> Floats:
    return a / b


def max(a: Floats, b: Floats) -> Floats:
    return np.where(a > b, a, b)


def min(a: Floats, b: Floats) -> Floats:
    return np.where(a < b, a, b)


max_nan = max
min_nan = min


def fma(d: Floats, a: Floats, b: Floats) -> Floats:
    return fused(a, b, d)


def fnma(d: Floats, a: Floats, b: Floats) -> Floats:
    return fused(-a, b, d)


def fms(d: Floats, a: Floats, b: Floats) -> Floats:
    return fused(a, b, -d)


def mul_add(d: Floats, a: Floats, b: Floats) -> Floats:
    return fused(d, a, b)


def fma_to(a: Floats, b: Floats, c: Floats) -> Floats:
    return fused(a, b, c)


def sqrt(a: Floats) -> Floats:
    return np.sqrt(a)


def abs(a: Floats) -> Floats:
    return np.abs(a)


def negate(a: Floats) -> Floats:
    return -a


def and_(a: Floats, b: Floats) -> Floats:
    return (_bits(a) & _bits(b)).view(np.float32)


def or_(a: Floats, b: Floats) -> Floats:
    return (_bits(a) | _bits(b)).view(np.float32)


def xor(a: Floats, b: Floats) -> Floats:
    return (_bits(a) ^ _bits(b)).view(np.float32)


def andnot(a: Floats, b: Floats) -> Floats:
    return (~_bits(a) & _bits(b)).view(np.float32)


def round_nearest(a: Floats) -> Floats:
    return np.rint(a)


def floor(a: Floats) -> Floats:
    return np.floor(a)


def ceil(a: Floats) -> Floats:
    return np.ceil(a)


def add_int(a: Floats, b: Floats) -> Floats:
    return (_bits(a) + _bits(b)).view(np.float32)


def sub_int(a: Floats, b: Floats) -> Floats:
    return (_bits(a) - _bits(b)).view(np.float32)


def shift_left_int(a: Floats, count: int) -> Floats:
    return (_bits(a) << np.uint32(count)).view(np.float32)


def fraction(a: Floats) -> Floats:
    """The difference is rounded down too: a little below 0 it is the largest float below 1."""
    exact = np.where(np.isinf(a), 0.0, a.astype(np.float64) - np.floor(np.nan_to_num(a, posinf=0, neginf=0)))
    rounded = exact.astype(np.float32)
    below = np.nextafter(rounded, np.float32(-np.inf))
    return np.where((rounded > exact) | (rounded == 1), below, rounded)


def to_int(a: Floats) -> Floats:
    """As the processor does: what does not fit becomes -2^31."""
    rounded = np.rint(a.astype(np.float64))
    fits = (rounded >= -(2.0**31)) & (rounded < 2.0**31)
    return np.where(fits, rounded, -(2.0**31)).astype(np.int32).view(np.float32)


def from_int(a: Floats) -> Floats:
    return a.view(np.int32).astype(np.float32)


def compare_less(a: Floats, b: Floats) -> Bools:
    return a < b


def compare_less_equal(a: Floats, b: Floats) -> Bools:
    return a <= b


def compare_equal(a: Floats, b: Floats) -> Bools:
    return a == b


def compare_unordered(a: Floats, b: Floats) -> Bools:
    return np.isnan(a) | np.isnan(b)


def load_masked(memory: Floats, lanes: Bools) -> Floats:
    return np.where(lanes, memory, np.float32(0))


def store_masked(memory: Floats, a: Floats, lanes: Bools) -> Floats:
    return np.where(lanes, a, memory)


def select(lanes: Bools, x: Floats, y: Floats) -> Floats:
    return np.where(lanes, x, y)


def select_less(a: Floats, b: Floats, x: Floats, y: Floats) -> Floats:
    return np.where(a < b, x, y)


def power_of_two_scale(a: Floats, n: Floats) -> Floats:
    """Defined for integral |n| <= 252, and where the result is subnormal for |a| within 2^-24 .. 2^24; NaN
    where a is NaN."""
    with np.errstate(all="ignore"):
        return np.ldexp(a.astype(np.float64), n.astype(np.int32)).astype(np.float32)


def mask_from_count(lanes: int, n: int) -> Bools:
    return np.arange(lanes) < n


def mask_all(lanes: int) -> Bools:
    return np.ones(lanes, bool)


def mask_and(a: Bools, b: Bools) -> Bools:
    return a & b


def mask_or(a: Bools, b: Bools) -> Bools:
    return a | b
