"""Values of slots as the registers that hold them, and back.

    >>> f16 = element_type("f16")
    >>> registers_of(np.array([[0x3C00, 0x4000, 0x4200]]), f16)      # 1, 2 and 3 in two registers
    array([[0x40003c00, 0x00004200]], dtype=uint32)

An element of 64 bits lies in two registers, the low half first; narrower ones share a register, the first in
its low bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.layouts import ElementType
from regweave.layouts.elements import REGISTER_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTE = 8


def registers_of(bits: NDArray[Any], kind: ElementType) -> NDArray[np.uint32]:
    """`[lanes, registers]` from the bit patterns of `[lanes, items]`; bits that hold nothing are 0."""
    lanes, items = bits.shape
    if kind.registers > 1:
        halves = bits.astype(np.uint64)[..., None] >> np.arange(0, kind.bits, REGISTER_BITS, dtype=np.uint64)
        return halves.astype(np.uint32).reshape(lanes, -1)
    padded = np.ascontiguousarray(bits, dtype=_held_in(kind))
    if items % kind.per_register:
        padded = np.pad(padded, ((0, 0), (0, -items % kind.per_register)))
    if kind.bits == 1:
        padded = np.packbits(padded, axis=1, bitorder="little")
    elif kind.bits < _BYTE:
        parts = padded.reshape(lanes, -1, _BYTE // kind.bits)
        padded = parts[..., 0].copy()
        for number in range(1, parts.shape[2]):
            padded |= parts[..., number] << np.uint8(number * kind.bits)
    return padded.view("<u4").astype(np.uint32, copy=False)


def _held_in(kind: ElementType) -> str:
    """The unsigned type, low byte first, of an element; a byte for narrower ones."""
    return f"<u{max(kind.bits // _BYTE, 1)}"


def items_of(registers: NDArray[np.uint32], kind: ElementType, items: int) -> NDArray[np.uint64]:
    """The bit patterns of `[lanes, items]` from `[lanes, registers]`."""
    wide = registers.astype(np.uint64)
    if kind.registers > 1:
        halves = wide.reshape(len(registers), items, kind.registers)
        return np.bitwise_or.reduce(halves << np.arange(0, kind.bits, REGISTER_BITS, dtype=np.uint64), axis=2)
    places = np.arange(kind.per_register, dtype=np.uint64) * np.uint64(kind.bits)
    parts = wide[..., None] >> places & np.uint64((1 << kind.bits) - 1)
    return parts.reshape(len(registers), -1)[:, :items]


def first_where(mask: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """The first place, row by row, where a table is true; None if it is so nowhere."""
    at = int(mask.argmax())
    return tuple(map(int, np.unravel_index(at, mask.shape))) if mask.flat[at] else None


def used_bits(items: int, kind: ElementType) -> NDArray[np.uint32]:
    """For each register the bits that hold elements."""
    return registers_of(np.full((1, items), (1 << kind.bits) - 1, dtype=np.uint64), kind)[0]
