"""Every element-wise operator as straight-line vector code: few instructions, at most one of them a division.

    sigmoid   1 / (1 + e)       e = 2^(-x log2 e)                                     10 operations
    SiLU      x / (1 + e)       the same e; one division serves both                  10
    GELU      x / 2 + x F       F = x P(x^2) / Q(x^2), the normal distribution        17
                                function less 1/2; x limited to +-5.4
    the same  x / 2 + |x| P     P from a table, where one has 16 entries              18
    GELU tanh x / (1 + e)       the same with the two terms of its definition         12
    tanh      x P(x^2) / Q(x^2) x limited to +-9, where the quotient rounds to +-1    13

2^t is a polynomial of degree 5 on the fraction of t, scaled by the whole part (see vectormath).

GELU as a quotient has only absolute accuracy in the left tail. As a logistic function of an odd polynomial,
x / (1 + 2^(x P)), it would keep the relative one, in 25 instructions that wait for one another: 17 cycles a
vector of 8 on Zen 3, where a quotient, whose two polynomials go side by side, takes 10. At the limit F is
1/2 exactly, so that beyond it the result is x or 0; x / 2 is added in the last step, since a sum F + 1/2
would be rounded once more.

A permutation of lanes is a table of as many entries as a vector has lanes. With 16 of them F is cut into 15
segments, each a polynomial of degree 5: 16 cycles a vector instead of 21 on Zen 4.

Coefficients come from a fit of our own: Lawson's iteration (least squares whose weights are multiplied by
the error until it is level) on 3000 Chebyshev nodes, in float64; then each coefficient in turn, lowest
power first, is rounded to float32 and held while the rest are fitted again. Ranges, weights and errors
reached:

    EXP2      [0, 1], relative error, constant term held at 1, weight 3 at the right end so
              that 2^1 comes out as 2 and the pieces join: 8.9e-8
    GELU      [0, 5.4], absolute error, P and Q of degree 5 in x^2: 9e-9; the constant term of Q
              is one of many tried: so that F(5.4) rounds to 1/2, and rounding errors are small
    SEGMENTS  each of 15, error times |x|, at least 0.02: 3e-9; of the result 0.8 of onnxruntime's
    TANH      [0, 9], relative error, P and Q of degree 4 in x^2: 4.1e-8

The errors of the results against float64, beside onnxruntime's, are measured in
tests/kernels/functions/test_accuracy.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from regweave.errors import UnsupportedError
from regweave.kernels.functions.vectormath import CountingMath, VectorMath
from regweave.operators import (
    AddScalar,
    ChannelAdd,
    ChannelMul,
    Clip,
    Elementwise,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    MulScalar,
    Relu,
    Sigmoid,
    Silu,
    Tanh,
    TensorAdd,
    TensorMul,
)

V = TypeVar("V")

_FACTORS = (ChannelMul, TensorMul)
_ADDENDS = (ChannelAdd, TensorAdd, AddScalar)

#: 2^t on [0, 1]: powers 0 to 5.
EXP2 = (1.0, 0.6931516, 0.24016103, 0.055812318, 0.0089997947, 0.0018752075)
#: (F(x) - 1/2) / x, F the normal distribution function: numerator and denominator, powers 0 to 5 of x^2.
GELU_P = (0.49913946, 0.041662134, 0.0058133737, 0.00020466342, 7.9517113e-06, 2.9338340e-08)
GELU_Q = (1.2511572, 0.31295705, 0.035453781, 0.0023206486, 9.0288966e-05, 1.5239909e-06)
GELU_RANGE = 5.4
"""The quotient rounds to 1/2 there."""
#: F(a) - 1/2 in 15 segments of [0, 5.5] and beyond: powers 0 to 5 of the place in the segment, -1/2 to 1/2.
GELU_SEGMENTS = (
    (
        0.072731756, 0.20884031, 0.32034132, 0.40031233, 0.45052853, 0.47813484, 0.49142167, 0.49702024,
        0.49908546, 0.4997524, 0.49994093, 0.4999876, 0.4999977, 0.49999964, 0.49999994, 0.5,
    ),
    (
        0.14384109, 0.12574607, 0.0960987, 0.06420252, 0.03749714, 0.019145017, 0.0085452525,
        0.0033343052, 0.0011373595, 3.3915657e-04, 8.8413966e-05, 2.0148591e-05, 4.0145715e-06,
        6.9809147e-07, 1.0690331e-07, 0,
    ),
    (
        -0.004834488, -0.012679158, -0.016149372, -0.015105204, -0.011342961, -0.0070783314,
        -0.003733715, -0.0016813036, -6.4978073e-04, -2.1682859e-04, -6.210217e-05, -1.5548127e-05,
        -3.1603392e-06, -1.059638e-06, 1.1045715e-07, 0,
    ),
    (
        -0.003114932, -0.001965124, -3.4407753e-04, 9.30644e-04, 0.0014472293, 0.0013156594,
        8.961479e-04, 4.903426e-04, 2.2205987e-04, 8.46376e-05, 2.7355001e-05, 7.5733046e-06,
        1.7823917e-06, 3.9961347e-07, 5.0245156e-08, 0,
    ),
    (
        1.5944261e-04, 3.8044254e-04, 3.8710452e-04, 2.2786208e-04, 3.6223315e-05, -8.382956e-05,
        -1.12015e-04, -8.4827894e-05, -4.9354865e-05, -2.1320964e-05, -9.5423065e-06, -2.7203566e-06,
        -1.5395e-06, 1.5415571e-06, -8.851013e-07, 0,
    ),
    (
        6.0441667e-05, 2.3500303e-05, -1.8570938e-05, -3.9888022e-05, -3.3241635e-05, -1.3944756e-05,
        1.5266211e-06, 7.250659e-06, 6.7181422e-06, 3.855281e-06, 1.9032138e-06, 6.5916925e-07,
        2.624905e-07, -7.692488e-08, 6.93137e-08, 0,
    ),
)  # fmt: skip
GELU_LIMIT = 5.5
#: tanh(x) / x: numerator and denominator, powers 0 to 4 of x^2, and the limit of |x|.
TANH_P = (1.0, 0.13381024, 0.0034955924, 2.0609006e-05, 1.3355445e-08)
TANH_Q = (1.0, 0.4671434, 0.025876986, 0.00032856368, 7.7765685e-07)
TANH_LIMIT = 9.0

_LOG2_E = math.log2(math.e)
_GELU_TANH = (-2.0 * math.sqrt(2.0 / math.pi) * _LOG2_E, -2.0 * math.sqrt(2.0 / math.pi) * 0.044715 * _LOG2_E)


def polynomial(math_: VectorMath[V], x: V, coefficients: Sequence[float]) -> V:
    """Horner's rule, one fma a step; powers ascend, at least two of them."""
    value = math_.fma(x, coefficients[-1], coefficients[-2])
    for coefficient in coefficients[-3::-1]:
        value = math_.fma(value, x, coefficient)
    return value


