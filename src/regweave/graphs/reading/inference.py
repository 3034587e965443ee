"""Types and shapes by ONNX's own inference, run on a skeleton of the model without its weights.

Inference works on serialized models, and those are limited to 2 GiB and cost time for every byte. It needs
the types of the weights, not their data: in the skeleton every big constant is a graph input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import checker, shape_inference

from regweave.errors import ModelError
from regweave.graphs.attributes import words
from regweave.graphs.reading.constants import SMALL
from regweave.graphs.reading.external import is_external
from regweave.graphs.shapes.dimensions import Dim, Shape

KEEPS_TYPE = words(
    "Add Sub Mul Div Sum Max Min MatMul Gemm Conv Relu LeakyRelu Clip Sigmoid Tanh HardSigmoid HardSwish "
    "Gelu FastGelu QuickGelu BiasGelu Swish Identity Dropout Erf Neg Softmax BatchNormalization "
    "LayerNormalization Softplus Elu Exp Log Sqrt Reshape Squeeze Unsqueeze Flatten Transpose"
)


def is_anonymous(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether a dimension is dynamic and has no name of its own ("?" and -1 are no names)."""
    if dim.HasField("dim_param"):
        return not any(character.isalnum() for character in dim.dim_param)
    return not dim.HasField("dim_value") or dim.dim_value < 0


def is_dynamic(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether a dimension may differ from run to run."""
    return is_anonymous(dim) or dim.HasField("dim_param")


def symbol_of(name: str) -> str:
    """A dimension's name in the file as a symbol: `*` would read as a product."""
    return name.replace("*", "×")


def skeleton(model: onnx.ModelProto, sizes: Mapping[str, int]) -> onnx.ModelProto:
    """The model with big constants as inputs and the dimensions of `sizes` fixed.

    Keys of `sizes` are the names of dimensions, or `input[axis]`. Anonymous dimensions of inputs are named
    `input[axis]?`, each its own; those of other tensors are cleared for inference to fill, and so are names
    of output dimensions: many a model calls its output's only axis "batch" whatever it is.
    """
    bare = onnx.ModelProto(ir_version=model.ir_version)
    bare.opset_import.extend(model.opset_import)
    graph = bare.graph
    graph.name = model.graph.name or "graph"
    for value in model.graph.input:
        entry = graph.input.add()
        entry.CopyFrom(value)
        _fix_input(entry, sizes)
    for value in model.graph.output:
        entry = graph.output.add()
        entry.CopyFrom(value)
        for dim in _dims_of(entry):
            if dim.HasField("dim_param"):
                dim.Clear()
    for value in model.graph.value_info:
        entry = graph.value_info.add()
        entry.CopyFrom(value)
        _fix(entry, sizes)
    inputs = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if _is_big(tensor):
            if tensor.name not in inputs:
                _declare(graph, tensor.name, tensor)
        else:
            graph.initializer.append(tensor)
    graph.sparse_initializer.extend(model.graph.sparse_initializer)
    for node in model.graph.node:
        held = node.attribute[0] if node.op_type == "Constant" and len(node.attribute) == 1 else None
        if held is not None and held.type == onnx.AttributeProto.TENSOR and _is_big(held.t):
            _declare(graph, node.output[0], held.t)
        else:
            graph.node.append(node)
    return bare


def without_claims(bare: onnx.ModelProto) -> onnx.ModelProto:
    """The skeleton without the shapes that the model claims for its outputs and intermediate tensors."""
    plain = onnx.ModelProto()
    plain.CopyFrom(bare)
    del plain.graph.value_info[:]
    for value in plain.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return plain


def _is_big(tensor: onnx.TensorProto) -> bool:
    return is_external(tensor) or int(np.prod(tensor.dims, dtype=np.int64)) > SMALL


def _declare(graph: onnx.GraphProto, name: str, tensor: onnx.TensorProto) -> None:
    graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))


def _dims_of(value: onnx.ValueInfoProto) -> list[onnx.TensorShapeProto.Dimension]:
    tensor = value.type.tensor_type
    return list(tensor.shape.dim) if value.type.HasField("tensor_type") and tensor.HasField("shape") else []


def _fix_input(value: onnx.ValueInfoProto, sizes: Mapping[str, int]) -> None:
    for axis, dim in enumerate(_dims_of(value)):
        place = f"{value.name}[{axis}]"
        if is_dynamic(dim) and place in sizes:
            dim.dim_value = sizes[place]
        elif is_anonymous(dim):
            dim.dim_param = f"{place}?"
    _fix(value, sizes)


def _fix(value: onnx.ValueInfoProto, sizes: Mapping[str, int]) -> None:
    for dim in _dims_of(value):
        if dim.HasField("dim_param") and dim.dim_param in sizes:
            dim.dim_value = sizes[dim.dim_param]
        elif is_anonymous(dim):
            dim.Clear()


def infer(bare: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """The skeleton with the types and shapes that ONNX can infer; ModelError where that is impossible."""
    try:
        return shape_inference.infer_shapes(bare, strict_mode=strict, data_prop=True)
    except (shape_inference.InferenceError, ValueError, RuntimeError, TypeError) as error:
        raise ModelError(f"the shapes of the model contradict each other: {first_line(error)}") from error


def check(bare: onnx.ModelProto) -> None:
    """ONNX's own checker on the skeleton; its complaint as a ModelError.

    Inputs and outputs of unknown rank pass: onnxruntime runs them, and many exporters leave shapes out.
    """
    ranked = onnx.ModelProto()
    ranked.CopyFrom(bare)
    for value in (*ranked.graph.input, *ranked.graph.output):
        if not value.HasField("type"):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    try:
        checker.check_model(ranked)
    except (checker.ValidationError, ValueError, RuntimeError, TypeError) as error:
        raise ModelError(f"the model is not valid ONNX: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The first line of another library's error: the rest is its context dump."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].strip()


def types_and_shapes(inferred: onnx.ModelProto) -> tuple[dict[str, int], dict[str, Shape]]:
    """Element types and shapes by tensor name; dimensions that inference left open become unique symbols."""
    types: dict[str, int] = {}
    shapes: dict[str, Shape] = {}
    graph = inferred.graph
    # Inputs last: an input that is also an output keeps its shape, which outputs here may have lost.
    for value in (*graph.output, *graph.value_info, *graph.input):
        if not value.type.HasField("tensor_type"):
            continue
        if value.type.tensor_type.elem_type:
            types[value.name] = value.type.tensor_type.elem_type
        if value.type.tensor_type.HasField("shape"):
            shapes[value.name] = tuple(
                _dim(dim, value.name, axis) for axis, dim in enumerate(value.type.tensor_type.shape.dim)
            )
    for tensor in graph.initializer:
        types[tensor.name] = tensor.data_type
        shapes[tensor.name] = tuple(tensor.dims)
    return types, shapes


def with_kept_types(nodes: Iterable[onnx.NodeProto], types: Mapping[str, int]) -> dict[str, int]:
    """Element types, also behind onnxruntime's own operators (which ONNX does not know) that keep them."""
    known = dict(types)
    for node in nodes:
        if node.op_type in KEEPS_TYPE and node.output and node.output[0] not in known:
            source = next((known[name] for name in node.input if name in known), None)
            if source is not None:
                known[node.output[0]] = source
    return known


def _dim(dim: onnx.TensorShapeProto.Dimension, name: str, axis: int) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    if dim.dim_param and any(character.isalnum() for character in dim.dim_param):
        return symbol_of(dim.dim_param)
    return f"{name}[{axis}]?"
