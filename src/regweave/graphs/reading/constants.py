"""Tensors whose value is known before the model runs, evaluated only when somebody asks.

A weight may be an initializer, a Constant node, a ConstantOfShape, or any of these behind an Identity, a
Reshape or a little arithmetic (exporters write biases as Reshape(initializer)). Whether a name is constant is
decided from the graph alone; its data is computed on the first `value` and kept, because a 400 MB weight of a
chain that is refused should never be touched.

Not constant: what a caller may replace (an initializer that is also a graph input, from IR version 4 on),
sparse initializers, strings, and dequantized weights (folding them would undo the quantization).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from regweave.errors import ModelError
from regweave.graphs.attributes import attribute
from regweave.graphs.reading.external import is_external, mapped
from regweave.graphs.shapes.dimensions import Dim, Shape
from regweave.graphs.shapes.reshapes import reshaped

Fold = Callable[[onnx.NodeProto, list[np.ndarray]], np.ndarray]
SMALL = 1024


def _binary(compute: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Fold:
    return lambda node, inputs: compute(inputs[0], inputs[1]).astype(inputs[0].dtype, copy=False)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a / b if a.dtype.kind == "f" else (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


def _constant_of_shape(node: onnx.NodeProto, inputs: list[np.ndarray]) -> np.ndarray:
    filler = attribute(node, "value")
    value = numpy_helper.to_array(filler).ravel()[0] if filler is not None else np.float32(0)
    return np.broadcast_to(np.asarray(value), tuple(int(dim) for dim in inputs[0]))


def _transpose(node: onnx.NodeProto, inputs: list[np.ndarray]) -> np.ndarray:
    return np.transpose(inputs[0], attribute(node, "perm"))


FOLDS: Mapping[str, Fold] = {
    "Identity": lambda node, inputs: inputs[0],
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": _binary(_divide),
    "Neg": lambda node, inputs: -inputs[0],
    "Sqrt": lambda node, inputs: np.sqrt(inputs[0]),
    "Reciprocal": lambda node, inputs: np.reciprocal(inputs[0]),
    "Transpose": _transpose,
    "Concat": lambda node, inputs: np.concatenate(inputs, attribute(node, "axis", 1)),
    "ConstantOfShape": _constant_of_shape,
    "Cast": lambda node, inputs: inputs[0].astype(helper.tensor_dtype_to_np_dtype(attribute(node, "to"))),
}
RESHAPES = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten"))


class Constants:
    """The constants of a graph, by tensor name.

    `initializers` are those that cannot be overridden; `nodes` all nodes in order; `folder` where external
    data lies; `opset` the version of the default operator set.
    """

    def __init__(
        self,
        initializers: Mapping[str, onnx.TensorProto],
        nodes: Iterable[onnx.NodeProto],
        folder: Path | None,
        opset: int,
    ) -> None:
        self._tensors = dict(initializers)
        self._folder = folder
        self._opset = opset
        self._makers: dict[str, onnx.NodeProto] = {}
        self._values: dict[str, np.ndarray] = {}
        for node in nodes:
            if len(node.output) == 1 and node.domain in ("", "ai.onnx") and self._foldable(node):
                self._makers[node.output[0]] = node

    def _foldable(self, node: onnx.NodeProto) -> bool:
        if node.op_type == "Constant":
            return attribute(node, "sparse_value") is None
        if node.op_type not in FOLDS and node.op_type not in RESHAPES:
            return False
        return bool(node.input) and all(name == "" or name in self for name in node.input)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors or name in self._makers

    def tensor(self, name: str) -> onnx.TensorProto | None:
        """The stored tensor behind `name`: an initializer or a Constant node's tensor attribute."""
        if name in self._tensors:
            return self._tensors[name]
        node = self._makers.get(name)
        return attribute(node, "value") if node is not None and node.op_type == "Constant" else None

    def value(self, name: str) -> np.ndarray:
        """The data of a constant, not to be written to; KeyError if `name` is none, ModelError if damaged."""
        if name not in self._values:
            self._values[name] = self._compute(name)
        return self._values[name]

    def small(self, name: str) -> np.ndarray | None:
        """The value if `name` is a constant of few elements, else None."""
        if name not in self:
            return None
        tensor = self.tensor(name)
        if tensor is not None and int(np.prod(tensor.dims, dtype=np.int64)) > SMALL:
            return None
        value = self.value(name)
        return value if value.size <= SMALL else None

    def integers(self, name: str) -> tuple[Dim, ...] | None:
        """The entries of a small integer constant (a scalar counts as one entry), or None."""
        value = self.small(name)
        if value is None or value.dtype.kind not in "iu":
            return None
        return tuple(int(entry) for entry in value.ravel())

    def _compute(self, name: str) -> np.ndarray:
        if name in self._tensors:
            return self._read(self._tensors[name], name)
        node = self._makers[name]
        if node.op_type == "Constant":
            return self._constant(node)
        inputs = [self.value(entry) for entry in node.input if entry]
        try:
            with np.errstate(all="ignore"):
                return self._fold(node, inputs)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise ModelError(f"the constant '{name}' cannot be computed: {error}", where=node.name) from error

    def _fold(self, node: onnx.NodeProto, inputs: list[np.ndarray]) -> np.ndarray:
        if node.op_type not in RESHAPES:
            return FOLDS[node.op_type](node, inputs)
        shape: Shape = inputs[0].shape
        target = reshaped(node, shape, self.integers, self._opset)
        if target is None:
            raise ValueError(f"{node.op_type} of shape {list(shape)} is not defined")
        return inputs[0].reshape(tuple(int(dim) for dim in target))

    def _constant(self, node: onnx.NodeProto) -> np.ndarray:
        for entry in node.attribute:
            value = helper.get_attribute_value(entry)
            if isinstance(value, onnx.TensorProto):
                return self._read(value, node.output[0])
            return np.array(
                value, np.int64 if "int" in entry.name else np.float32 if "float" in entry.name else object
            )
        raise ModelError("a Constant node without a value", where=node.name)

    def _read(self, tensor: onnx.TensorProto, name: str) -> np.ndarray:
        if is_external(tensor):
            return mapped(tensor, self._folder)
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError) as error:
            raise ModelError(f"the data of '{name}' does not fit its shape: {error}") from error
