"""Conversions of gfx942 between f32 and its 8-bit floats, which have no infinity.

What is too large for the 8-bit type becomes its NaN. Which half of a register, or which byte, is meant, the
operands' selections say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.machines.amd.assembly.meanings.meaning import family
from regweave.programs.numbers import decode, encode

Array = Any
_NAN = 0x80
#: From where on a number is nearer to what would follow the largest one.
_LIMITS = {"e4m3fnuz": 248.0, "e5m2fnuz": 61440.0}


def _narrow(a: Array, dtype: str) -> Array:
    lost = ~(np.abs(a) < _LIMITS[dtype])
    return np.where(lost, np.uint32(_NAN), encode(np.where(lost, np.float32(0), a), dtype))


def _pack(dtype: str) -> Callable[[Array, Array, Array], Array]:
    def apply(d: Array, a: Array, b: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        return (_narrow(a, dtype) | _narrow(b, dtype) << np.uint32(8)).astype(np.uint16)

    return apply


def _widen(dtype: str) -> Callable[[Array], Array]:
    return lambda a: decode(a & np.uint32(255), dtype).astype(np.float32)


def _pair(dtype: str) -> Callable[[Array], Array]:
    widen = _widen(dtype)
    return lambda a: np.stack([widen(a), widen(a >> np.uint32(8))])


_TYPES = {"fp8": "e4m3fnuz", "bf8": "e5m2fnuz"}
MEANINGS = {
    **family("v_cvt_pk_*_f32", "u16 f32 f32", **{k: _pack(d) for k, d in _TYPES.items()}),
    **family("v_cvt_f32_*", "f32 u32", **{k: _widen(d) for k, d in _TYPES.items()}),
    **family("v_cvt_pk_f32_*", "2f32 u32", **{k: _pair(d) for k, d in _TYPES.items()}),
}
