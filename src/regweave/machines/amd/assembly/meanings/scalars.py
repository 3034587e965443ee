"""The scalar unit: whole numbers of one wave, and SCC.

SCC is the carry of unsigned sums, the overflow of signed ones, which operand won of minima, the truth of
comparisons, and otherwise whether the result has any bit set.

    >>> MEANINGS["s_add_u32"].function(np.uint32([2**32 - 1]), np.uint32([1]))
    (array([0], dtype=uint32), array([ True]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.machines.amd.assembly.meanings.integers import (
    count_ones,
    leading_signs,
    leading_zeros,
    lowest_one,
    multiply_high,
    reverse_bits,
    shift_left,
    shift_right,
)
from regweave.machines.amd.assembly.meanings.meaning import family, meaning

Array = Any
U32 = np.uint32


def _tested(function: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
    """A function whose SCC says whether the result is not zero."""

    def apply(*values: Array) -> tuple[Array, Array]:
        result = function(*values)
        return result, result != 0

    return apply


def _checked(exact: Callable[..., Array]) -> Callable[..., tuple[Array, Array]]:
    """A function on exact numbers whose SCC says that the result did not fit."""

    def apply(*values: Array) -> tuple[Array, Array]:
        kind = values[0].dtype
        total = exact(*(v.astype(np.int64) for v in values))
        bounds = np.iinfo(kind)
        return total.astype(kind), (total < bounds.min) | (total > bounds.max)

    return apply


def _pick(test: Callable[[Array, Array], Array]) -> Callable[[Array, Array], tuple[Array, Array]]:
    def apply(a: Array, b: Array) -> tuple[Array, Array]:
        first = test(a, b)
        return np.where(first, a, b), first

    return apply


def _field(a: Array, place: Array) -> Array:
    """Bits by a word that holds the first (bits 0 to 4, or 5) and how many (16 to 22)."""
    first, width = place & U32(8 * a.dtype.itemsize - 1), place >> U32(16) & U32(127)
    wide = a.dtype.type(8 * a.dtype.itemsize - 1)
    moved = shift_right(a, first)
    cut = np.minimum(width, U32(8 * a.dtype.itemsize)).astype(a.dtype)
    whole = cut > wide
    safe = np.where(whole, a.dtype.type(0), cut)
    if a.dtype.kind == "u":
        ones = (a.dtype.type(1) << safe) - a.dtype.type(1)
        return np.where(whole, moved, moved & ones)
    spare = np.where(safe == 0, a.dtype.type(0), wide + a.dtype.type(1) - safe)
    turned = (moved << spare) >> spare
    return np.where(whole, moved, np.where(safe == 0, a.dtype.type(0), turned))


def _ones(kind: Any) -> Callable[[Array, Array], Array]:
    def apply(width: Array, first: Array) -> Array:
        mask, one = U32(8 * kind().itemsize - 1), kind(1)
        return ((one << (width & mask).astype(kind)) - one) << (first & mask).astype(kind)

    return apply


def _saved(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Any]:
    def apply(a: Array, lanes: Array) -> tuple[Array, Array, Array]:
        result = function(a, lanes)
        return lanes, result != 0, result

    return apply


def _shift_add(step: int) -> Callable[[Array, Array], Any]:
    return _checked(lambda a, b: (a << step) + b)


def _pack(low: int, high: int) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        return (a >> U32(low) & U32(0xFFFF)) | (b >> U32(high) & U32(0xFFFF)) << U32(16)

    return apply


def _bit(a: Array, place: Array) -> Array:
    return (shift_right(a, place) & a.dtype.type(1)) == 1


def _set_bit(value: int) -> Callable[[Array, Array], Array]:
    def apply(d: Array, place: Array) -> Array:
        bit = shift_left(np.ones_like(d), place)
        return d | bit if value else d & ~bit

    return apply


def _zeros(a: Array) -> Array:
    return count_ones(~a)


_LOGIC = {
    "and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor, "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b, "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}  # fmt: skip
_TESTS = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}
_SUM = {"add": _checked(lambda a, b: a + b), "sub": _checked(lambda a, b: a - b)}


def _select(a: Array, b: Array, scc: Array) -> Array:
    return np.where(scc, a, b)


def _keep(d: Array, a: Array, scc: Array) -> Array:
    return np.where(scc, a, d)


MEANINGS = {
    **family("s_*_{u32,i32}", "T T T | scc", **_SUM, min=_pick(np.less), max=_pick(np.greater)),
    "s_absdiff_i32": meaning("u32 i32 i32 | scc", _tested(
        lambda a, b: np.abs(a.astype(np.int64) - b.astype(np.int64)).astype(U32))),
    "s_addc_u32": meaning("u32 u32 u32 | scc", _checked(lambda a, b, c: a + b + c)),
    "s_subb_u32": meaning("u32 u32 u32 | scc", _checked(lambda a, b, c: a - b - c)),
    **family("s_*_b32", "u32 u32 u32 | scc", **{k: _tested(f) for k, f in _LOGIC.items()}),
    **family("s_*_b64", "u64 u64 u64 | scc", **{k: _tested(f) for k, f in _LOGIC.items()}),
    **family("s_*_b32", "u32 u32 u32 | scc", lshl=_tested(shift_left), lshr=_tested(shift_right)),
    **family("s_*_b64", "u64 u64 u32 | scc", lshl=_tested(shift_left), lshr=_tested(shift_right)),
    **family("s_ashr_{i32,i64}", "T T u32 | scc", _=_tested(shift_right)),
    **family("s_bfe_{u32,i32,u64,i64}", "T T u32 | scc", _=_tested(_field)),
    **family("s_lshl*_add_u32", "u32 u32 u32 | scc", **{str(n): _shift_add(n) for n in (1, 2, 3, 4)}),
    "s_mul_i32": meaning("u32 u32 u32", np.multiply),
    **family("s_mul_hi_{u32,i32}", "T T T", _=multiply_high),
    "s_bfm_b32": meaning("u32 u32 u32", _ones(np.uint32)),
    "s_bfm_b64": meaning("u64 u32 u32", _ones(np.uint64)),
    **family("s_pack_*_b32_b16", "u32 u32 u32", ll=_pack(0, 0), lh=_pack(0, 16), hh=_pack(16, 16)),
    "s_cselect_b32": meaning("u32 u32 u32 | scc", _select),
    "s_cselect_b64": meaning("u64 u64 u64 | scc", _select),
    "s_cmov_b32": meaning("u32 u32 | scc", _keep),
    "s_cmov_b64": meaning("u64 u64 | scc", _keep),
    "s_movk_i32": meaning("i32 i16", lambda a: a.astype(np.int32)),
    "s_mulk_i32": meaning("i32 i16", lambda d, a: d * a.astype(np.int32)),
    "s_addk_i32": meaning("i32 i16 | scc", _checked(lambda d, a: d + a)),
    "s_cmovk_i32": meaning("i32 i16 | scc", lambda d, a, scc: np.where(scc, a.astype(np.int32), d)),
    **family("s_cmpk_*_i32", "i32 i16 | scc", **_TESTS),
    **family("s_cmpk_*_u32", "u32 u16 | scc", **_TESTS),
    "s_mov_b32": meaning("u32 u32", lambda a: a),
    "s_mov_b64": meaning("u64 u64", lambda a: a),
    "s_brev_b32": meaning("u32 u32", reverse_bits),
    "s_brev_b64": meaning("u64 u64", reverse_bits),
    **family("s_*_i32_b32", "i32 u32", ff1=lowest_one, ff0=lambda a: lowest_one(~a), flbit=leading_zeros),
    **family("s_*_i32_b64", "i32 u64", ff1=lowest_one, ff0=lambda a: lowest_one(~a), flbit=leading_zeros),
    "s_flbit_i32": meaning("i32 i32", leading_signs),
    "s_flbit_i32_i64": meaning("i32 i64", leading_signs),
    "s_sext_i32_i8": meaning("i32 u32", lambda a: a.astype(np.int8).astype(np.int32)),
    "s_sext_i32_i16": meaning("i32 u32", lambda a: a.astype(np.int16).astype(np.int32)),
    "s_not_b32": meaning("u32 u32 | scc", _tested(np.bitwise_not)),
    "s_not_b64": meaning("u64 u64 | scc", _tested(np.bitwise_not)),
    "s_abs_i32": meaning("i32 i32 | scc", _tested(np.abs)),
    **family("s_*_i32_b32", "u32 u32 | scc", bcnt1=_tested(count_ones), bcnt0=_tested(_zeros)),
    **family("s_*_i32_b64", "u32 u64 | scc", bcnt1=_tested(count_ones), bcnt0=_tested(_zeros)),
    "s_bitset0_b32": meaning("u32 u32", _set_bit(0)),
    "s_bitset1_b32": meaning("u32 u32", _set_bit(1)),
    **family("s_*_saveexec_b64", "u64 u64 | scc u64", **{k: _saved(f) for k, f in _LOGIC.items()}),
    **family("s_cmp_*_{i32,u32}", "T T | scc", **_TESTS),
    **family("s_cmp_*_u64", "u64 u64 | scc", eq=np.equal, lg=np.not_equal),
    **family("s_*_b32", "u32 u32 | scc", bitcmp1=_bit, bitcmp0=lambda a, n: ~_bit(a, n)),
    **family("s_*_b64", "u64 u32 | scc", bitcmp1=_bit, bitcmp0=lambda a, n: ~_bit(a, n)),
}  # fmt: skip
