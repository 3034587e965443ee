"""Bit patterns of element types as numbers, and back: floats as float64, integers as int64.

    >>> decode(np.uint32([0x38, 0xB8]), "e4m3")
    array([ 1., -1.])

Small floats are tables built from their number of exponent and mantissa bits, facts of the OCP 8-bit and
microscaling specifications: e4m3 has no infinities, e5m2 is like IEEE's, the others have neither. The `fnuz`
types have an exponent bias of one more and a NaN in place of the negative zero.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import UnsupportedError
from regweave.layouts.elements import element_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

# exponent bits and mantissa bits; the sign is one bit more
_SMALL_FLOATS = {"e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1)}
_SMALL_FLOATS |= {"e4m3fnuz": (4, 3), "e5m2fnuz": (5, 2)}


def decode(bits: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The numbers that `bits` (uint32, or uint64 for f64) are in an element type."""
    if dtype == "f64":
        return bits.view(np.float64)
    if dtype == "f32":
        return bits.view(np.float32).astype(np.float64)
    if dtype == "tf32":  # the instruction ignores what f32 has more
        return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if dtype == "bf16":
        return (bits << np.uint32(16)).view(np.float32).astype(np.float64)
    if dtype == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    if dtype in _SMALL_FLOATS:
        table = small_floats(dtype)
        return table[bits & np.uint32(table.size - 1)]
    kind = element_type(dtype)
    if kind.kind != "integer":
        raise UnsupportedError(f"{dtype} elements are no numbers to compute with")
    values = bits.astype(np.int64)
    if dtype.startswith("s"):
        values -= (values >> (kind.bits - 1)) << kind.bits
    return values


def encode(numbers: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The bit patterns of `numbers` in an accumulator's type: f64, f32, f16 or an integer."""
    if dtype == "f64":
        return numbers.astype(np.float64).view(np.uint64)
    if dtype == "f32":
        with np.errstate(over="ignore"):
            return numbers.astype(np.float32).view(np.uint32)
    if dtype == "f16":
        with np.errstate(over="ignore"):
            return numbers.astype(np.float16).view(np.uint16).astype(np.uint32)
    kind = element_type(dtype)
    if kind.kind != "integer":
        raise UnsupportedError(f"results are not rounded to {dtype}")
    return (numbers.astype(np.int64) & ((1 << kind.bits) - 1)).astype(np.uint32)


@cache
def small_floats(dtype: str) -> NDArray[np.float64]:
    """The number of every bit pattern of a float of at most 8 bits."""
    exponents, mantissas = _SMALL_FLOATS[dtype]
    size = 1 << (exponents + mantissas)
    bits = np.arange(size)
    exponent, mantissa = bits >> mantissas, bits & ((1 << mantissas) - 1)
    fnuz = dtype.endswith("fnuz")
    bias = (1 << (exponents - 1)) - 1 + fnuz
    fraction = mantissa / (1 << mantissas)
    values = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    if dtype == "e5m2":
        top = exponent == (1 << exponents) - 1
        values = np.where(top, np.where(mantissa == 0, np.inf, np.nan), values)
    elif dtype == "e4m3":
        values[-1] = np.nan
    negative = -values
    if fnuz:
        negative[0] = np.nan
    return np.concatenate([values, negative])
