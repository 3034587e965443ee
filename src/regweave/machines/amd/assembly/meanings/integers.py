"""Whole numbers and bits in the vector unit.

Sums and products keep their low bits; under `clamp` the extended result is kept within the type's bounds
instead. The 24-bit forms take the low 24 bits of their operands.

    >>> MEANINGS["v_bfe_i32"].function(np.int32([0x7C]), np.uint32([2]), np.uint32([5]))
    array([-1])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.machines.amd.assembly.meanings.floats import also_exec
from regweave.machines.amd.assembly.meanings.meaning import family, meaning

Array = Any
U32, U64 = np.uint32, np.uint64


def _limited(exact: Callable[..., Array]) -> tuple[Any, Any]:
    """A function on whole numbers, and the same with its result kept within the operands' type."""

    def plain(*values: Array) -> Array:
        return exact(*(v.astype(np.int64) for v in values)).astype(values[0].dtype)

    def kept(*values: Array) -> Array:
        bounds = np.iinfo(values[0].dtype)
        return np.clip(exact(*(v.astype(np.int64) for v in values)), bounds.min, bounds.max).astype(
            values[0].dtype
        )

    return plain, kept


def _signed24(a: Array) -> Array:
    return (a.astype(np.int64) & 0xFFFFFF ^ 0x800000) - 0x800000


def _unsigned24(a: Array) -> Array:
    return a.astype(np.int64) & 0xFFFFFF


def _low(a: Array) -> Array:
    """The low 32 bits of whole numbers."""
    return (a & 0xFFFFFFFF).astype(U32)


def multiply_high(a: Array, b: Array) -> Array:
    """The high half of a product of 32-bit numbers."""
    wide = np.int64 if a.dtype == np.int32 else U64
    return (a.astype(wide) * b.astype(wide) >> wide(32)).astype(a.dtype)


def shift_left(a: Array, n: Array) -> Array:
    """a << n; only as many bits of n count as the width has."""
    return a << (n.astype(a.dtype) & a.dtype.type(8 * a.dtype.itemsize - 1))


def shift_right(a: Array, n: Array) -> Array:
    """a >> n, arithmetic for signed numbers."""
    return a >> (n.astype(a.dtype) & a.dtype.type(8 * a.dtype.itemsize - 1))


def _swapped(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda n, a: function(a, n)


def reverse_bits(a: Array) -> Array:
    """The bits of unsigned numbers in the opposite order."""
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.dtype.itemsize)
    turned = np.packbits(
        np.unpackbits(octets, axis=-1, bitorder="little")[..., ::-1], axis=-1, bitorder="little"
    )
    return turned.view(a.dtype)[..., 0]


_ONES = np.array([bin(octet).count("1") for octet in range(256)], np.uint32)


def count_ones(a: Array) -> Array:
    """How many bits are set."""
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.dtype.itemsize)
    return _ONES[octets].sum(axis=-1, dtype=U32)


def lowest_one(a: Array) -> Array:
    """The number of the lowest bit that is set; -1 for none."""
    ones = count_ones((a & (~a + a.dtype.type(1))) - a.dtype.type(1)).astype(np.int32)
    return np.where(a == 0, np.int32(-1), ones)


def leading_zeros(a: Array) -> Array:
    """How many zeros stand above the highest bit; -1 where no bit is set."""
    return lowest_one(reverse_bits(a))


def leading_signs(a: Array) -> Array:
    """How many bits from the top on are the same as the sign; -1 where all are."""
    bits = a.view(np.uint32 if a.dtype.itemsize == 4 else np.uint64)
    return leading_zeros(np.where(a < 0, ~bits, bits))


def extract(a: Array, first: Array, width: Array) -> Array:
    """`width` bits from `first` on, as a number of a's type."""
    wide = a.astype(np.int64 if a.dtype.kind == "i" else U64)
    first, width = (x.astype(wide.dtype) & wide.dtype.type(31) for x in (first, width))
    moved = wide >> first
    if a.dtype.kind == "u":
        return (moved & ((wide.dtype.type(1) << width) - wide.dtype.type(1))).astype(a.dtype)
    sign = np.where(width == 0, 0, np.int64(1) << np.maximum(width - 1, 0))
    kept = moved & ((np.int64(1) << width) - 1)
    return ((kept ^ sign) - sign).astype(a.dtype)


def _insert(mask: Array, a: Array, b: Array) -> Array:
    return (mask & a) | (~mask & b)


def _permute(high: Array, low: Array, chosen: Array) -> Array:
    """Bytes by number: 0 to 3 of the second operand, 4 to 7 of the first; 8 to 11 signs, 12 zero, above that
    ones."""
    both = high.astype(U64) << U64(32) | low.astype(U64)
    result = np.zeros(np.broadcast_shapes(both.shape, chosen.shape), U32)
    for place in range(4):
        pick = chosen >> U32(8 * place) & U32(255)
        octet = both >> (U64(8) * (pick.astype(U64) & U64(7))) & U64(255)
        sign = both >> (U64(16) * (pick.astype(U64) & U64(3)) + U64(15)) & U64(1)
        octet = np.where(pick > 7, sign * U64(255), octet)
        octet = np.where(pick == 12, U64(0), np.where(pick > 12, U64(255), octet))
        result |= octet.astype(U32) << U32(8 * place)
    return result


