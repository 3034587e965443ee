"""Errors of the activations against float64, beside onnxruntime's own over the same values.

The values are dense in magnitude, 1e-30 to 1e4, both signs. The rule: no worse than twice onnxruntime, in
absolute error over all values and, per range of magnitude, within that or two units in the last place of
the result.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from regweave.cascades import compile_elementwise
from regweave.kernels.functions.activations import activate
from regweave.kernels.functions.vectormath import NumpyMath
from regweave.machines.x86 import AVX2, AVX512, supports
from regweave.operators import (
    Clip,
    Elementwise,
    ElementwiseRun,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Relu,
    Sigmoid,
    Silu,
    Tanh,
)

TABLES = "numpy, tables of 16"
DEVICES = ("numpy", TABLES, *(machine.name for machine in (AVX512, AVX2) if supports(machine)))
EDGES = (1e-30, 1e-3, 0.1, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 60, 104, 1e4)
NODES: dict[Elementwise, tuple[str, dict[str, Any]]] = {
    Relu(): ("Relu", {}),
    LeakyRelu(0.1): ("LeakyRelu", {"alpha": 0.1}),
    Clip(0, 6): ("Clip", {}),
    HardSigmoid(): ("HardSigmoid", {}),
    HardSwish(): ("HardSwish", {}),
    Sigmoid(): ("Sigmoid", {}),
    Tanh(): ("Tanh", {}),
    Silu(): ("Silu", {}),
    Gelu(): ("Gelu", {}),
    Gelu("tanh"): ("Gelu", {"approximate": "tanh"}),
}


def _values() -> np.ndarray:
    """[ranges, 2 * 40000]: each row one range of magnitude with both signs."""
    rows = [np.geomspace(a, b, 40_000) for a, b in itertools.pairwise(EDGES)]
    return np.array([np.concatenate([row, -row]) for row in rows], np.float32)


def _onnxruntime(op: Elementwise, x: np.ndarray) -> np.ndarray:
    kind, attributes = NODES[op]
    if kind == "Silu":
        nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
    elif kind == "Clip":
        nodes = [
            helper.make_node("Constant", [], ["low"], value_float=0.0),
            helper.make_node("Constant", [], ["high"], value_float=6.0),
            helper.make_node("Clip", ["x", "low", "high"], ["y"]),
        ]
    else:
        nodes = [helper.make_node(kind, ["x"], ["y"], **attributes)]
    ends = [helper.make_tensor_value_info(name, 1, list(x.shape)) for name in ("x", "y")]
    model = helper.make_model(
        helper.make_graph(nodes, "activation", ends[:1], ends[1:]),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=9,
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def _ours(op: Elementwise, x: np.ndarray, device: str) -> np.ndarray:
    if device in ("numpy", TABLES):
        return activate(NumpyMath(16 if device == TABLES else 0), op, x)
    return compile_elementwise(ElementwiseRun((op,)), isa=device)(x)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", NODES, ids=str)
def test_no_worse_than_twice_onnxruntime(op: Elementwise, device: str) -> None:
    x = _values()
    exact = op.reference(x.astype(np.float64))
    ours = np.abs(_ours(op, x, device) - exact)
    theirs = np.abs(_onnxruntime(op, x) - exact)
    assert ours.max() <= 2 * theirs.max()
    unit = np.spacing(np.abs(exact).max(axis=1).astype(np.float32)).astype(np.float64)
    assert (ours.max(axis=1) <= np.maximum(2 * theirs.max(axis=1), 2 * unit)).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", [Sigmoid(), Silu(), Tanh(), Gelu("tanh")], ids=str)
def test_relative_error_in_the_tails(op: Elementwise, device: str) -> None:
    """Where onnxruntime limits its argument, these go on: a few units in the last place down to x = -5."""
    x = -np.geomspace(1e-3, 5, 100_001).astype(np.float32)
    exact = op.reference(x.astype(np.float64))
    assert (np.abs(_ours(op, x, device) / exact - 1)).max() < 3e-6
