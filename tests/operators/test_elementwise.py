"""Element-wise operators: their float64 meaning, their parameters, their names."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regweave.errors import InputError
from regweave.operators import (
    ACTIVATION_NAMES,
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
    activation,
)

X = np.array([-2.0, -0.5, 0.0, 1.0, 8.0])


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (Relu(), [0, 0, 0, 1, 8]),
        (LeakyRelu(0.5), [-1, -0.25, 0, 1, 8]),
        (Clip(-1, 6), [-1, -0.5, 0, 1, 6]),
        (Clip(), [-2, -0.5, 0, 1, 8]),
        (HardSigmoid(0.25, 0.5), [0, 0.375, 0.5, 0.75, 1]),
        (HardSwish(), [-1 / 3, -0.5 * 2.5 / 6, 0, 4 / 6, 8]),
        (AddScalar(1.5), [-0.5, 1, 1.5, 2.5, 9.5]),
        (MulScalar(2), [-4, -1, 0, 2, 16]),
        (Sigmoid(), [1 / (1 + math.exp(-v)) for v in X]),
        (Tanh(), [math.tanh(v) for v in X]),
        (Silu(), [v / (1 + math.exp(-v)) for v in X]),
        (Gelu(), [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in X]),
        (
            Gelu("tanh"),
            [v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in X],
        ),
    ],
    ids=str,
)
def test_reference(op: Elementwise, expected: list[float]) -> None:
    np.testing.assert_allclose(op.reference(X), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("op", [ChannelAdd(), TensorAdd()], ids=str)
def test_addition_of_an_operand(op: Elementwise) -> None:
    np.testing.assert_array_equal(op.reference(X, X), 2 * X)


@pytest.mark.parametrize("op", [ChannelMul(), TensorMul()], ids=str)
def test_multiplication_by_an_operand(op: Elementwise) -> None:
    np.testing.assert_array_equal(op.reference(X, X), X * X)


@pytest.mark.parametrize("op", [ChannelAdd(), TensorMul()], ids=str)
def test_missing_operand(op: Elementwise) -> None:
    with pytest.raises(InputError, match="needs its operand"):
        op.reference(X)


@pytest.mark.parametrize("name", ACTIVATION_NAMES)
def test_nan_stays_nan(name: str) -> None:
    op = activation(f"{name}:1" if name.endswith("_scalar") else name)
    assert op is not None
    assert np.isnan(op.reference(np.array([np.nan]))).all()


def test_gelu_tail_has_not_cancelled() -> None:
    exact = -12.0 * 0.5 * math.erfc(12 / math.sqrt(2))
    assert Gelu().reference(np.array([-12.0]))[0] == pytest.approx(exact, rel=1e-13)
    assert Gelu("tanh").reference(np.array([-5.0]))[0] < 0


def test_infinity_as_ieee_says() -> None:
    inf = np.array([np.inf, -np.inf])
    np.testing.assert_array_equal(Relu().reference(inf), [np.inf, 0])
    np.testing.assert_array_equal(Sigmoid().reference(inf), [1, 0])
    for op in (Silu(), HardSwish(), Gelu(), Gelu("tanh")):
        np.testing.assert_array_equal(op.reference(inf), [np.inf, np.nan])


def test_values_compare_hash_and_print() -> None:
    assert Clip(0, 6) == Clip(0.0, 6.0)
    assert hash(Clip(0, 6)) == hash(Clip(0.0, 6.0))
    assert Sigmoid() != Tanh()
    assert str(LeakyRelu(0.1)) == "leaky_relu(0.1)"
    assert str(Relu()) == "relu"
    assert str(Gelu("tanh")) == "gelu_tanh"
    assert HardSigmoid().alpha == float(np.float32(0.2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: LeakyRelu(math.nan),
        lambda: LeakyRelu(math.inf),
        lambda: LeakyRelu(1e300),
        lambda: Clip(0, math.nan),
        lambda: HardSigmoid("x"),  # type: ignore[arg-type]
        lambda: AddScalar(None),  # type: ignore[arg-type]
        lambda: Gelu("exact"),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("word", "op"),
    [
        ("relu", Relu()),
        (" ReLU ", Relu()),
        ("relu6", Clip(0, 6)),
        ("clip:-1,1", Clip(-1, 1)),
        ("leaky_relu:0.1", LeakyRelu(0.1)),
        ("leaky_relu", LeakyRelu(0.01)),
        ("swish", Silu()),
        ("gelu", Gelu()),
        ("gelu_tanh", Gelu("tanh")),
        ("hard_sigmoid:0.25,0.5", HardSigmoid(0.25, 0.5)),
        ("none", None),
        ("identity", None),
        (None, None),
        (Tanh(), Tanh()),
    ],
)
def test_names(word: str | Elementwise | None, op: Elementwise | None) -> None:
    assert activation(word) == op


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("reul", "nearest: relu"),
        ("leaky_relu:a", "wrong parameters"),
        ("leaky_relu:1,2", "wrong parameters"),
        ("mul_scalar", "wrong parameters"),
        ("relu6:3", "takes no parameters"),
        (7, "not an activation"),
        (ChannelAdd(), "not an activation"),
    ],
)
def test_unknown_names(word: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        activation(word)  # type: ignore[arg-type]
