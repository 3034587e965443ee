"""Narrowing to 8 bits: what `pack_s8`, `pack_u8`, `pack_e4m3` and its like mean.

Two values become the two low bytes of a word; the low half of a third operand becomes its high half, so that
four values take two steps, as the instructions of both vendors have it.

    >>> words = (np.float32([v]).view(np.uint32) for v in (1.0, 500.0))
    >>> hex(pack_eight(E4M3, *words, np.uint32([0xABCD]))[0])
    '0xabcd7e38'

Floats are rounded to the nearest, ties to even; what is too large, infinity too, becomes the largest
number of its sign, and a NaN becomes 0x7f. The `fnuz` types of gfx942 have no negative zero: its pattern,
0x80, is their NaN. Integers are taken as signed and kept within the result's bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Eight:
    """An 8-bit type: `mantissa` bits and exponent `bias` of a float, or the bounds of an integer.

    `nan` is the pattern of a float's NaN; where it is 0x80, there is no negative zero.
    """

    largest: float
    mantissa: int | None = None
    bias: int = 0
    smallest: int = 0
    nan: int = 0x7F


E4M3 = Eight(448.0, mantissa=3, bias=7)
E5M2 = Eight(57344.0, mantissa=2, bias=15)
E4M3FNUZ = Eight(240.0, mantissa=3, bias=8, nan=0x80)
E5M2FNUZ = Eight(57344.0, mantissa=2, bias=16, nan=0x80)
S8 = Eight(127, smallest=-128)
U8 = Eight(255)


def pack_eight(kind: Eight, low: NDArray[Any], high: NDArray[Any], above: NDArray[Any]) -> NDArray[Any]:
    """The word of two narrowed values and, above them, the low half of a third; bit patterns everywhere."""
    narrow = _integer if kind.mantissa is None else _float
    return narrow(kind, low) | narrow(kind, high) << np.uint32(8) | above << np.uint32(16)


def _integer(kind: Eight, word: NDArray[Any]) -> NDArray[Any]:
    kept = np.clip(word.view(np.int32), kind.smallest, int(kind.largest))
    return kept.astype(np.int32).view(np.uint32) & np.uint32(0xFF)


def _float(kind: Eight, word: NDArray[Any]) -> NDArray[Any]:
    assert kind.mantissa is not None
    with np.errstate(invalid="ignore"):  # signalling NaNs
        value = word.view(np.float32).astype(np.float64)
    size = np.minimum(np.where(np.isnan(value), 0, np.abs(value)), kind.largest)
    # frexp gives size = f * 2^e with f in [1/2, 1); below the normal range the step stays what it is
    lowest = 1 - kind.bias
    exponent = np.where(size > 0, np.maximum(np.frexp(size)[1] - 1, lowest), lowest)
    steps = np.rint(np.ldexp(size, kind.mantissa - exponent)).astype(np.int64)
    # a significand that rounds up to the next power of two carries into the exponent by itself
    bits = ((exponent - lowest) << kind.mantissa) + steps
    sign = (word >> np.uint32(31)).astype(np.int64) << 7
    bits |= np.where((bits == 0) & (kind.nan == 0x80), 0, sign)
    return np.where(np.isnan(value), kind.nan, bits).astype(np.uint32)
