"""Activations: what they cost, against a golden table, and what they do at the edges of float32."""

from __future__ import annotations

import numpy as np
import pytest

from regweave.errors import UnsupportedError
from regweave.kernels.functions.activations import activate, activate_all, operation_counts
from regweave.kernels.functions.vectormath import CountingMath, NumpyMath
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

# What each operator costs per vector. A change here is a change of every kernel: make it on purpose.
GOLDEN = {
    Relu(): "max 1",
    LeakyRelu(0.1): "max 1, mul 1",
    LeakyRelu(2.0): "min 1, mul 1",
    Clip(0, 6): "max 1, min 1",
    Clip(high=6): "min 1",
    HardSigmoid(): "fma 1, max 1, min 1",
    HardSwish(): "fma 1, max 1, min 1, mul 1",
    AddScalar(1): "add 1",
    MulScalar(2): "mul 1",
    ChannelAdd(): "add 1",
    ChannelMul(): "mul 1",
    TensorAdd(): "add 1",
    TensorMul(): "mul 1",
    Sigmoid(): "add 1, div 1, fma 5, mul 1, scale 1, split 1",
    Silu(): "add 1, div 1, fma 5, mul 1, scale 1, split 1",
    Tanh(): "div 1, fma 8, max 1, min 1, mul 2",
    Gelu(): "div 1, fma 11, max 1, min 1, mul 3",
    Gelu("tanh"): "add 1, div 1, fma 6, mul 2, scale 1, split 1",
}


@pytest.mark.parametrize("op", GOLDEN, ids=str)
def test_cost(op: Elementwise) -> None:
    counts = operation_counts([op])
    assert ", ".join(f"{name} {count}" for name, count in counts.items()) == GOLDEN[op]


def test_scale_and_shift_are_one_operation() -> None:
    assert operation_counts([ChannelMul(), ChannelAdd(), Relu()]) == {"fma": 1, "max": 1}
    assert operation_counts([MulScalar(2), AddScalar(1)]) == {"fma": 1}
    assert operation_counts([ChannelAdd(), ChannelMul()]) == {"add": 1, "mul": 1}


def test_epilogue_loads_operands_in_order() -> None:
    asked: list[int] = []
    values = {0: np.float32([2]), 1: np.float32([1]), 3: np.float32([10])}

    def load(index: int) -> np.ndarray:
        asked.append(index)
        return values[index]

    ops = (ChannelMul(), ChannelAdd(), Relu(), TensorAdd())
    y = activate_all(NumpyMath(), ops, np.float32([3, -3]), load)
    np.testing.assert_array_equal(y, [17, 10])
    assert asked == [0, 1, 3]


SPECIAL = np.float32([np.inf, -np.inf, np.nan, 0.0, 1e-42, -1e-42, 3.4e38, -3.4e38, 1e19, -1e19])


def test_cost_with_tables() -> None:
    math_ = CountingMath(16)
    activate(math_, Gelu(), "x")
    assert math_.counts == {"abs": 1, "min": 1, "fma": 7, "nearest": 1, "lookup": 6, "mul": 1}


@pytest.mark.parametrize("entries", [0, 16])
@pytest.mark.parametrize("op", [op for op in GOLDEN if op.operand == "none"], ids=str)
def test_edges_of_float32(op: Elementwise, entries: int) -> None:
    with np.errstate(over="ignore"):
        expected = op.reference(SPECIAL.astype(np.float64)).astype(np.float32)
    got = activate(NumpyMath(entries), op, SPECIAL)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=2e-7, atol=3e-45)


def test_leaky_relu_with_any_slope() -> None:
    x = np.float32([-np.inf, -2, -0.0, 0, 3, np.inf, np.nan])
    for alpha in (0.0, 0.3, 1.0, 1.5, -0.5):
        op = LeakyRelu(alpha)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(activate(NumpyMath(), op, x), op.reference(x).astype(np.float32))


def test_pieces_of_the_exponential_join() -> None:
    """sigmoid is 1/2 on both sides of zero and does not step down where t passes a whole number."""
    x = np.linspace(-3, 3, 200_001, dtype=np.float32)
    y = activate(NumpyMath(), Sigmoid(), x)
    assert np.diff(y).min() > -2.5e-7
    tiny = activate(NumpyMath(), Sigmoid(), np.float32([-1e-30, 0, 1e-30]))
    np.testing.assert_array_equal(tiny, np.float32(0.5))


def test_unknown_operator() -> None:
    class Cube(Elementwise):
        name = "cube"

    with pytest.raises(UnsupportedError, match="Cube"):
        activate(NumpyMath(), Cube(), np.float32([1]))
