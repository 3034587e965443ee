"""Two numbers in a register, pairs of f32, sums of mixed types, and dot products.

A packed operand arrives as an array whose first axis is the half (byte, digit); which half of a register that
is, and its sign, was chosen before by op_sel and neg.

    >>> a, b = np.int32([[1], [2], [3], [4]]), np.int32([[5], [6], [7], [8]])
    >>> MEANINGS["v_dot4_i32_i8"].function(a, b, np.int32([10]))
    array([80], dtype=int32)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.machines.amd.assembly.meanings.floats import greatest, least
from regweave.machines.amd.assembly.meanings.integers import MEANINGS as INTEGERS
from regweave.machines.amd.assembly.meanings.meaning import family, meaning
from regweave.machines.fused import fused

Array = Any
U32 = np.uint32


def _dot_floats(a: Array, b: Array, c: Array) -> Array:
    """Products of f16 are exact in f32; each is added with one rounding, the low half first."""
    for half in range(2):
        c = fused(a[half].astype(np.float32), b[half].astype(np.float32), c)
    return c


def _dot(a: Array, b: Array, c: Array) -> Array:
    return (a.astype(np.int64) * b.astype(np.int64)).sum(axis=0) + c.astype(np.int64)


def _dots(kind: Any) -> tuple[Callable[..., Array], Callable[..., Array]]:
    bounds = np.iinfo(kind)
    return (
        lambda a, b, c: (_dot(a, b, c) & 0xFFFFFFFF).astype(U32).view(kind),
        lambda a, b, c: np.clip(_dot(a, b, c), bounds.min, bounds.max).astype(kind),
    )


def _added(functions: Any) -> Any:
    """The forms that add to their destination."""
    if not isinstance(functions, tuple):
        return lambda d, a, b: functions(a, b, d)
    return tuple(_added(function) for function in functions)


def _mixed_half(high: bool) -> Callable[..., Array]:
    def apply(d: Array, a: Array, b: Array, c: Array) -> Array:
        half = fused(a, b, c).astype(np.float16).view(np.uint16).astype(U32)
        return (d & U32(0xFFFF)) | half << U32(16) if high else (d & U32(0xFFFF0000)) | half

    return apply


def _same(name: str) -> Any:
    """The function of an unpacked instruction, and the one under clamp."""
    entry = INTEGERS[name]
    return (entry.function, entry.limited) if entry.limited else entry.function


_I32, _U32 = _dots(np.int32), _dots(np.uint32)

MEANINGS = {
    **family("v_pk_*_f16", "2f16 2f16 2f16", add=np.add, mul=np.multiply, min=least, max=greatest),
    "v_pk_fma_f16": meaning("2f16 2f16 2f16 2f16", fused),
    **family("v_pk_*_u16", "2u16 2u16 2u16", add=_same("v_add_u16"), sub=_same("v_sub_u16"),
             min=np.minimum, max=np.maximum, mul_lo=np.multiply),
    **family("v_pk_*_i16", "2i16 2i16 2i16", add=_same("v_add_u16"), sub=_same("v_sub_u16"),
             min=np.minimum, max=np.maximum, ashrrev=_same("v_ashrrev_i16")),
    **family("v_pk_*_b16", "2u16 2u16 2u16", lshlrev=_same("v_lshlrev_b16"), lshrrev=_same("v_lshrrev_b16")),
    "v_pk_mad_u16": meaning("2u16 2u16 2u16 2u16", _same("v_mad_u16")),
    "v_pk_mad_i16": meaning("2i16 2i16 2i16 2i16", _same("v_mad_i16")),
    **family("v_pk_*_f32", "2f32 2f32 2f32", add=np.add, mul=np.multiply),
    "v_pk_fma_f32": meaning("2f32 2f32 2f32 2f32", fused),
    "v_pk_mov_b32": meaning("2b32 2b32 2b32", lambda a, b: np.stack(np.broadcast_arrays(a[0], b[0]))),
    "v_fma_mix_f32": meaning("f32 mix mix mix", fused),
    "v_fma_mixlo_f16": meaning("u32 mix mix mix", _mixed_half(high=False)),
    "v_fma_mixhi_f16": meaning("u32 mix mix mix", _mixed_half(high=True)),
    "v_dot2_f32_f16": meaning("f32 2f16 2f16 f32", _dot_floats),
    "v_dot2_i32_i16": meaning("i32 2i16 2i16 i32", _I32),
    "v_dot2_u32_u16": meaning("u32 2u16 2u16 u32", _U32),
    "v_dot4_i32_i8": meaning("i32 4i8 4i8 i32", _I32),
    "v_dot4_u32_u8": meaning("u32 4u8 4u8 u32", _U32),
    "v_dot8_i32_i4": meaning("i32 8i4 8i4 i32", _I32),
    "v_dot8_u32_u4": meaning("u32 8u4 8u4 u32", _U32),
    "v_dot2c_f32_f16": meaning("f32 2f16 2f16", _added(_dot_floats)),
    "v_dot2c_i32_i16": meaning("i32 2i16 2i16", _added(_I32)),
    "v_dot4c_i32_i8": meaning("i32 4i8 4i8", _added(_I32)),
    "v_dot8c_i32_i4": meaning("i32 8i4 8i4", _added(_I32)),
}  # fmt: skip
