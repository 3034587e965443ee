"""The three steps of an exact division: scale the operands, multiply-add with the scaling undone, repair.

A quotient n / d is refined from `v_rcp` by fused multiply-adds on scaled operands, so that nothing over- or
underflows on the way; VCC remembers whether the result must be scaled back, and `v_div_fixup` puts in the
right answers for zeros, infinities and NaN.

Facts: the pseudo-code of V_DIV_SCALE, V_DIV_FMAS and V_DIV_FIXUP in AMD's instruction set manuals. They
differ in what V_DIV_FMAS multiplies by; taken is what makes the quotient right: the scaling, up where the
quotient is large, down where it is small.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.machines.amd.assembly.meanings.meaning import family
from regweave.machines.fused import fused_scaled

Array = Any
#: By type: the power of two by which is scaled, from what distance of the exponents on, and below which
#: exponent the numerator is small.
_FACTS = {np.dtype(np.float32): (64, 96, 23), np.dtype(np.float64): (128, 768, 53)}


def _exponent(a: Array) -> Array:
    """The biased exponent, as it stands in the number."""
    if a.dtype == np.float32:
        return (a.view(np.uint32) >> np.uint32(23) & np.uint32(255)).astype(np.int64)
    return (a.view(np.uint64) >> np.uint64(52) & np.uint64(2047)).astype(np.int64)


def _scale(a: Array, d: Array, n: Array) -> tuple[Array, Array]:
    """`a` is d or n, whichever is to be scaled."""
    a, d, n = np.broadcast_arrays(a, d, n)
    step, far, low = _FACTS[a.dtype]
    up, down = np.ldexp(a, step), np.ldexp(a, -step)
    tiny = np.finfo(a.dtype).tiny
    with np.errstate(all="ignore"):
        inverse = np.abs(1 / d.astype(np.float64)) < tiny
        quotient = np.abs(n.astype(np.float64) / d.astype(np.float64)) < tiny
    result, post = a.copy(), np.zeros(a.shape, bool)
    is_d, is_n = a.view(_bits(a)) == d.view(_bits(a)), a.view(_bits(a)) == n.view(_bits(a))
    distance = _exponent(n) - _exponent(d)
    zero = (n == 0) | (d == 0)
    small_d = np.abs(d) < tiny
    cases = [
        (zero, np.full_like(a, np.nan), False),
        (distance >= far, np.where(is_d, up, a), True),
        (small_d, up, False),
        (inverse & quotient, np.where(is_d, down, a), True),
        (inverse, down, False),
        (quotient, np.where(is_n, up, a), True),
        (_exponent(n) <= low, up, False),
    ]
    left = np.ones(a.shape, bool)
    for when, value, undo in cases:
        now = left & when
        result[now] = value[now]
        post |= now & undo
        left &= ~when
    return result, post


def _bits(a: Array) -> Any:
    return np.uint32 if a.dtype == np.float32 else np.uint64


def _fmas(a: Array, b: Array, c: Array, undo: Array) -> Array:
    step = _FACTS[a.dtype][0]
    power = np.where(np.abs(c) >= 1, step, -step)
    return fused_scaled(a, b, c, np.where(undo, power, 0))


def _fixup(q: Array, d: Array, n: Array) -> Array:
    """The quotient `q` of n / d, repaired."""
    sign = np.signbit(d) ^ np.signbit(n)
    one = q.dtype.type
    result = np.where(np.isnan(q), one(np.inf), np.abs(q))  # on the way to infinity it became none
    result = np.where(sign, -result, result)
    infinite, zero = np.where(sign, one(-np.inf), one(np.inf)), np.where(sign, one(-0.0), one(0))
    result = np.where((n == 0) | np.isinf(d), zero, result)
    result = np.where((d == 0) | np.isinf(n), infinite, result)
    undefined = ((d == 0) & (n == 0)) | (np.isinf(d) & np.isinf(n)) | np.isnan(d) | np.isnan(n)
    return np.where(undefined, one(np.nan), result).astype(q.dtype)


MEANINGS = {
    **family("v_div_scale_{f32,f64}", "T mask T T T", scale=_scale),
    **family("v_div_fmas_{f32,f64}", "T T T T | mask", fmas=_fmas),
    **family("v_div_fixup_{f32,f64}", "T T T T", fixup=_fixup),
    **family("v_div_fixup_f16", "f16 f16 f16 f16", fixup=_fixup),
}
