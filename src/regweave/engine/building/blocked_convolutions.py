"""onnxruntime's nodes between blocked images as pieces of ours: products of pixels, depthwise convolutions,
element-wise work.

    com.microsoft.nchwc.Conv(x, weights in blocks, bias, sum), activation      -> a model of Conv, Add, Relu
                                                                               -> the piece that is all of it

onnxruntime has folded what was around a convolution into it, and its weights are all that is left of it. So
the piece is found in a small model of these weights, taken out of their blocks:

    products      [O / b][I / b][1][1][b of I][b of O]; of less than b channels [O / b][I][1][1][b]
    depthwise     [C / b][rows][columns][b of C]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from regweave.graphs import Piece, find_convolutions, find_pieces, read_model
from regweave.graphs.attributes import attribute
from regweave.graphs.elementwise.unary import ORT_DOMAIN

_OPSET, _IR = 17, 8
_ACTIVATIONS = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
}  # fmt: skip
"""Activations that onnxruntime puts into convolutions, and the attributes that their parameters are."""


def convolution_piece(
    node: onnx.NodeProto,
    weights: np.ndarray,
    bias: np.ndarray | None,
    block: int,
    channels: int | None,
    size: Sequence[int],
) -> Piece | None:
    """A blocked convolution of onnxruntime's as a piece, None where it is neither kind.

    `channels` are those of its image without padding, if they are known; `size` are the batch, height and
    width that decisions are made for.
    """
    filters, inner, *kernel = weights.shape
    groups, pads = attribute(node, "group", 1), attribute(node, "pads", [0] * 4)
    if groups == 1 and kernel == [1, 1] and not any(pads) and (inner < block or inner % block == 0):
        step = min(inner, block)
        plain = weights.reshape(filters // block, inner // step, step, block)
        plain = plain.transpose(0, 3, 1, 2).reshape(filters, inner, 1, 1)[:, : channels or inner]
    elif groups == filters and inner == 1:
        channels = filters
        plain = weights.reshape(filters // block, *kernel, block)
        plain = plain.transpose(0, 3, 1, 2).reshape(filters, 1, *kernel)
    else:
        return None
    model = _model(node, plain, bias, plain.shape[1] if groups == 1 else filters)
    if model is None:
        return None
    return _only_piece(model, size)


def elementwise_piece(node: onnx.NodeProto, channels: int, size: Sequence[int]) -> Piece | None:
    """Work on images of one shape, and on nothing else, as a piece; None where it is none."""
    names = dict.fromkeys(node.input)
    twin = onnx.NodeProto()
    twin.CopyFrom(node)
    twin.name = f"{node.output[0]}/native"
    images = [_info(name, channels) for name in names]
    return _only_piece(_proto([twin], images, node.output[0], []), size)


def _only_piece(model: onnx.ModelProto, size: Sequence[int]) -> Piece | None:
    """The piece that is a whole model, if there is one."""
    read = read_model(model, dict(zip(("batch", "height", "width"), size, strict=True)))
    windows = find_convolutions(read)
    found = [piece for piece in (*windows, *find_pieces(read, windows)) if piece.refusal is None]
    whole = len(found) == 1 and len(found[0].nodes) == len(read.nodes)
    return found[0] if whole else None


def _model(
    node: onnx.NodeProto, weights: np.ndarray, bias: np.ndarray | None, channels: int
) -> onnx.ModelProto | None:
    """What the node does, of plain nodes; None for an activation that is not known."""
    constants = [numpy_helper.from_array(np.ascontiguousarray(weights), "weights")]
    if bias is not None:
        constants.append(numpy_helper.from_array(bias, "bias"))
    settings = {name: attribute(node, name) for name in ("strides", "pads", "dilations", "group", "auto_pad")}
    names = ["x", *(constant.name for constant in constants)]
    given = {name: value for name, value in settings.items() if value is not None}
    nodes = [helper.make_node("Conv", names, ["made"], f"{node.output[0]}/native", **given)]
    inputs, last = [_info("x", channels)], "made"
    if len(node.input) > 3:
        inputs.append(_info("sum", weights.shape[0]))
        nodes.append(helper.make_node("Add", ["made", "sum"], ["summed"], "sum"))
        last = "summed"
    activation, values = attribute(node, "activation"), attribute(node, "activation_params") or ()
    if activation == "Clip":
        limits = [f"limit{index}" for index in range(len(values))]
        constants += [
            numpy_helper.from_array(np.array(value, np.float32), name)
            for name, value in zip(limits, values, strict=True)
        ]
        nodes.append(helper.make_node("Clip", [last, *limits], ["y"], "activation"))
    elif activation in _ACTIVATIONS:
        parameters = dict(zip(_ACTIVATIONS[activation], values, strict=False))
        nodes.append(helper.make_node(activation, [last], ["y"], "activation", **parameters))
    elif activation is not None:
        return None
    else:
        nodes[-1].output[0] = "y"
    return _proto(nodes, inputs, "y", constants)


def _proto(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    output: str,
    constants: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    y = helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "between", inputs, [y], constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(ORT_DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR)


def _info(name: str, channels: int) -> onnx.ValueInfoProto:
    dims = ["batch", channels, "height", "width"]
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