def _align(step: int, mask: int) -> Callable[..., Array]:
    def apply(high: Array, low: Array, n: Array) -> Array:
        both = high.astype(U64) << U64(32) | low.astype(U64)
        return (both >> (U64(step) * (n.astype(U64) & U64(mask)))).astype(U32)

    return apply


def _sad(bits: int) -> Callable[..., Array]:
    """The sum of absolute differences of unsigned parts, and a number."""

    def apply(a: Array, b: Array, c: Array) -> Array:
        total = c.astype(np.int64)
        for place in range(0, 32, bits):
            parts = [x.astype(np.int64) >> place & (1 << bits) - 1 for x in (a, b)]
            total = total + np.abs(parts[0] - parts[1])
        return _low(total)

    return apply


def _carry(sign: int, swapped: bool = False) -> Callable[..., tuple[Array, Array]]:
    """A sum or difference, and whether it left 32 bits; with a carry or borrow coming in if one is given."""

    def apply(a: Array, b: Array, carry: Array | None = None) -> tuple[Array, Array]:
        a, b = (b, a) if swapped else (a, b)
        total = a.astype(np.int64) + sign * b.astype(np.int64)
        if carry is not None:
            total = total + sign * carry.astype(np.int64)
        return _low(total), (total < 0) | (total > 0xFFFFFFFF)

    return apply


def _mad_u64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    product = a.astype(U64) * b.astype(U64)
    total = product + c
    return total, total < product


def _mad_i64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    product = a.astype(np.int64) * b.astype(np.int64)
    total = product + c
    return total, (product < 0) ^ (c < 0) ^ (total < 0) ^ (total.view(U64) < c.view(U64))


def _middle(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _select(a: Array, b: Array, lanes: Array) -> Array:
    return np.where(lanes, b, a)


def _bit_field(width: Array, first: Array) -> Array:
    one = np.uint64(1)
    ones = (one << (width.astype(U64) & U64(31))) - one
    return (ones << (first.astype(U64) & U64(31))).astype(U32)


def _swap(a: Array, b: Array) -> tuple[Array, Array]:
    return b.copy(), a.copy()


def _ones_below(first: int) -> Callable[[Array, Array], Array]:
    """How many bits of a mask of lanes `first` on stand below a lane, added to a number."""
    below = np.clip(np.arange(64) - first, 0, 32).astype(U64)
    mask = ((np.uint64(1) << below) - np.uint64(1)).astype(U32)
    return lambda a, b: count_ones(a & mask) + b


_LESS = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ne": np.not_equal,
    "ge": np.greater_equal,
}
_ADD, _SUB = _limited(lambda a, b: a + b), _limited(lambda a, b: a - b)
_SUBREV = _limited(lambda a, b: b - a)
_THREE = {"min3": lambda a, b, c: np.minimum(np.minimum(a, b), c),
              "max3": lambda a, b, c: np.maximum(np.maximum(a, b), c), "med3": _middle}  # fmt: skip
_MAD16 = _limited(lambda a, b, c: a * b + c)

