"""Models and sessions for the engine's tests."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from engine_models import FLOAT, Images, hard_swish
from onnx import helper, numpy_helper


@pytest.fixture
def images():
    return Images


@pytest.fixture
def optimise(tmp_path: Path):
    """The model as onnxruntime's optimiser leaves it."""

    def optimised(model: onnx.ModelProto) -> onnx.ModelProto:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(tmp_path / "optimised.onnx")

    return optimised


@pytest.fixture
def run():
    """Results of a model, optimised or as it is."""

    def results(model: onnx.ModelProto, feeds: dict[str, np.ndarray], optimise: bool = True):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if not optimise:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, feeds)

    return results


@pytest.fixture(scope="session")
def recogniser() -> onnx.ModelProto:
    """Convolutions around a chain with a residual, a gate, a run of element-wise work, and a product
    behind."""
    m = Images(channels=16, size=("height", "width"))
    a = hard_swish(m, m.conv("x", "stem", 16, 48, 3), "act")
    inner = hard_swish(m, m.conv(a, "up", 48, 96), "inner")
    b = m.node("Add", [m.conv(inner, "down", 96, 48), a], "residual")
    c = m.conv(b, "deep", 48, 48, 3, group=48)
    mean = m.node("ReduceMean", [c], "mean", axes=[2, 3], keepdims=1)
    squeezed = m.node("Relu", [m.conv(mean, "squeeze", 48, 12)], "squeezed")
    gate = m.node("HardSigmoid", [m.conv(squeezed, "excite", 12, 48)], "gate")
    d = hard_swish(m, m.node("Mul", [c, gate], "gated"), "after")
    m.conv(d, "y", 48, 10, 3)
    return m.model(["y"])


@pytest.fixture(scope="session")
def perceptron() -> onnx.ModelProto:
    """Three products in a row on rows of any number, and one further away."""
    random = np.random.default_rng(1)
    widths = (64, 96, 32, 8)
    nodes, constants, last = [], [], "x"
    for index, (k, n) in enumerate(pairwise(widths)):
        weight = (random.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32)
        constants += [numpy_helper.from_array(weight, f"w{index}")]
        constants += [numpy_helper.from_array(random.standard_normal(n).astype(np.float32), f"b{index}")]
        nodes.append(helper.make_node("MatMul", [last, f"w{index}"], [f"m{index}"], f"product{index}"))
        nodes.append(helper.make_node("Add", [f"m{index}", f"b{index}"], [f"a{index}"], f"bias{index}"))
        last = f"a{index}"
        if index < 2:
            nodes.append(helper.make_node("Relu", [last], [f"r{index}"], f"relu{index}"))
            last = f"r{index}"
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", "rows", 64])],
        [helper.make_tensor_value_info(last, FLOAT, ["batch", "rows", 8])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
