"""Conversions between number types.

Floats become whole numbers by dropping the fraction; what does not fit becomes the nearest bound, a NaN 0.
Whole numbers and wider floats are rounded to the nearest float, ties to even.

    >>> MEANINGS["v_cvt_u32_f32"].function(np.float32([-3, 2.9, 1e20, np.nan]))
    array([         0,          2, 4294967295,          0], dtype=uint32)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.machines.amd.assembly.meanings.meaning import family, meaning

Array = Any
U32 = np.uint32


def _whole(kind: Any, rounding: Callable[[Array], Array] = np.trunc) -> Callable[[Array], Array]:
    bounds = np.iinfo(kind)

    def apply(a: Array) -> Array:
        number = np.nan_to_num(rounding(a.astype(np.float64)), nan=0.0, posinf=2e30, neginf=-2e30)
        return np.clip(number, bounds.min, bounds.max).astype(np.int64).astype(kind)

    return apply


def _float(kind: Any) -> Callable[[Array], Array]:
    return lambda a: a.astype(kind)


def _octet(place: int) -> Callable[[Array], Array]:
    return lambda a: (a >> U32(8 * place) & U32(255)).astype(np.float32)


def _toward_zero(a: Array) -> Array:
    """f32 to f16 bits, rounded toward zero: what is too large becomes the largest number."""
    near = a.astype(np.float16)
    too_far = np.abs(near.astype(np.float64)) > np.abs(a.astype(np.float64))
    kept = np.where(too_far, np.nextafter(near, np.float16(0)), near)
    return kept.astype(np.float16).view(np.uint16)


def _pair(low: Array, high: Array) -> Array:
    low, high = np.broadcast_arrays(low, high)
    return low.astype(U32) | high.astype(U32) << U32(16)


def _normal(kind: Any) -> Callable[[Array], Array]:
    bounds = np.iinfo(kind)
    least = -bounds.max if bounds.min else 0

    def apply(a: Array) -> Array:
        number = np.rint(np.clip(np.nan_to_num(a.astype(np.float64)), -1, 1) * bounds.max)
        return np.clip(number, least, bounds.max).astype(kind).view(np.uint16)

    return apply


def _kept(kind: Any) -> Callable[[Array], Array]:
    bounds = np.iinfo(kind)
    return lambda a: np.clip(a, bounds.min, bounds.max).astype(kind).view(np.uint16)


def _pairs(convert: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: _pair(convert(a), convert(b))


MEANINGS = {
    **family("v_cvt_f32_{i32,u32,f16,f64}", "f32 T", _=_float(np.float32)),
    **family("v_cvt_f64_{i32,u32,f32}", "f64 T", _=_float(np.float64)),
    **family("v_cvt_f16_{i16,u16,f32}", "f16 T", _=_float(np.float16)),
    **family("v_cvt_f32_ubyte*", "f32 u32", **{str(n): _octet(n) for n in range(4)}),
    **family("v_cvt_i32_{f32,f64}", "i32 T", _=_whole(np.int32)),
    **family("v_cvt_u32_{f32,f64}", "u32 T", _=_whole(np.uint32)),
    "v_cvt_i16_f16": meaning("i16 f16", _whole(np.int16)),
    "v_cvt_u16_f16": meaning("u16 f16", _whole(np.uint16)),
    "v_cvt_rpi_i32_f32": meaning("i32 f32", _whole(np.int32, lambda a: np.floor(a + 0.5))),
    "v_cvt_flr_i32_f32": meaning("i32 f32", _whole(np.int32, np.floor)),
    "v_cvt_pkrtz_f16_f32": meaning("u32 f32 f32", _pairs(_toward_zero)),
    "v_cvt_pknorm_i16_f32": meaning("u32 f32 f32", _pairs(_normal(np.int16))),
    "v_cvt_pknorm_u16_f32": meaning("u32 f32 f32", _pairs(_normal(np.uint16))),
    "v_cvt_pk_u16_u32": meaning("u32 u32 u32", _pairs(_kept(np.uint16))),
    "v_cvt_pk_i16_i32": meaning("u32 i32 i32", _pairs(_kept(np.int16))),
    "v_pack_b32_f16": meaning("u32 f16 f16", _pairs(lambda a: a.view(np.uint16))),
}  # fmt: skip
