"""Element-wise work that can be done on a result while it is still in registers.

Each operator is a small frozen value: it compares, hashes and prints, and it knows its own meaning as float64
arithmetic (`reference`), against which every kernel is checked.

    >>> LeakyRelu(0.5).reference(np.array([-2.0, 3.0]))
    array([-1.,  3.])

Parameters are rounded to float32 when the value is made, because that is what a kernel will hold: the
reference then describes the same function as the kernel, not one whose constants differ in the ninth digit.
NaN and Inf follow IEEE 754 and NumPy's `maximum` / `minimum`: a NaN stays a NaN through every operator.

Three kinds of operand exist beside the value itself: none; a vector with one float per output channel, known
when the kernel is built (bias, scale); a whole tensor of the result's shape, known only when it runs
(a residual).
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Literal

import numpy as np

from regweave.errors import InputError
from regweave.values import frozen

OperandKind = Literal["none", "channel", "tensor"]


def float32_parameter(value: float, where: str, *, infinite: bool = False) -> float:
    """`value` rounded to float32, as a Python float; NaN (and Inf unless allowed) is an InputError."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{value!r} is not a number", where=where, expected="a float") from None
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number)) + 0.0  # kernels of equal operators are shared, and -0.0 == 0.0
    if math.isnan(rounded) or (math.isinf(rounded) and not infinite):
        raise InputError(f"{number!r} cannot be a parameter", where=where, expected="a finite float32 number")
    return rounded


@frozen
class Elementwise:
    """Base of all element-wise operators.

    `name` is the word a person writes (`"leaky_relu"`); `operand` the kind of second operand it takes.
    """

    name: ClassVar[str] = ""
    operand: ClassVar[OperandKind] = "none"

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        """The result for `x` in float64, any shape; `operand` already broadcasts against `x`."""
        raise NotImplementedError

    def __str__(self) -> str:
        values = [f"{getattr(self, field.name):g}" for field in dataclasses.fields(self)]
        return f"{self.name}({', '.join(values)})" if values else self.name

    def _round(self, *, infinite: bool = False) -> None:
        """Round every parameter to float32; called by the subclasses that have some."""
        for field in dataclasses.fields(self):
            where = f"{type(self).__name__}.{field.name}"
            object.__setattr__(
                self, field.name, float32_parameter(getattr(self, field.name), where, infinite=infinite)
            )


@frozen
class Relu(Elementwise):
    """max(x, 0)."""

    name: ClassVar[str] = "relu"

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        return np.maximum(x, 0.0)


@frozen
class LeakyRelu(Elementwise):
    """x where x >= 0, alpha * x below; with alpha 0 it is ReLU, at -Inf too."""

    alpha: float = 0.01
    name: ClassVar[str] = "leaky_relu"

    def __post_init__(self) -> None:
        self._round()

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        if self.alpha == 0.0:
            return np.maximum(x, 0.0)
        return np.where(x < 0.0, self.alpha * x, x)


@frozen
class Clip(Elementwise):
    """min(max(x, low), high); an infinite bound leaves that side open. ReLU6 is Clip(0, 6)."""

    low: float = -math.inf
    high: float = math.inf
    name: ClassVar[str] = "clip"

    def __post_init__(self) -> None:
        self._round(infinite=True)

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        return np.minimum(np.maximum(x, self.low), self.high)


@frozen
class HardSigmoid(Elementwise):
    """min(max(alpha * x + beta, 0), 1)."""

    alpha: float = 0.2
    beta: float = 0.5
    name: ClassVar[str] = "hard_sigmoid"

    def __post_init__(self) -> None:
        self._round()

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        return np.clip(self.alpha * x + self.beta, 0.0, 1.0)


@frozen
class HardSwish(Elementwise):
    """x * min(max(x / 6 + 1/2, 0), 1)."""

    name: ClassVar[str] = "hard_swish"

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return x * np.clip(x / 6.0 + 0.5, 0.0, 1.0)


@frozen
class AddScalar(Elementwise):
    """x + value."""

    value: float
    name: ClassVar[str] = "add_scalar"

    def __post_init__(self) -> None:
        self._round(infinite=True)

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return x + self.value


@frozen
class MulScalar(Elementwise):
    """x * value."""

    value: float
    name: ClassVar[str] = "mul_scalar"

    def __post_init__(self) -> None:
        self._round(infinite=True)

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return x * self.value


class _WithOperand(Elementwise):
    """An operator with a second operand, which must be given."""

    function: ClassVar[np.ufunc]

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        if operand is None:
            raise InputError(f"{self.name} needs its operand", expected=f"a {self.operand} operand")
        with np.errstate(invalid="ignore"):
            return self.function(x, operand)


@frozen
class ChannelAdd(_WithOperand):
    """x + operand, one float per output channel: a bias."""

    name: ClassVar[str] = "channel_add"
    operand: ClassVar[OperandKind] = "channel"
    function: ClassVar[np.ufunc] = np.add


@frozen
class ChannelMul(_WithOperand):
    """x * operand, one float per output channel: the scale of a folded batch norm."""

    name: ClassVar[str] = "channel_mul"
    operand: ClassVar[OperandKind] = "channel"
    function: ClassVar[np.ufunc] = np.multiply


@frozen
class TensorAdd(_WithOperand):
    """x + operand, a run-time tensor of the result's shape: a residual, or a full-matrix bias."""

    name: ClassVar[str] = "tensor_add"
    operand: ClassVar[OperandKind] = "tensor"
    function: ClassVar[np.ufunc] = np.add


@frozen
class TensorMul(_WithOperand):
    """x * operand, a run-time tensor of the result's shape: a gate."""

    name: ClassVar[str] = "tensor_mul"
    operand: ClassVar[OperandKind] = "tensor"
    function: ClassVar[np.ufunc] = np.multiply