def exp2(math_: VectorMath[V], t: V) -> V:
    """2^t: 0 and Inf at the ends of the range, relative error about 1.5e-7 inside it."""
    fraction, whole = math_.split(t)
    return math_.scale(polynomial(math_, fraction, EXP2), whole)


def _logistic(math_: VectorMath[V], x: V | float, t: V) -> V:
    """x / (1 + 2^t)."""
    return math_.div(x, math_.add(exp2(math_, t), 1.0))


def _sigmoid(math_: VectorMath[V], op: Sigmoid, x: V) -> V:
    return _logistic(math_, 1.0, math_.mul(x, -_LOG2_E))


def _silu(math_: VectorMath[V], op: Silu, x: V) -> V:
    return _logistic(math_, x, math_.mul(x, -_LOG2_E))


def _gelu(math_: VectorMath[V], op: Gelu, x: V) -> V:
    if op.form == "erf" and math_.entries >= len(GELU_SEGMENTS[0]):
        return _gelu_by_table(math_, x)
    if op.form == "erf":
        return _gelu_by_quotient(math_, x)
    exponent = polynomial(math_, math_.mul(x, x), _GELU_TANH)
    return _logistic(math_, x, math_.mul(x, exponent))


def _gelu_by_quotient(math_: VectorMath[V], x: V) -> V:
    """x / 2 + x (F(x) - 1/2)."""
    limited = math_.at_most(math_.at_least(x, -GELU_RANGE), GELU_RANGE)
    square = math_.mul(limited, limited)
    numerator = math_.mul(limited, polynomial(math_, square, GELU_P))
    quotient = math_.div(numerator, polynomial(math_, square, GELU_Q))
    return math_.fma(quotient, x, math_.mul(x, 0.5))


def _gelu_by_table(math_: VectorMath[V], x: V) -> V:
    """x / 2 + |x| (F(|x|) - 1/2); the difference is 1/2 exactly from GELU_LIMIT on."""
    segments = len(GELU_SEGMENTS[0]) - 1
    density = segments / GELU_LIMIT
    magnitude = math_.magnitude(x)
    limited = math_.at_most(magnitude, (segments + 0.5) / density)
    distance, place = math_.nearest(math_.fma(limited, density, -0.5))
    value = math_.lookup(GELU_SEGMENTS[-1], place)
    for table in GELU_SEGMENTS[-2::-1]:
        value = math_.fma(value, distance, math_.lookup(table, place))
    return math_.fma(value, magnitude, math_.mul(x, 0.5))


