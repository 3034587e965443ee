"""The smooth activations: sigmoid, tanh, SiLU and both forms of GELU, with float64 references.

A reference must be better than what it judges, so the two places where float64 would cancel are avoided:

    GELU, erf form    x * erfc(-x / sqrt 2) / 2     not (1 + erf): at x = -6 that has lost 7 of 16 digits
    GELU, tanh form   x * sigmoid(2u)               not (1 + tanh u) / 2, for the same reason

At -Inf SiLU and GELU are -Inf * 0 = NaN, as IEEE arithmetic and the ONNX definitions have it.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from regweave.errors import unknown_name
from regweave.operators.elementwise import Elementwise
from regweave.values import frozen

GELU_FORMS = ("erf", "tanh")


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def _erfc(x: np.ndarray) -> np.ndarray:
    return np.fromiter(map(math.erfc, x.ravel()), np.float64, x.size).reshape(x.shape)


@frozen
class Sigmoid(Elementwise):
    """1 / (1 + exp(-x))."""

    name: ClassVar[str] = "sigmoid"

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        return _sigmoid(x)


@frozen
class Tanh(Elementwise):
    """Hyperbolic tangent."""

    name: ClassVar[str] = "tanh"

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        return np.tanh(x)


@frozen
class Silu(Elementwise):
    """x * sigmoid(x), also called swish."""

    name: ClassVar[str] = "silu"

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return x * _sigmoid(x)


@frozen
class Gelu(Elementwise):
    """x times the normal distribution function of x: exactly ("erf"), or by the usual "tanh" formula."""

    form: Literal["erf", "tanh"] = "erf"
    name: ClassVar[str] = "gelu"

    def __post_init__(self) -> None:
        if self.form not in GELU_FORMS:
            raise unknown_name("form of GELU", self.form, GELU_FORMS, where="Gelu.form")

    def reference(self, x: np.ndarray, operand: np.ndarray | None = None) -> np.ndarray:
        x = np.asarray(x, np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            if self.form == "erf":
                return x * (0.5 * _erfc(x * -math.sqrt(0.5)))
            return x * _sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))

    def __str__(self) -> str:
        return self.name if self.form == "erf" else "gelu_tanh"
