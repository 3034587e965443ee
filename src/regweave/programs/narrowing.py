"""Narrowing: what `pack_f16`, `pack_s8`, `pack_e2m1` and their like mean.

Two values become the low halves, bytes or half-bytes of a word. Where they are narrower than 16 bits, a third
operand, moved up by the width of both, is what stands above them: four bytes take two steps that way and
eight half-bytes four, as the instructions of both vendors have it.

    >>> words = [np.float32([v]).view(np.uint32) for v in (1.0, 500.0)]
    >>> hex(NARROWINGS["pack_e4m3"].pack(*words, np.uint32([0xABCD]))[0])
    '0xabcd7e38'

Floats are rounded as `numbers.encode` has it, integers taken as signed and kept within the result's bounds.

`pack_low` and `pack_high` convert nothing: they join the low (or high) halves of two words, for 16-bit
accumulators that have a register each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.layouts.elements import element_type
from regweave.programs.numbers import SMALL_FLOATS, encode

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Narrowing:
    """The conversion of two words, whose type is `taken` (f32 or b32, an integer), to elements of `dtype`."""

    dtype: str
    taken: str

    @property
    def bits(self) -> int:
        """Bits of one result: 4, 8 or 16."""
        return element_type(self.dtype).bits

    @property
    def merges(self) -> bool:
        """Whether there is a third operand: what stands above the two results."""
        return self.bits < 16

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the most that an integer type holds."""
        signed = self.dtype.startswith("s")
        most = (1 << (self.bits - signed)) - 1
        return (-most - 1 if signed else 0), most

    def pack(self, low: NDArray[Any], high: NDArray[Any], *above: NDArray[Any]) -> NDArray[Any]:
        """The word of two narrowed values, and of what stands above them; bit patterns everywhere."""
        word = self._narrow(low) | self._narrow(high) << np.uint32(self.bits)
        return word | above[0] << np.uint32(2 * self.bits) if above else word

    def _narrow(self, word: NDArray[Any]) -> NDArray[Any]:
        if self.taken == "b32":
            return encode(np.clip(word.view(np.int32), *self.bounds), self.dtype)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return encode(word.view(np.float32), self.dtype)


NARROWINGS = {
    f"pack_{dtype}": Narrowing(dtype, taken)
    for taken, dtypes in (
        ("f32", ("f16", "bf16", *SMALL_FLOATS)),
        ("b32", ("s16", "u16", "s8", "u8", "s4", "u4")),
    )
    for dtype in dtypes
}


def join_low(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """The low halves of two words."""
    return low & np.uint32(0xFFFF) | high << np.uint32(16)


def join_high(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """The high halves of two words."""
    return low >> np.uint32(16) | high & np.uint32(0xFFFF0000)
