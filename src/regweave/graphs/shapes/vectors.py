"""Small integer vectors that a model computes from shapes, followed by value for the Reshape nodes that use
them.

Shape [batch, 120, 1, width] -> Slice 0:2 -> Concat with -1   ->   (batch, 120, -1)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from regweave.graphs.attributes import attribute
from regweave.graphs.shapes.dimensions import Shape
from regweave.graphs.shapes.reshapes import Vector


class ShapeTable:
    """What is known while walking the nodes in order: shapes, and small integer vectors by value."""

    def __init__(self, shapes: dict[str, Shape], integers: Callable[[str], Vector | None]) -> None:
        self.shapes = shapes
        self.vectors: dict[str, Vector] = {}
        self._integers = integers

    def vector(self, name: str) -> Vector | None:
        """The entries of a small integer tensor, symbols included, or None."""
        if name not in self.vectors:
            constant = self._integers(name)
            if constant is None:
                return None
            self.vectors[name] = constant
        return self.vectors[name]


def vector_rule(node: onnx.NodeProto, table: ShapeTable, opset: int) -> Vector | None:
    """Entries of an integer vector that is computed from shapes, or None."""
    op = node.op_type
    if op == "Shape":
        shape = table.shapes.get(node.input[0])
        return None if shape is None else shape[attribute(node, "start", 0) : attribute(node, "end")]
    if op in ("Identity", "Cast", "Squeeze", "Unsqueeze"):
        return table.vector(node.input[0]) if _is_short(table.shapes.get(node.input[0])) else None
    if op == "Reshape" and _is_short(table.shapes.get(node.input[0])):
        return table.vector(node.input[0])
    if op == "Concat":
        parts = [table.vector(name) for name in node.input]
        return None if any(part is None for part in parts) else tuple(d for part in parts for d in part or ())
    if op == "Gather":
        data, index = table.vector(node.input[0]), table.vector(node.input[1])
        if data is None or index is None or any(not isinstance(i, int) for i in index):
            return None
        picks = [int(i) for i in index]
        return tuple(data[i] for i in picks) if all(-len(data) <= i < len(data) for i in picks) else None
    if op == "Slice":
        return _slice(node, table, opset)
    return None


def _is_short(shape: Shape | None) -> bool:
    """Whether a tensor is a scalar or a vector, as shapes are."""
    return shape is not None and len(shape) <= 1


def _slice(node: onnx.NodeProto, table: ShapeTable, opset: int) -> Vector | None:
    data = table.vector(node.input[0])
    if data is None or not _is_short(table.shapes.get(node.input[0])):
        return None
    if opset < 10:
        starts, ends = attribute(node, "starts"), attribute(node, "ends")
        steps = [1]
    else:
        starts, ends = table.vector(node.input[1]), table.vector(node.input[2])
        steps = table.vector(node.input[4]) if len(node.input) > 4 and node.input[4] else (1,)
    bounds = (starts, ends, steps)
    if any(not bound or len(bound) != 1 or not isinstance(bound[0], int) for bound in bounds):
        return None
    low, high, step = (int(bound[0]) for bound in bounds if bound)
    return tuple(np.array(data, object)[low:high:step])
