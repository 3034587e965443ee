"""Nodes that are matrix products with weights: MatMul, Gemm, and 1x1 Conv, brought to one form.

    y[m, n] = sum over k of x[m, k] * weight[k, n], then a bias

Whatever the node says in its own words (transB, alpha, a kernel of shape [N, K, 1, 1]) ends up in the weight
matrix [K, N] and a list of steps. A node that looks like a product but cannot be one here is answered with a
`Refusal` that says why; other nodes with None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnx

from regweave.graphs.attributes import attribute, words
from regweave.graphs.elementwise.cursor import Cursor
from regweave.graphs.elementwise.steps import Step, constant_step
from regweave.graphs.reading.model import Model
from regweave.graphs.shapes.dimensions import Dim, Shape, show
from regweave.operators import ChannelAdd, Order, TensorAdd

PRODUCTS = frozenset(("MatMul", "Gemm", "Conv"))
QUANTIZED = words(
    "MatMulInteger QLinearMatMul ConvInteger QLinearConv QGemm DynamicQuantizeMatMul MatMulIntegerToFloat "
    "MatMulNBits MatMulBnb4 QAttention"
)
DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Refusal:
    """Why a node cannot take part; a phrase that can follow the node's name."""

    reason: str


@dataclass(frozen=True, eq=False)
class Product:
    """A node as a product: `weight()` is float64-exact float32 [k, n], computed when called.

    `input` is the run-time operand, `axis` the axis of its and the result's channels (-1: the last). With
    `transposed`, `input` is [K, M] in memory and must be transposed before the product. `steps` is the work
    that the node itself does behind the product (its bias).
    """

    node: str
    input: str
    output: str
    k: int
    n: int
    order: Order
    weight: Callable[[], np.ndarray]
    axis: int = -1
    steps: tuple[Step, ...] = ()
    transposed: bool = False

    def cursor(self, model: Model) -> Cursor:
        """Where a walk stands at the product's result."""
        shape = model.symbols.get(self.output)
        axis = self.axis if shape is None or self.axis >= 0 else len(shape) - 1
        return Cursor(self.output, shape, axis, self.n)


def recognise(model: Model, node: onnx.NodeProto) -> Product | Refusal | None:
    """The node as a product, the reason why it is none although it looks like one, or None."""
    if node.op_type in QUANTIZED:
        return Refusal(f"{node.op_type} is a product of integers; only float32 is built: left to onnxruntime")
    if node.op_type not in PRODUCTS or node.domain not in DEFAULT_DOMAINS:
        return None
    known = next((name for name in (*node.output, *node.input[:2]) if name in model.types), None)
    if known is not None and not model.is_float32(known):
        return Refusal(f"its data is {model.type_name(known)}; only float32 is built: left to onnxruntime")
    found = {"MatMul": _matmul, "Gemm": _gemm, "Conv": _conv}[node.op_type](model, node)
    if not isinstance(found, Product):
        return found
    if 0 in (found.k, found.n):
        return Refusal(f"its weights are [{found.k}, {found.n}]: nothing to compute")
    shape = model.symbols.get(found.input)
    if shape and shape[0 if found.transposed else found.axis] not in (found.k, *filter(_is_symbol, shape)):
        return Refusal(f"its weights [{found.k}, {found.n}] do not fit its input {show(shape)}")
    return found


def _is_symbol(dim: Dim) -> bool:
    return isinstance(dim, str)


def _weight_shape(model: Model, name: str) -> tuple[int, ...] | Refusal:
    """The shape of constant weights, or why they are not constant."""
    constants = model.constants
    if name in constants:
        tensor = constants.tensor(name)
        shape: Shape | None = tuple(tensor.dims) if tensor is not None else model.symbols.get(name)
        if shape is None or any(not isinstance(dim, int) for dim in shape):
            shape = constants.value(name).shape
        return tuple(dim for dim in shape if isinstance(dim, int))
    maker = model.makers.get(name)
    if maker is not None:
        node = model.nodes[maker]
        if node.op_type == "DequantizeLinear":
            return Refusal(f"its weights '{name}' are quantized: left to onnxruntime")
        return Refusal(f"both operands are computed at run time ('{name}' by {node.op_type} '{node.name}')")
    if any(tensor.name == name for tensor in model.proto.graph.initializer):
        return Refusal(f"its weights '{name}' are also a graph input, so that a caller may replace them")
    return Refusal(f"its weights '{name}' are given at run time")


def _matmul(model: Model, node: onnx.NodeProto) -> Product | Refusal:
    x, name = node.input
    if x in model.constants:
        return Refusal("its left operand is constant, its right one is not")
    shape = _weight_shape(model, name)
    if isinstance(shape, Refusal):
        return shape
    rank = len(model.symbols[x]) if x in model.symbols else None
    if len(shape) < 2:
        return Refusal("its weights are a vector")
    if any(dim != 1 for dim in shape[:-2]):
        return Refusal(f"its weights are a batch of matrices {show(shape)}")
    if len(shape) > 2 and (rank is None or rank < len(shape)):
        return Refusal(f"its weights {show(shape)} add dimensions to the result")
    k, n = shape[-2:]

    def weight() -> np.ndarray:
        return np.ascontiguousarray(model.constants.value(name).reshape(k, n), np.float32)

    return Product(node.name, x, node.output[0], k, n, "rows", weight)