MEANINGS = {
    "v_mov_b32": meaning("b32 b32", lambda a: a),
    "v_mov_b64": meaning("b64 b64", lambda a: a),
    "v_accvgpr_read_b32": meaning("u32 u32", lambda a: a),
    "v_accvgpr_write_b32": meaning("u32 u32", lambda a: a),
    "v_accvgpr_mov_b32": meaning("u32 u32", lambda a: a),
    "v_swap_b32": meaning("u32 u32", _swap),
    "v_cndmask_b32": meaning("b32 b32 b32 mask", _select),
    "v_not_b32": meaning("u32 u32", np.bitwise_not),
    "v_bfrev_b32": meaning("u32 u32", reverse_bits),
    "v_ffbh_u32": meaning("i32 u32", leading_zeros),
    "v_ffbh_i32": meaning("i32 i32", leading_signs),
    "v_ffbl_b32": meaning("i32 u32", lowest_one),
    **family("v_mul_*_i24", "i32 i32 i32", i32=lambda a, b: (_signed24(a) * _signed24(b)).astype(np.int32),
             hi_i32=lambda a, b: (_signed24(a) * _signed24(b) >> 32).astype(np.int32)),
    **family("v_mul_*_u24", "u32 u32 u32", u32=lambda a, b: _low(_unsigned24(a) * _unsigned24(b)),
             hi_u32=lambda a, b: (_unsigned24(a) * _unsigned24(b) >> 32).astype(U32)),
    **family("v_*_{i32,u32,i16,u16}", "T T T", min=np.minimum, max=np.maximum),
    **family("v_*_b32", "u32 u32 u32", and_=np.bitwise_and, or_=np.bitwise_or, xor=np.bitwise_xor,
             xnor=lambda a, b: ~(a ^ b)),
    **family("v_*_{b32}", "u32 u32 u32", lshlrev=_swapped(shift_left), lshrrev=_swapped(shift_right)),
    **family("v_*_b16", "u16 u16 u16", lshlrev=_swapped(shift_left), lshrrev=_swapped(shift_right)),
    **family("v_*_{i32,i16}", "T T T", ashrrev=_swapped(shift_right)),
    **family("v_*_b64", "u64 u32 u64", lshlrev=_swapped(shift_left), lshrrev=_swapped(shift_right)),
    "v_ashrrev_i64": meaning("i64 u32 i64", _swapped(shift_right)),
    **family("v_*_{u32,u16}", "T T T", add=_ADD, sub=_SUB, subrev=_SUBREV),
    **family("v_*_i32", "i32 i32 i32", add=_ADD, sub=_SUB),
    **family("v_mul_lo_{u32,u16}", "T T T", _=lambda a, b: a * b),
    **family("v_mul_hi_{u32,i32}", "T T T", _=multiply_high),
    "v_bcnt_u32_b32": meaning("u32 u32 u32", lambda a, b: count_ones(a) + b),
    "v_mbcnt_lo_u32_b32": meaning("u32 u32 u32", _ones_below(0)),
    "v_mbcnt_hi_u32_b32": meaning("u32 u32 u32", _ones_below(32)),
    "v_bfm_b32": meaning("u32 u32 u32", _bit_field),
    **family("v_*_co_u32", "u32 mask u32 u32", add=_carry(1), sub=_carry(-1), subrev=_carry(-1, True)),
    **family("v_*_co_u32", "u32 mask u32 u32 mask", addc=_carry(1), subb=_carry(-1),
             subbrev=_carry(-1, True)),
    "v_mad_i32_i24": meaning("i32 i32 i32 i32", (
        lambda a, b, c: (_signed24(a) * _signed24(b) + c).astype(np.int32),
        lambda a, b, c: np.clip(_signed24(a) * _signed24(b) + c, -(2**31), 2**31 - 1).astype(np.int32))),
    "v_mad_u32_u24": meaning("u32 u32 u32 u32", (
        lambda a, b, c: _low(_unsigned24(a) * _unsigned24(b) + c.astype(np.int64)),
        lambda a, b, c: np.minimum(_unsigned24(a) * _unsigned24(b) + c.astype(np.int64), 2**32 - 1).astype(
            U32))),
    "v_mad_i32_i16": meaning("i32 i16 i16 i32", lambda a, b, c: a.astype(np.int32) * b.astype(np.int32) + c),
    "v_mad_u32_u16": meaning("u32 u16 u16 u32", lambda a, b, c: a.astype(U32) * b.astype(U32) + c),
    **family("v_mad_{i16,u16}", "T T T T", _=_MAD16),
    **family("v_mad_legacy_{i16,u16}", "T T T T", _=_MAD16),
    "v_bfe_u32": meaning("u32 u32 u32 u32", extract),
    "v_bfe_i32": meaning("i32 i32 u32 u32", extract),
    "v_bfi_b32": meaning("u32 u32 u32 u32", _insert),
    "v_alignbit_b32": meaning("u32 u32 u32 u32", _align(1, 31)),
    "v_alignbyte_b32": meaning("u32 u32 u32 u32", _align(8, 3)),
    "v_perm_b32": meaning("u32 u32 u32 u32", _permute),
    **family("v_*_{i32,u32}", "T T T T", **_THREE),
    **family("v_*_{i16,u16}", "T T T T", **_THREE),
    **family("v_sad_*", "u32 u32 u32 u32", u8=_sad(8), u16=_sad(16), u32=_sad(32)),
    "v_xad_u32": meaning("u32 u32 u32 u32", lambda a, b, c: (a ^ b) + c),
    "v_lshl_add_u32": meaning("u32 u32 u32 u32", lambda a, n, c: shift_left(a, n) + c),
    "v_add_lshl_u32": meaning("u32 u32 u32 u32", lambda a, b, n: shift_left(a + b, n)),
    "v_lshl_or_b32": meaning("u32 u32 u32 u32", lambda a, n, c: shift_left(a, n) | c),
    "v_and_or_b32": meaning("u32 u32 u32 u32", lambda a, b, c: (a & b) | c),
    "v_or3_b32": meaning("u32 u32 u32 u32", lambda a, b, c: a | b | c),
    "v_add3_u32": meaning("u32 u32 u32 u32", lambda a, b, c: a + b + c),
    "v_lshl_add_u64": meaning("u64 u64 u32 u64", lambda a, n, c: shift_left(a, n & U32(7)) + c),
    "v_mad_u64_u32": meaning("u64 mask u32 u32 u64", _mad_u64),
    "v_mad_i64_i32": meaning("i64 mask i32 i32 i64", _mad_i64),
    **family("v_cmp_*_{i32,u32,i16,u16,i64,u64}", "mask T T", **_LESS),
    **family("v_cmpx_*_{i32,u32,i16,u16}", "mask T T | mask", **{k: also_exec(f) for k, f in _LESS.items()}),
}  # fmt: skip
