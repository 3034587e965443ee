"""Bit patterns of element types as numbers, and back: floats as float64, integers as int64.

    >>> decode(np.uint32([0x38, 0xB8]), "e4m3")
    array([ 1., -1.])
    >>> encode(np.float32([1, -1, 1e9, np.nan]), "e2m1")
    array([ 2, 10,  7,  7], dtype=uint32)

Floats of at most 8 bits are described by few facts of the OCP 8-bit and microscaling specifications. They are
rounded to the nearest, ties to even; what is too large, infinity too, becomes the largest number of its sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import UnsupportedError
from regweave.layouts.elements import element_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SmallFloat:
    """A float of at most 8 bits: a sign, above `exponents` bits, above `mantissas` bits.

    `special` patterns are `ieee` (those with the largest exponent are infinity and NaN), `ones` (all bits set
    is the NaN), `zero` (the negative zero is the NaN, and the exponent's bias is one more) or `none`. In a
    wider container `place` bits are free below it.
    """

    exponents: int
    mantissas: int
    special: str
    place: int = 0

    @property
    def sign(self) -> int:
        """The place of the sign, counted from the number's lowest bit."""
        return self.exponents + self.mantissas

    @property
    def bias(self) -> int:
        """What the exponent's field has too much."""
        return (1 << (self.exponents - 1)) - 1 + (self.special == "zero")

    @property
    def nan(self) -> int:
        """What a NaN becomes: the NaN that instructions give, or the largest number where there is none."""
        return 1 << self.sign if self.special == "zero" else (1 << self.sign) - 1

    @property
    def largest(self) -> float:
        """The largest number."""
        top = (1 << self.sign) - 1 - {"ieee": 1 << self.mantissas, "ones": 1}.get(self.special, 0)
        exponent, fraction = top >> self.mantissas, top & (1 << self.mantissas) - 1
        return (1 + fraction / (1 << self.mantissas)) * 2.0 ** (exponent - self.bias)


SMALL_FLOATS = {
    "e4m3": SmallFloat(4, 3, "ones"),
    "e5m2": SmallFloat(5, 2, "ieee"),
    "e4m3fnuz": SmallFloat(4, 3, "zero"),
    "e5m2fnuz": SmallFloat(5, 2, "zero"),
    "e3m2": SmallFloat(3, 2, "none"),
    "e2m3": SmallFloat(2, 3, "none"),
    "e2m1": SmallFloat(2, 1, "none"),
    "e2m1b8": SmallFloat(2, 1, "none", place=2),  # as mma takes it out of a byte
}
# 16-bit floats that have a register of their own, and stand this far up in it
_ALONE = {"f16_lo": ("f16", 0), "f16_hi": ("f16", 16), "bf16_lo": ("bf16", 0), "bf16_hi": ("bf16", 16)}


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
    if dtype in _ALONE:
        kind, place = _ALONE[dtype]
        return decode(bits >> np.uint32(place) & np.uint32(0xFFFF), kind)
    if dtype in SMALL_FLOATS:
        table = small_floats(dtype)
        return table[bits >> SMALL_FLOATS[dtype].place & (table.size - 1)]
    kind = element_type(dtype)
    if kind.kind != "integer":
        raise UnsupportedError(f"{dtype} elements are no numbers to compute with")
    values = bits.astype(np.int64)
    if dtype.startswith("s"):
        values -= (values >> (kind.bits - 1)) << kind.bits
    return values


def encode(numbers: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The bit patterns of `numbers` in an element type, rounded; integers are taken modulo their width."""
    if dtype == "f64":
        return numbers.astype(np.float64).view(np.uint64)
    with np.errstate(over="ignore"):  # beyond the type is infinite
        if dtype in ("f32", "tf32"):
            return numbers.astype(np.float32).view(np.uint32)
        if dtype == "f16":
            return numbers.astype(np.float16).view(np.uint16).astype(np.uint32)
        if dtype == "bf16":
            return _brain_bits(numbers.astype(np.float32).view(np.uint32))
    if dtype in _ALONE:
        kind, place = _ALONE[dtype]
        return encode(numbers, kind) << np.uint32(place)
    if dtype in SMALL_FLOATS:
        return _small_bits(numbers.astype(np.float64), SMALL_FLOATS[dtype])
    kind = element_type(dtype)
    if kind.kind != "integer":
        raise UnsupportedError(f"numbers are not rounded to {dtype}")
    return (numbers.astype(np.int64) & ((1 << kind.bits) - 1)).astype(np.uint32)


def exact_range(dtype: str) -> int:
    """The largest power of two, at most 2^16, such that all smaller whole numbers are exact in the type."""
    kind = element_type(dtype)
    if kind.kind != "float":
        return 1 << min(kind.bits - dtype.startswith("s"), 16)
    if dtype in SMALL_FLOATS:
        form = SMALL_FLOATS[dtype]
        return 1 << min(form.mantissas + 1, int(np.log2(form.largest + 1)))
    return 1 << (8 if dtype.startswith("bf16") else 11)


def _brain_bits(word: NDArray[Any]) -> NDArray[Any]:
    # round to nearest, ties to even; a NaN must stay one, so its payload is not rounded
    odd = (word >> np.uint32(16)) & np.uint32(1)
    rounded = ((word.astype(np.uint64) + 0x7FFF + odd) >> np.uint64(16)).astype(np.uint32)
    return np.where(np.isnan(word.view(np.float32)), np.uint32(0x7FFF), rounded).astype(np.uint32)


def _small_bits(value: NDArray[np.float64], form: SmallFloat) -> NDArray[np.uint32]:
    size = np.minimum(np.where(np.isnan(value), 0, np.abs(value)), form.largest)
    # frexp gives size = f * 2^e with f in [1/2, 1); below the normal range the step stays what it is
    lowest = 1 - form.bias
    exponent = np.where(size > 0, np.maximum(np.frexp(size)[1] - 1, lowest), lowest)
    steps = np.rint(np.ldexp(size, form.mantissas - exponent)).astype(np.int64)
    # a significand that rounds up to the next power of two carries into the exponent by itself
    bits = ((exponent - lowest) << form.mantissas) + steps
    sign = np.signbit(value).astype(np.int64) << form.sign
    bits |= np.where((bits == 0) & (form.special == "zero"), 0, sign)
    return (np.where(np.isnan(value), form.nan, bits) << form.place).astype(np.uint32)


@cache
def small_floats(dtype: str) -> NDArray[np.float64]:
    """The number of every bit pattern of a float of at most 8 bits, without what its container has more."""
    form = SMALL_FLOATS[dtype]
    bits = np.arange(1 << form.sign)
    exponent, mantissa = bits >> form.mantissas, bits & ((1 << form.mantissas) - 1)
    fraction = mantissa / (1 << form.mantissas)
    normal = (1 + fraction) * 2.0 ** (exponent - form.bias)
    values = np.where(exponent == 0, fraction * 2.0 ** (1 - form.bias), normal)
    if form.special == "ieee":
        top = exponent == (1 << form.exponents) - 1
        values = np.where(top, np.where(mantissa == 0, np.inf, np.nan), values)
    elif form.special == "ones":
        values[-1] = np.nan
    negative = -values
    if form.special == "zero":
        negative[0] = np.nan
    return np.concatenate([values, negative])