def _gemm(model: Model, node: onnx.NodeProto) -> Product | Refusal:
    x, name = node.input[0], node.input[1]
    if x in model.constants:
        return Refusal("its left operand is constant")
    shape = _weight_shape(model, name)
    if isinstance(shape, Refusal):
        return shape
    if len(shape) != 2:
        return Refusal(f"its weights {show(shape)} are no matrix")
    alpha, beta = float(attribute(node, "alpha", 1.0)), float(attribute(node, "beta", 1.0))
    flipped = bool(attribute(node, "transB", 0))
    k, n = shape[::-1] if flipped else shape

    def weight() -> np.ndarray:
        matrix = model.constants.value(name)
        matrix = matrix.T if flipped else matrix
        if alpha != 1.0:
            with np.errstate(over="ignore", invalid="ignore"):
                return (matrix * np.float64(alpha)).astype(np.float32)
        return np.ascontiguousarray(matrix, np.float32)

    product = Product(
        node.name, x, node.output[0], k, n, "rows", weight, transposed=bool(attribute(node, "transA", 0))
    )
    bias = node.input[2] if len(node.input) > 2 else ""
    if not bias or beta == 0.0:
        return product
    step = _gemm_bias(model, node, product.cursor(model), bias, beta)
    if isinstance(step, Refusal):
        return step
    return replace(product, steps=(step,))


def _gemm_bias(model: Model, node: onnx.NodeProto, cursor: Cursor, name: str, beta: float) -> Step | Refusal:
    if name not in model.constants:
        if beta != 1.0:
            return Refusal(f"its C '{name}' is computed at run time and scaled by beta={beta:g}")
        shape = model.symbols.get(name)
        if shape is None or shape != cursor.shape:
            return Refusal(
                f"its C '{name}' is computed at run time and has shape {show(shape)}, not the result's"
            )
        return Step((TensorAdd(),), (name,), (node.name,), node.output[0])
    value = np.asarray(model.constants.value(name), np.float64) * beta
    n = cursor.channels if isinstance(cursor.channels, int) else 0
    if value.ndim > 2 or (value.ndim and value.shape[-1] not in (1, n)):
        return Refusal(f"its C '{name}' of shape {show(value.shape)} does not fit [M, {n}]")
    rows = value.shape[0] if value.ndim == 2 else 1
    if rows == 1:
        value = value.reshape(-1)
        step = constant_step("Add", value, "scalar" if value.size == 1 else "channel")
        return Step(step[0], step[1], (node.name,), node.output[0])
    full = np.broadcast_to(value, (rows, n)).astype(np.float32)
    extra = f"{node.name}/full C"
    while extra in model.types:
        extra += "'"
    return Step((TensorAdd(),), (extra,), (node.name,), node.output[0], added=((extra, full),))


def _conv(model: Model, node: onnx.NodeProto) -> Product | Refusal | None:
    x, name = node.input[0], node.input[1]
    symbols = model.symbols.get(name)
    kernel = attribute(node, "kernel_shape") or (symbols[2:] if symbols else None)
    if kernel is None or any(dim != 1 for dim in kernel):
        return None
    group, strides = attribute(node, "group", 1), attribute(node, "strides") or [1]
    pads = attribute(node, "pads") or [0]
    padded = attribute(node, "auto_pad", "NOTSET") == "NOTSET" and any(pads)
    if group != 1:
        return Refusal(f"a 1x1 convolution in {group} groups")
    if any(stride != 1 for stride in strides):
        return Refusal(f"a 1x1 convolution with strides {list(strides)}")
    if padded:
        return Refusal(f"a 1x1 convolution with padding {list(pads)}")
    if x in model.constants:
        return Refusal("its image is constant")
    shape = _weight_shape(model, name)
    if isinstance(shape, Refusal):
        return shape
    image = model.symbols.get(x)
    if image is None:
        return Refusal("the rank of its image is not known")
    if len(shape) != len(image) or len(shape) < 3 or any(dim != 1 for dim in shape[2:]):
        return Refusal(f"its weights {show(shape)} do not fit its image {show(image)}")
    n, k = shape[:2]

    def weight() -> np.ndarray:
        return np.ascontiguousarray(model.constants.value(name).reshape(n, k).T, np.float32)

    order: Order = "rows" if all(dim == 1 for dim in image[2:]) else "pixels"
    bias = node.input[2] if len(node.input) > 2 else ""
    steps: tuple[Step, ...] = ()
    if bias:
        if bias not in model.constants:
            return Refusal(f"its bias '{bias}' is computed at run time")
        vector = np.asarray(model.constants.value(bias), np.float64).reshape(-1)
        if vector.size != n:
            return Refusal(f"its bias has {vector.size} values for {n} channels")
        steps = (Step((ChannelAdd(),), (vector,), (node.name,), node.output[0]),)
    return Product(node.name, x, node.output[0], k, n, order, weight, 1, steps)
