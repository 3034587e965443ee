"""The cases as ONNX models, for the libraries that run models (onnxruntime, OpenVINO).

A cascade becomes MatMul, Add and Relu per stage with constant weights: the form that exporters write and
that both libraries fuse by themselves. A product becomes one MatMul of two inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from regweave.benchmarks.cases import CascadeData, ProductData
from regweave.benchmarks.convolution_cases import ConvolutionData
from regweave.benchmarks.peers import Peer, Runner


class GraphPeer(Peer):
    """A peer that runs models: it only has to say how."""

    @abstractmethod
    def runner(
        self, model: bytes, inputs: dict[str, np.ndarray], output: tuple[int, ...], threads: int
    ) -> Runner:
        """A call that runs the serialised `model` on `inputs` and gives its output `y`, of shape `output`."""

    def cascade(self, data: CascadeData, threads: int) -> Runner:
        """The whole cascade as one model with constant weights."""
        return self.runner(cascade_model(data), {"x": data.x}, data.expected.shape, threads)

    def product(self, data: ProductData, threads: int) -> Runner:
        """The product as a model; neither operand is a constant."""
        return self.runner(product_model(data), {"a": data.a, "b": data.b}, data.expected.shape, threads)

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """The convolution as a model with constant weights."""
        return self.runner(convolution_model(data), {"x": data.x}, data.case.out_shape, threads)


def cascade_model(data: CascadeData) -> bytes:
    """A serialised model with input `x` and output `y`."""
    nodes, constants, value = [], [], "x"
    last = len(data.weights) - 1
    for stage, (weight, bias) in enumerate(zip(data.weights, data.biases, strict=True)):
        constants.append(numpy_helper.from_array(weight, f"w{stage}"))
        constants.append(numpy_helper.from_array(bias, f"b{stage}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{stage}"], [f"product{stage}"]))
        nodes.append(helper.make_node("Add", [f"product{stage}", f"b{stage}"], [f"sum{stage}"]))
        value = "y" if stage == last else f"value{stage}"
        nodes.append(helper.make_node("Relu", [f"sum{stage}"], [value]))
    return _model(nodes, {"x": data.x.shape}, data.expected.shape, constants)


def product_model(data: ProductData) -> bytes:
    """A serialised model with inputs `a` and `b` and output `y`."""
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    return _model([node], {"a": data.a.shape, "b": data.b.shape}, data.expected.shape, [])


def convolution_model(data: ConvolutionData) -> bytes:
    """A serialised model with input `x` and output `y`."""
    c = data.case.convolution
    node = helper.make_node(
        *("Conv", ["x", "w"], ["y"]),
        strides=c.strides,
        pads=c.pads,
        dilations=c.dilations,
        group=c.groups,
    )
    weights = [numpy_helper.from_array(data.weights, "w")]
    return _model([node], {"x": data.x.shape}, c.out_shape, weights)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    output: tuple[int, ...],
    constants: Sequence[onnx.TensorProto],
) -> bytes:
    graph = helper.make_graph(
        list(nodes),
        "case",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        list(constants),
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()
