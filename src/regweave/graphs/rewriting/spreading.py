"""Transposed convolutions whose windows do not overlap, as products: the pixels are spread at the end.

    ConvTranspose 2x2/2 -> Add -> Relu -> ConvTranspose 2x2/2 -> Sigmoid

becomes, with the channels (filter, row, column) of each pixel side by side until nothing more can wait,

    Conv 1x1 -> Add -> Relu -> Conv 1x1 -> Sigmoid -> DepthToSpace 4

A window that is as large as its stride makes k x k pixels of one and no other, so it is a product with k
x k times the filters. Element-wise work does not care when the pixels move apart, and a second such window
works on every one of them alike: its weights are repeated along a diagonal. What was two passes over an
enlarged image is then a chain of products on the small one.

Nothing here says that it is faster. `groups` names the nodes that go together, so that a model can be spread
only where something is gained: `spread(model, chosen)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from regweave.graphs.attributes import attribute
from regweave.graphs.elementwise.unary import UNARY, domain_of
from regweave.graphs.pieces.products import DEFAULT_DOMAINS
from regweave.graphs.reading.model import Model
from regweave.graphs.reading.reading import OVERRIDABLE_FROM, read_again

_OLDEST_OPSET = 11
"""DepthToSpace in the order that is needed came with it. Before IR version 4 constants are inputs as well."""
SPREAD = "/spread"
"""What the name of the node that moves the pixels apart ends in, behind that of the first node."""
_RANK = 4
_BINARY = frozenset(("Add", "Sub", "Mul", "Div"))
_STILL = frozenset(("Dropout", "Cast", "Max", "Min"))
"""Unary work that is left where it is: it has more to it than its first input."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Nodes of a model that are replaced together, by what, and the constants that this needs."""

    nodes: tuple[str, ...]
    replacement: tuple[onnx.NodeProto, ...]
    added: tuple[onnx.TensorProto, ...]

    def is_named(self, names: Iterable[str]) -> bool:
        """Whether one of its nodes is among `names`, be it of those before or of those after it is done."""
        return not {*self.nodes, *(node.name for node in self.replacement)}.isdisjoint(names)


def spreads(model: Model) -> tuple[Spread, ...]:
    """All that could be spread in a model, in its order."""
    if model.opset < _OLDEST_OPSET or model.proto.ir_version < OVERRIDABLE_FROM:
        return ()
    found, taken = [], set()
    for node in model.nodes:
        if node.name not in taken and _factor(model, node):
            found.append(_Walk(model, node).spread())
            taken.update(found[-1].nodes)
    return tuple(found)


def spread(model: Model, chosen: Iterable[Spread]) -> Model:
    """The model with these parts of it replaced; the model itself where there are none."""
    parts = list(chosen)
    if not parts:
        return model
    first = {part.nodes[0]: part for part in parts}
    gone = {name for part in parts for name in part.nodes}
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    del graph.node[:]
    for node in model.nodes:
        if node.name in first:
            graph.node.extend(first[node.name].replacement)
        elif node.name not in gone:
            graph.node.append(node)
    for part in parts:
        graph.initializer.extend(part.added)
    made = {name for node in graph.node for name in node.output}
    kept = [value for value in graph.value_info if value.name in made]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    return read_again(model, proto)


