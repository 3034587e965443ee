"""Small image models that onnxruntime blocks, and sessions to run them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


class Images:
    """Builds a model of convolutions and other nodes, tensor by tensor."""

    def __init__(
        self, channels: int = 32, size: tuple[int | str, int | str] = (9, 11), seed: int = 0
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.input = helper.make_tensor_value_info("x", FLOAT, ["batch", channels, *size])

    def constant(self, name: str, value) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def conv(self, x: str, y: str, k: int, n: int, kernel: int = 1, bias: bool = True, group: int = 1) -> str:
        weight = self.random.standard_normal((n, k // group, kernel, kernel), dtype=np.float32) / np.sqrt(k)
        names = [x, self.constant(f"{y}.w", weight.astype(np.float32))]
        if bias:
            names.append(self.constant(f"{y}.b", self.random.standard_normal(n, dtype=np.float32)))
        pads = [kernel // 2] * 4
        self.nodes.append(helper.make_node("Conv", names, [y], name=f"{y}.conv", pads=pads, group=group))
        return y

    def node(self, op_type: str, inputs: Sequence[str], y: str, domain: str = "", **attributes) -> str:
        self.nodes.append(
            helper.make_node(op_type, list(inputs), [y], name=f"{y}.node", domain=domain, **attributes)
        )
        return y

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "images",
            [self.input],
            [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
            self.constants,
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("regweave", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


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
