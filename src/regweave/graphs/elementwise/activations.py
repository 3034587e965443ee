"""Polynomials of one unknown (see `polynomials`) as activations: comparing coefficients.

0.5 x + 0.5 x erf(0.7071 x)    ->   Gelu
x / 6 * clip(x + 3, 0, 6)      ->   HardSwish
x sigmoid(1.702 x)             ->   MulScalar(1.702), Silu, MulScalar(1 / 1.702)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from regweave.graphs.elementwise.polynomials import Atom, Polynomial
from regweave.graphs.elementwise.unary import FLOAT_MAX, Ops, is_close, scaled, scaled_silu
from regweave.operators import (
    AddScalar,
    Clip,
    Elementwise,
    Gelu,
    HardSigmoid,
    HardSwish,
    MulScalar,
    Relu,
    Sigmoid,
    Tanh,
)

TANH_INNER = math.sqrt(2.0 / math.pi)
TANH_CUBIC = 0.044715
CUBIC_STEPS = 8.0


def apply(op: Elementwise, x: Polynomial) -> Polynomial | None:
    match op:
        case Clip(low=low, high=high):
            return clipped(x, low, high)
        case Relu():
            return clipped(x, 0.0, math.inf)
        case HardSigmoid(alpha=alpha, beta=beta):
            inner = x.scaled(alpha).plus(Polynomial.constant(beta))
            return None if inner is None else clipped(inner, 0.0, 1.0)
        case MulScalar(value=value):
            return x.scaled(value)
    return None


def clipped(x: Polynomial, low: float, high: float) -> Polynomial | None:
    """min(max(x, low), high); a clip of a clip is one clip."""
    if len(x.terms) == 1 and low <= high:
        ((monomial, factor),) = x.terms.items()
        inner = monomial[0] if len(monomial) == 1 else None
        if isinstance(inner, Atom) and inner.name == "clip" and factor == 1.0:
            bounds = (min(max(bound, low), high) for bound in inner.parameters)
            return Polynomial({(Atom("clip", tuple(bounds), inner.argument),): 1.0})
    return x.atom("clip", low, high)


def _power(base: Polynomial, exponent: Polynomial) -> Polynomial | None:
    powers = exponent.in_x()
    if powers is None or len(powers) != 1 or powers[0] not in (1.0, 2.0, 3.0):
        return None
    result: Polynomial | None = base
    for _ in range(int(powers[0]) - 1):
        result = None if result is None else result.times(base)
    return result


def _quotient(a: Polynomial, b: Polynomial) -> Polynomial | None:
    divisor = b.in_x()
    return a.scaled(1.0 / divisor[0]) if divisor is not None and len(divisor) == 1 and divisor[0] else None


ARITHMETIC: Mapping[str, Callable[[Polynomial, Polynomial], Polynomial | None]] = {
    "Add": lambda a, b: a.plus(b),
    "Sum": lambda a, b: a.plus(b),
    "Sub": lambda a, b: a.plus(b.scaled(-1.0)),
    "Mul": lambda a, b: a.times(b),
    "Div": _quotient,
    "Pow": _power,
}


def match(value: Polynomial) -> Ops | None:
    """Operators that compute the polynomial, or None if it is no activation that this project has."""
    if any(abs(factor) > FLOAT_MAX for factor in value.terms.values()):
        return None
    plain = value.in_x()
    if plain is not None:
        return _affine(*plain, *([0.0] * (2 - len(plain)))) if len(plain) <= 2 else None
    parts = value.split()
    if parts is None:
        return None
    outside, atom, factor = parts
    if len(factor) == 2 and factor[0] == 0.0:
        return _gate(outside, atom, factor[1])
    if len(factor) == 1 and len(outside) == 1 and len(atom.argument) <= 2:
        inner = _affine(*atom.argument, *([0.0] * (2 - len(atom.argument))))
        outer = _affine(outside[0], factor[0])
        op = _function(atom)
        return None if op is None else (*inner, op, *outer)
    return None


def _affine(offset: float, factor: float) -> Ops:
    """factor * x + offset."""
    scale = () if factor == 1.0 else (MulScalar(factor),)
    return (*scale, *(() if offset == 0.0 else (AddScalar(offset),)))


def _function(atom: Atom) -> Elementwise | None:
    if atom.name == "clip":
        return Clip(*atom.parameters)
    return {"sigmoid": Sigmoid(), "tanh": Tanh()}.get(atom.name)


def _gate(outside: tuple[float, ...], atom: Atom, factor: float) -> Ops | None:
    """outside(x) + factor * x * atom."""
    argument = atom.argument
    if atom.name in ("erf", "tanh"):
        if len(outside) != 2 or outside[0] != 0.0 or not is_close(outside[1], factor):
            return None
        if atom.name == "erf":
            return _gelu_erf(argument, factor)
        if len(argument) == 2 and argument[0] == 0.0:
            return scaled_silu(2.0 * argument[1], 2.0 * factor)
        return _gelu_tanh(argument, factor)
    if any(outside):
        return None
    if atom.name == "sigmoid":
        if len(argument) == 2 and argument[0] == 0.0:
            return scaled_silu(argument[1], factor)
        return _gelu_tanh(tuple(value / 2.0 for value in argument), factor / 2.0)
    return _hard_swish(atom, factor)


def _gelu_erf(argument: tuple[float, ...], factor: float) -> Ops | None:
    """factor * x * (1 + erf(k x)), where a plain GELU has factor 1/2 and k = 1/sqrt(2)."""
    if len(argument) != 2 or argument[0] != 0.0 or argument[1] == 0.0:
        return None
    inner = argument[1] * math.sqrt(2.0)
    return scaled(Gelu("erf"), inner, 2.0 * factor / inner)


def _gelu_tanh(argument: tuple[float, ...], factor: float) -> Ops | None:
    """factor * x * (1 + tanh(a x + b x^3)), where a plain GELU has a = sqrt(2/pi), b = 0.044715 a.

    Exporters write the constants with more or fewer digits: the cubic term may differ by one part in 10^6.
    """
    if len(argument) != 4 or argument[0] or argument[2] or argument[1] == 0.0:
        return None
    inner = argument[1] / TANH_INNER
    if not is_close(argument[3], TANH_CUBIC * TANH_INNER * inner**3, CUBIC_STEPS):
        return None
    return scaled(Gelu("tanh"), inner, 2.0 * factor / inner)


def _hard_swish(atom: Atom, factor: float) -> Ops | None:
    """factor * x * clip(a x + b, 0, high), where a plain hard-swish has a = 1/6, b = 1/2, high = 1."""
    low, high = atom.parameters
    if len(atom.argument) != 2 or low != 0.0 or not 0.0 < high < math.inf:
        return None
    offset, slope = (value / high for value in atom.argument)
    if not is_close(offset, 0.5) or slope == 0.0:
        return None
    inner = 6.0 * slope
    return scaled(HardSwish(), inner, factor * high / inner)