def _factor(model: Model, node: onnx.NodeProto) -> int:
    """The side of the square of pixels that a transposed convolution makes of one; 0 for all other nodes."""
    if node.op_type != "ConvTranspose" or node.domain not in DEFAULT_DOMAINS or len(node.input) < 2:
        return 0
    x, name, *rest = node.input
    known = model.constants
    if x in known or name not in known or any(bias and bias not in known for bias in rest):
        return 0
    image, shape = model.symbols.get(x), known.value(name).shape
    if image is None or len(image) != _RANK or len(shape) != _RANK or image[1] != shape[0] or 0 in shape:
        return 0
    if not model.is_float32(x) or not model.is_float32(node.output[0]):
        return 0
    side = shape[2]
    plain = (
        shape[3] == side
        and (attribute(node, "strides") or [1, 1]) == [side, side]
        and (attribute(node, "dilations") or [1, 1]) == [1, 1]
        and attribute(node, "group", 1) == 1
        and attribute(node, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and not any(attribute(node, "pads") or ())
        and not any(attribute(node, "output_padding") or ())
        and not attribute(node, "output_shape")
    )
    return side if plain and side > 1 else 0


class _Walk:
    """From a transposed convolution as far as its pixels can stay together."""

    def __init__(self, model: Model, node: onnx.NodeProto) -> None:
        self.model = model
        self.names: list[str] = []
        self.made: list[onnx.NodeProto] = []
        self.added: list[onnx.TensorProto] = []
        self.side, self.tensor = 1, node.input[0]
        self.deep = node.input[0]
        self._product(node)

    def spread(self) -> Spread:
        """Follow the tensor to where it has to be spread, and do that."""
        while (node := self._reader()) is not None and self._take(node):
            pass
        self.made.append(
            helper.make_node(
                "DepthToSpace",
                [self.deep],
                [self.tensor],
                name=f"{self.names[0]}{SPREAD}",
                blocksize=self.side,
                mode="CRD",
            )
        )
        return Spread(tuple(self.names), tuple(self.made), tuple(self.added))

    def _reader(self) -> onnx.NodeProto | None:
        """The one node that reads the tensor, once."""
        model = self.model
        readers = model.readers.get(self.tensor, ())
        if self.tensor in model.outputs or len(readers) != 1:
            return None
        node = model.nodes[readers[0]]
        return node if list(node.input).count(self.tensor) == 1 else None

    def _take(self, node: onnx.NodeProto) -> bool:
        """Take a node's work in front of the spreading, if it can be done there."""
        if node.input[0] == self.tensor and _factor(self.model, node):
            return self._product(node)
        if node.domain not in DEFAULT_DOMAINS:
            return False
        if node.op_type == "BatchNormalization":
            return self._with_constants(node, range(1, 5))
        if node.op_type in _BINARY:
            return self._with_constants(node, [1 - list(node.input).index(self.tensor)])
        unary = (domain_of(node), node.op_type) in UNARY and node.op_type not in _STILL
        numbers = all(self._is_number(name) for name in node.input[1:] if name)
        return unary and node.input[0] == self.tensor and numbers and self._keep(node, {})

    def _is_number(self, name: str) -> bool:
        value = self.model.constants.small(name)
        return value is not None and value.size == 1 and value.ndim <= 1

    def _with_constants(self, node: onnx.NodeProto, positions: Iterable[int]) -> bool:
        """A node with constants of one element per channel, which are repeated for every pixel, or of one."""
        channels = self.model.symbols.get(self.tensor, (None, None))[1]
        repeated: dict[int, np.ndarray] = {}
        for position in positions:
            name = node.input[position]
            if name not in self.model.constants or not self.model.is_float32(name):
                return False
            value = self.model.constants.value(name)
            if value.size == 1 and value.ndim <= _RANK and node.op_type in _BINARY:
                continue
            vector = value.shape == (channels,) if node.op_type == "BatchNormalization" else (
                value.shape in ((channels, 1, 1), (1, channels, 1, 1))
            )  # fmt: skip
            if not vector:
                return False
            axis = value.ndim - 3 if value.ndim > 1 else 0
            repeated[position] = np.repeat(value, self.side**2, axis=axis)
        if node.op_type == "BatchNormalization" and (
            attribute(node, "training_mode", 0) or any(node.output[1:])
        ):
            return False
        return self._keep(node, repeated)

    def _keep(self, node: onnx.NodeProto, constants: dict[int, np.ndarray]) -> bool:
        """The node as it is, on the deep tensor, with other constants in some places."""
        twin = onnx.NodeProto()
        twin.CopyFrom(node)
        for position, name in enumerate(node.input):
            if name == self.tensor:
                twin.input[position] = self.deep
            elif position in constants:
                twin.input[position] = self._constant(f"{node.name}/{name}", constants[position])
        self._append(node, twin)
        return True

    def _product(self, node: onnx.NodeProto) -> bool:
        """A transposed convolution as a 1x1 convolution on what was spread so far."""
        model, inner = self.model, _factor(self.model, node)
        weights = np.asarray(model.constants.value(node.input[1]), np.float32)
        channels, filters = weights.shape[:2]
        outer, side = self.side, self.side * inner
        # [filters, row, inner row, column, inner column, channels, row, column]: zero off the diagonal
        shape = (filters, outer, inner, outer, inner, channels, outer, outer)
        if self.made and filters * side**2 > channels * outer**2:
            return False  # more would be multiplied by zero than is gained
        matrix = np.zeros(shape, np.float32)
        for row in range(outer):
            for column in range(outer):
                matrix[:, row, :, column, :, :, row, column] = weights.transpose(1, 2, 3, 0)
        width = filters * side**2
        inputs = [
            self.deep,
            self._constant(f"{node.name}/weights", matrix.reshape(width, channels * outer**2, 1, 1)),
        ]
        if len(node.input) > 2 and node.input[2]:
            bias = np.asarray(model.constants.value(node.input[2]), np.float32)
            inputs.append(self._constant(f"{node.name}/bias", np.repeat(bias, side**2)))
        twin = helper.make_node("Conv", inputs, [""], name=node.name, kernel_shape=[1, 1])
        self._append(node, twin)
        self.side = side
        return True

    def _append(self, node: onnx.NodeProto, twin: onnx.NodeProto) -> None:
        self.tensor = node.output[0]
        self.deep = twin.output[0] = self._fresh(f"{self.tensor}/deep")
        self.names.append(node.name)
        self.made.append(twin)

    def _fresh(self, name: str) -> str:
        """A name that no tensor of the model has."""
        while name in self.model.types or name in self.model.makers:
            name += "'"
        return name

    def _constant(self, name: str, value: np.ndarray) -> str:
        name = self._fresh(name)
        self.added.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name
