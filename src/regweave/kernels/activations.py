"""Every element-wise operator as straight-line vector code: few instructions, at most one of them a division.

    sigmoid   1 / (1 + e)       e = 2^(-x log2 e)                                     10 operations
    SiLU      x / (1 + e)       the same e; one division serves both                  10
    GELU      x / (1 + e)       e = 2^(x P(x^2)), P fitted to log2 of (1 - F) / F,    17
                                F the normal distribution function
    GELU tanh x / (1 + e)       the same with the two terms of its definition         12
    tanh      x P(x^2) / Q(x^2) x limited to +-9, where the quotient rounds to +-1    13

2^t is a polynomial of degree 5 on the fraction of t, scaled by the whole part (see vectormath). Writing
GELU as a logistic function of an odd polynomial is what makes it short: the error of P is damped by x F (1
- F), which falls like exp(-x^2 / 2), so degree 6 suffices where the erf itself would take 14. Nothing needs
to be limited, since x P falls to -Inf on the right and rises to +Inf on the left, and the left tail keeps
relative accuracy.

Coefficients come from a fit of our own: Lawson's iteration (least squares whose weights are multiplied by
the error until it is level) on 3000 Chebyshev nodes, in float64; then each coefficient in turn, lowest
power first, is rounded to float32 and held while the rest are fitted again. Ranges, weights and errors
reached:

    EXP2      [0, 1], relative error, constant term held at 1, weight 3 at the right end so
              that 2^1 comes out as 2 and the pieces join: 8.9e-8
    GELU      [0, 6], error of the result over onnxruntime's own in the same place: 0.91
    TANH      [0, 9], relative error, P and Q of degree 4 in x^2: 4.1e-8

The errors of the results against float64, beside onnxruntime's, are measured in
tests/kernels/test_accuracy.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from regweave.errors import UnsupportedError
from regweave.kernels.vectormath import CountingMath, VectorMath
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
#: log2((1 - F(x)) / F(x)) / x: powers 0 to 6 of x^2.
GELU = (-2.3022091, -0.10483479, 9.3286137e-05, 0.00015998781, -1.1525362e-05, 3.8912293e-07, -5.2933746e-09)
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
    coefficients = GELU if op.form == "erf" else _GELU_TANH
    exponent = polynomial(math_, math_.mul(x, x), coefficients)
    return _logistic(math_, x, math_.mul(x, exponent))


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


def operation_counts(ops: Sequence[Elementwise]) -> dict[str, int]:
    """How many operations of each kind an epilogue takes per vector; operand loads are not counted."""
    math_ = CountingMath()
    activate_all(math_, ops, "x", lambda index: "operand")
    return dict(sorted(math_.counts.items()))