def _tanh(math_: VectorMath[V], op: Tanh, x: V) -> V:
    x = math_.at_most(math_.at_least(x, -TANH_LIMIT), TANH_LIMIT)
    square = math_.mul(x, x)
    numerator = math_.mul(x, polynomial(math_, square, TANH_P))
    return math_.div(numerator, polynomial(math_, square, TANH_Q))


def _relu(math_: VectorMath[V], op: Relu, x: V) -> V:
    return math_.at_least(x, 0.0)


def _leaky_relu(math_: VectorMath[V], op: LeakyRelu, x: V) -> V:
    """Whichever of x and alpha x is larger, or smaller if alpha > 1: no comparison, no mask."""
    if op.alpha == 0.0:
        return math_.at_least(x, 0.0)
    scaled = math_.mul(x, op.alpha)
    return math_.larger(x, scaled) if op.alpha <= 1.0 else math_.smaller(x, scaled)


def _clip(math_: VectorMath[V], op: Clip, x: V) -> V:
    if op.low != -math.inf:
        x = math_.at_least(x, op.low)
    if op.high != math.inf:
        x = math_.at_most(x, op.high)
    return x


def _hard_sigmoid(math_: VectorMath[V], op: HardSigmoid, x: V) -> V:
    line = math_.fma(x, op.alpha, op.beta)
    return math_.at_most(math_.at_least(line, 0.0), 1.0)


def _hard_swish(math_: VectorMath[V], op: HardSwish, x: V) -> V:
    return math_.mul(x, _hard_sigmoid(math_, HardSigmoid(1.0 / 6.0, 0.5), x))


def _add_scalar(math_: VectorMath[V], op: AddScalar, x: V) -> V:
    return math_.add(x, op.value)


def _mul_scalar(math_: VectorMath[V], op: MulScalar, x: V) -> V:
    return math_.mul(x, op.value)


_CODE: dict[type[Elementwise], Callable[..., object]] = {
    Relu: _relu,
    LeakyRelu: _leaky_relu,
    Clip: _clip,
    HardSigmoid: _hard_sigmoid,
    HardSwish: _hard_swish,
    AddScalar: _add_scalar,
    MulScalar: _mul_scalar,
    Sigmoid: _sigmoid,
    Silu: _silu,
    Gelu: _gelu,
    Tanh: _tanh,
}


def activate(math_: VectorMath[V], op: Elementwise, x: V, operand: V | None = None) -> V:
    """`op` applied to the vector `x`; `operand` is the loaded second operand of a Channel or Tensor operator.

    Errors: UnsupportedError for an operator without code here.
    """
    if operand is not None and isinstance(op, _ADDENDS):
        return math_.add(x, operand)
    if operand is not None and isinstance(op, _FACTORS):
        return math_.mul(x, operand)
    code = _CODE.get(type(op))
    if code is None:
        raise UnsupportedError(f"no kernel code for {op!r}", expected="an operator of regweave.operators")
    return code(math_, op, x)  # type: ignore[return-value]


def activate_all(math_: VectorMath[V], ops: Sequence[Elementwise], x: V, load: Callable[[int], V]) -> V:
    """A whole epilogue on one vector; `load(i)` gives the second operand of operator i when it is needed.

    A multiplication followed by an addition becomes one fma (a folded batch norm is scale, then shift).
    """
    index = 0
    while index < len(ops):
        op = ops[index]
        operand = load(index) if op.operand != "none" else None
        factor = op.value if isinstance(op, MulScalar) else operand if isinstance(op, _FACTORS) else None
        following = ops[index + 1] if index + 1 < len(ops) else None
        if factor is not None and isinstance(following, _ADDENDS):
            index += 1
            x = math_.fma(x, factor, following.value if isinstance(following, AddScalar) else load(index))
        else:
            x = activate(math_, op, x, operand)
        index += 1
    return x


def lookup_tables(ops: Sequence[Elementwise], entries: int) -> tuple[tuple[float, ...], ...]:
    """The tables that an epilogue looks up on vectors of so many entries."""
    segments = any(isinstance(op, Gelu) and op.form == "erf" for op in ops)
    return GELU_SEGMENTS if segments and entries >= len(GELU_SEGMENTS[0]) else ()


def operation_counts(ops: Sequence[Elementwise]) -> dict[str, int]:
    """How many operations of each kind an epilogue takes per vector; operand loads are not counted."""
    math_ = CountingMath()
    activate_all(math_, ops, "x", lambda index: "operand")
    return dict(sorted(math_.counts.items()))
