"""Small models that the engine's tests build: images that onnxruntime blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from regweave.devices.onnxruntime import DOMAIN

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

    def conv(
        self, x: str, y: str, k: int, n: int, kernel: int = 1, bias: bool = True, group: int = 1, **settings
    ) -> str:
        weight = self.random.standard_normal((n, k // group, kernel, kernel), dtype=np.float32) / np.sqrt(k)
        names = [x, self.constant(f"{y}.w", weight.astype(np.float32))]
        if bias:
            names.append(self.constant(f"{y}.b", self.random.standard_normal(n, dtype=np.float32)))
        settings = {"pads": [kernel // 2] * 4, "group": group, **settings}
        self.nodes.append(helper.make_node("Conv", names, [y], name=f"{y}.conv", **settings))
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


def hard_swish(m: Images, x: str, y: str) -> str:
    """x * clip(x + 3, 0, 6) / 6, written out in four nodes."""
    three, zero, six = (m.constant(f"{y}.{value}", np.float32(value)) for value in (3, 0, 6))
    clipped = m.node("Clip", [m.node("Add", [x, three], f"{y}.a"), zero, six], f"{y}.c")
    return m.node("Div", [m.node("Mul", [x, clipped], f"{y}.m"), six], y)


def foreign(proto: onnx.ModelProto) -> list[str]:
    """Types of the nodes that are not ours."""
    return [node.op_type for node in proto.graph.node if node.domain != DOMAIN]
