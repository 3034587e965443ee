"""The few float32 vector operations from which every activation is built, and two ways to carry them out.

An activation is written once, over a `VectorMath`, and means the same everywhere:

    NumpyMath      runs it on float32 arrays: the portable device, and the tests of accuracy
    CountingMath   counts operations: what an activation costs, told before any machine is chosen
    (kernels)      the assembly generators have one that emits instructions on named registers

so what the tests measure in NumPy is what the kernel computes, operation by operation. The set is small on
purpose and follows what vector units have in one instruction. A Python float stands for a constant in all
lanes.

Worked example, the heart of sigmoid, 2^t for any t:

    fraction, whole = math.split(t)         t = 5.25: fraction 0.25, whole 5
    p = polynomial(fraction)                2^0.25
    math.scale(p, whole)                    2^0.25 * 2^5

`whole` is opaque: a machine whose scaling instruction takes the floor itself passes t through, another one
limits t, rounds it down and builds the power of two with integer instructions.

A machine with `entries` > 0 can also take a coefficient for each lane from a table of so many:

    distance, place = math.nearest(t)       t = 5.25: distance 0.25, place 5
    math.lookup(table, place)               table[5]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

V = TypeVar("V")

#: Beyond 2^this a float32 has left its range on either side: 2^-149 is the smallest denormal, 2^128 is Inf.
_EXPONENT_LIMIT = 300


class VectorMath(Protocol[V]):
    """Operations on vectors of float32; each returns a new vector and leaves its operands alone."""

    def add(self, a: V, b: V | float) -> V:
        """a + b."""
        ...

    def mul(self, a: V, b: V | float) -> V:
        """a * b."""
        ...

    def div(self, a: V | float, b: V) -> V:
        """a / b, correctly rounded."""
        ...

    def fma(self, a: V, b: V | float, c: V | float) -> V:
        """a * b + c with one rounding."""
        ...

    def at_least(self, x: V, low: float) -> V:
        """max(x, low); a NaN stays NaN."""
        ...

    def at_most(self, x: V, high: float) -> V:
        """min(x, high); a NaN stays NaN."""
        ...

    def larger(self, a: V, b: V) -> V:
        """a where a > b, else b (also where either is NaN)."""
        ...

    def smaller(self, a: V, b: V) -> V:
        """a where a < b, else b (also where either is NaN)."""
        ...

    def split(self, t: V) -> tuple[V, V]:
        """(t - floor(t), a token for floor(t)); the fraction of +-Inf is such that `scale` gives Inf or 0."""
        ...

    def scale(self, p: V, whole: V) -> V:
        """p * 2^floor(t) for a token of `split`, p positive; what is below the normal range may become 0."""
        ...

    @property
    def entries(self) -> int:
        """How many entries a table of `lookup` has; 0 where there are no tables."""
        ...

    def magnitude(self, x: V) -> V:
        """|x|."""
        ...

    def nearest(self, t: V) -> tuple[V, V]:
        """(t - n, a token for n), n the integer next to t; |t| < 2^21. A NaN stays in the first."""
        ...

    def lookup(self, table: Sequence[float], place: V) -> V:
        """The entry n of a table, for a token of `nearest` with n in it; any entry where t was NaN."""
        ...


def _f32(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else np.float32(value)


class NumpyMath:
    """float32 arithmetic in NumPy. `fma` is float64 rounded to float32: the product is exact, as in hardware.

    Sum and conversion round twice; this differs from a true fma once in some 10^8 operations, by one unit.
    """

    def __init__(self, entries: int = 0) -> None:
        self.entries = entries

    def add(self, a: np.ndarray, b: np.ndarray | float) -> np.ndarray:
        with np.errstate(all="ignore"):
            return a + _f32(b)

    def mul(self, a: np.ndarray, b: np.ndarray | float) -> np.ndarray:
        with np.errstate(all="ignore"):
            return a * _f32(b)

    def div(self, a: np.ndarray | float, b: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return _f32(a) / b

    def fma(self, a: np.ndarray, b: np.ndarray | float, c: np.ndarray | float) -> np.ndarray:
        with np.errstate(all="ignore"):
            exact = a.astype(np.float64) * _f32(b) + _f32(c)
            return exact.astype(np.float32)

    def at_least(self, x: np.ndarray, low: float) -> np.ndarray:
        return np.maximum(x, np.float32(low))

    def at_most(self, x: np.ndarray, high: float) -> np.ndarray:
        return np.minimum(x, np.float32(high))

    def larger(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(a > b, a, b)

    def smaller(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(a < b, a, b)

    def split(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            fraction = t - np.floor(t)
        return np.where(np.isinf(t), np.float32(0.0), fraction), t

    def scale(self, p: np.ndarray, whole: np.ndarray) -> np.ndarray:
        limited = np.clip(np.nan_to_num(whole, nan=0.0), -_EXPONENT_LIMIT, _EXPONENT_LIMIT)
        with np.errstate(all="ignore"):
            return np.ldexp(p, np.floor(limited).astype(np.int32))

    def magnitude(self, x: np.ndarray) -> np.ndarray:
        return np.abs(x)

    def nearest(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = np.rint(t)
        return t - place, place

    def lookup(self, table: Sequence[float], place: np.ndarray) -> np.ndarray:
        return np.asarray(table, np.float32)[np.nan_to_num(place).astype(np.intp)]


class CountingMath:
    """Carries nothing out and counts: `counts` maps the name of an operation to how often it was used."""

    def __init__(self, entries: int = 0) -> None:
        self.entries = entries
        self.counts: Counter[str] = Counter()

    def _count(self, name: str) -> str:
        self.counts[name] += 1
        return name

    def add(self, a: Any, b: Any) -> str:
        return self._count("add")

    def mul(self, a: Any, b: Any) -> str:
        return self._count("mul")

    def div(self, a: Any, b: Any) -> str:
        return self._count("div")

    def fma(self, a: Any, b: Any, c: Any) -> str:
        return self._count("fma")

    def at_least(self, x: Any, low: float) -> str:
        return self._count("max")

    def at_most(self, x: Any, high: float) -> str:
        return self._count("min")

    def larger(self, a: Any, b: Any) -> str:
        return self._count("max")

    def smaller(self, a: Any, b: Any) -> str:
        return self._count("min")

    def split(self, t: Any) -> tuple[str, str]:
        return self._count("split"), "whole"

    def scale(self, p: Any, whole: Any) -> str:
        return self._count("scale")

    def magnitude(self, x: Any) -> str:
        return self._count("abs")

    def nearest(self, t: Any) -> tuple[str, str]:
        return self._count("nearest"), "place"

    def lookup(self, table: Sequence[float], place: Any) -> str:
        return self._count("lookup")
