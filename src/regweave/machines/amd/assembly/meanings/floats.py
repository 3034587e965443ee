"""Floating-point arithmetic of the vector unit: add, multiply, compare sizes, special functions, division.

Results are rounded to nearest even, denormal numbers are kept: the mode that kernels of this library start
in. The forms called mad and mac are older: they round twice and flush denormal numbers to zero. The
special functions are good to one unit in the last place on the device; here they are rounded correctly.

    >>> MEANINGS["v_mul_legacy_f32"].function(np.float32([0]), np.float32([np.inf]))
    array([0.], dtype=float32)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.machines.amd.assembly.meanings.meaning import family, meaning
from regweave.machines.fused import fused

Array = Any
_WORDS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits_of(a: Array) -> Array:
    """The bit pattern of floats as unsigned integers."""
    return a.view(_WORDS[a.dtype.itemsize])


def _subrev(a: Array, b: Array) -> Array:
    return b - a


def _mul_legacy(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (b == 0), np.float32(0), a * b)


def least(a: Array, b: Array) -> Array:
    """The smaller number; -0 is smaller than 0, a NaN loses."""
    smaller = (a < b) | ((a == b) & np.signbit(a)) | np.isnan(b)
    return np.where(smaller, a, b)


def greatest(a: Array, b: Array) -> Array:
    """The larger number; 0 is larger than -0, a NaN loses."""
    larger = (a > b) | ((a == b) & ~np.signbit(a)) | np.isnan(b)
    return np.where(larger, a, b)


def _median(a: Array, b: Array, c: Array) -> Array:
    """The number in the middle; the least if one is none."""
    middle = greatest(least(a, b), least(greatest(a, b), c))
    undefined = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(undefined, least(least(a, b), c), middle)


def _flush(a: Array) -> Array:
    tiny = np.abs(a) < np.finfo(a.dtype).tiny
    return np.where(tiny, np.copysign(a.dtype.type(0), a), a)


def _mad(a: Array, b: Array, c: Array) -> Array:
    return _flush(_flush(_flush(a) * _flush(b)) + _flush(c))


def _mac(d: Array, a: Array, b: Array) -> Array:
    return _mad(a, b, d)


def _fmac(d: Array, a: Array, b: Array) -> Array:
    return fused(a, b, d)


def _fract(a: Array) -> Array:
    """Never 1: a little below a whole number it is the largest float below 1."""
    below = np.nextafter(a.dtype.type(1), a.dtype.type(0))
    rest = a.astype(np.float64) - np.floor(a.astype(np.float64))
    return np.where(np.isinf(a), a.dtype.type(0), np.minimum(rest.astype(a.dtype), below))


def _wide(function: Any) -> Any:
    """A function that is worked out in float64 and rounded."""

    def apply(a: Array) -> Array:
        return function(a.astype(np.float64)).astype(a.dtype)

    return apply


def _turns(function: Any) -> Any:
    """Sine and cosine of an angle in turns; beyond 256 turns the device gives 0 (1 for the cosine)."""

    def apply(a: Array) -> Array:
        x = a.astype(np.float64)
        value = function(2 * np.pi * np.fmod(x, 1.0))
        return np.where(np.abs(x) > 256, function(np.float64(0)), value).astype(a.dtype)

    return apply


def _frexp_mant(a: Array) -> Array:
    finite = np.isfinite(a)
    return np.where(finite, np.frexp(np.where(finite, a, 0))[0], a).astype(a.dtype)


def _frexp_exp(a: Array) -> Array:
    finite = np.isfinite(a)
    return np.where(finite, np.frexp(np.where(finite, a, 0))[1], 0).astype(np.int32)


def _ldexp(a: Array, n: Array) -> Array:
    return _scale(a, n.astype(np.int32))


def _scale(a: Array, n: Array) -> Array:
    """a * 2^n with one rounding."""
    return np.ldexp(a, np.clip(n, -5000, 5000)).astype(a.dtype)


def _is_class(a: Array, wanted: Array) -> Array:
    """Whether a float is of one of the kinds that a mask of ten bits names."""
    bits, info = bits_of(a), np.finfo(a.dtype)
    negative, undefined, infinite = np.signbit(a), np.isnan(a), np.isinf(a)
    quiet = (bits >> bits.dtype.type(info.nmant - 1) & bits.dtype.type(1)) == 1
    zero = a == 0
    small = ~zero & ~undefined & (np.abs(a) < info.tiny)
    normal = ~zero & ~small & ~undefined & ~infinite
    kinds = [undefined & ~quiet, undefined & quiet]
    kinds += [negative & kind for kind in (infinite, normal, small, zero)]
    kinds += [~negative & kind for kind in (zero, small, normal, infinite)]
    found = np.zeros(np.broadcast_shapes(a.shape, wanted.shape), bool)
    for bit, kind in enumerate(kinds):
        found |= kind & ((wanted >> np.uint32(bit) & np.uint32(1)) == 1)
    return found


_TESTS = {
    "f": lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), bool),
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": np.greater_equal,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "tru": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), bool),
}


def also_exec(test: Any) -> Any:
    """A comparison whose result goes to EXEC too."""

    def apply(a: Array, b: Array) -> tuple[Array, Array]:
        found = test(a, b)
        return found, found

    return apply


_THREE = {
    "min3": lambda a, b, c: least(least(a, b), c),
    "max3": lambda a, b, c: greatest(greatest(a, b), c),
    "med3": _median,
}
_BOTH = {"add": np.add, "mul": np.multiply, "max": greatest, "min": least}
_ROUND = {"trunc": np.trunc, "ceil": np.ceil, "rndne": np.rint, "floor": np.floor, "fract": _fract}
_ROOTS = {"rcp": _wide(lambda a: 1 / a), "rsq": _wide(lambda a: 1 / np.sqrt(a)), "sqrt": np.sqrt}

MEANINGS = {
    **family("v_*_{f32,f16}", "T T T", sub=np.subtract, subrev=_subrev, **_BOTH),
    **family("v_*_f64", "f64 f64 f64", **_BOTH),
    "v_mul_legacy_f32": meaning("f32 f32 f32", _mul_legacy),
    **family("v_fmac_{f32,f64}", "T T T", fmac=_fmac),
    **family("v_mac_{f32,f16}", "T T T", mac=_mac),
    **family("v_*_f32", "f32 f32 f32 f32", mad=_mad, madmk=_mad, madak=_mad, fmamk=fused, fmaak=fused),
    **family("v_*_f16", "f16 f16 f16 f16", madmk=_mad, madak=_mad, mad_legacy=_mad),
    **family("v_*_f16", "f16 f16 f16 f16", mad=_mad, fma=fused),
    **family("v_fma_{f32,f64}", "T T T T", fma=fused),
    **family("v_*_f32", "f32 f32 f32 f32", **_THREE),
    **family("v_*_f16", "f16 f16 f16 f16", **_THREE),
    **family("v_*_{f32,f16,f64}", "T T", **_ROUND, **_ROOTS, frexp_mant=_frexp_mant),
    **family("v_*_{f32,f16}", "T T", exp=_wide(np.exp2), log=_wide(np.log2), sin=_turns(np.sin),
             cos=_turns(np.cos)),
    "v_rcp_iflag_f32": meaning("f32 f32", _ROOTS["rcp"]),
    **family("v_frexp_exp_i32_{f32,f64}", "i32 T", frexp=_frexp_exp),
    "v_ldexp_f32": meaning("f32 f32 i32", _ldexp),
    "v_ldexp_f16": meaning("f16 f16 i16", _ldexp),
    "v_ldexp_f64": meaning("f64 f64 i32", _ldexp),
    **family("v_cmp_*_{f32,f16,f64}", "mask T T", **_TESTS),
    **family("v_cmpx_*_{f32,f16}", "mask T T | mask", **{k: also_exec(f) for k, f in _TESTS.items()}),
    **family("v_cmp_class_{f32,f16,f64}", "mask T u32", class_=_is_class),
}  # fmt: skip
