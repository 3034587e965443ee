"""The shape after a Reshape, Squeeze, Unsqueeze or Flatten, with symbols kept.

Reshape [batch, time, 64] to [0, 0, 8, -1]   ->   [batch, time, 8, 8]
Flatten [batch, time, 64] at axis 2          ->   [batch*time, 64]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from regweave.graphs.attributes import attribute
from regweave.graphs.shapes.dimensions import Dim, Shape, dimension, product, quotient

Vector = tuple[Dim, ...]


def reshaped(
    node: onnx.NodeProto, shape: Shape, integers: Callable[[str], Vector | None], opset: int
) -> Shape | None:
    """The shape after a Reshape, Squeeze, Unsqueeze or Flatten of `shape`, or None where it is not known."""
    op = node.op_type
    if op == "Flatten":
        axis = attribute(node, "axis", 1)
        axis += len(shape) if axis < 0 else 0
        return dimension(product(shape[:axis])), dimension(product(shape[axis:]))
    if op == "Reshape":
        target = integers(node.input[1]) if len(node.input) > 1 else attribute(node, "shape")
        return (
            None if target is None else _reshape(shape, tuple(target), bool(attribute(node, "allowzero", 0)))
        )
    if op not in ("Squeeze", "Unsqueeze"):
        return None
    axes = attribute(node, "axes") if opset < 13 else None
    if opset >= 13 and len(node.input) > 1 and node.input[1]:
        axes = integers(node.input[1])
        if axes is None:
            return None
    if op == "Unsqueeze":
        return None if axes is None else _unsqueeze(shape, axes)
    if axes is None:
        fixed = all(isinstance(dim, int) for dim in shape)
        return tuple(dim for dim in shape if dim != 1) if fixed else None
    dropped = {int(axis) % len(shape) for axis in axes} if shape else set()
    return tuple(dim for axis, dim in enumerate(shape) if axis not in dropped)


def _reshape(shape: Shape, target: Vector, allow_zero: bool) -> Shape | None:
    if not allow_zero and any(dim == 0 and axis >= len(shape) for axis, dim in enumerate(target)):
        return None
    dims = [shape[axis] if dim == 0 and not allow_zero else dim for axis, dim in enumerate(target)]
    if dims.count(-1) > 1:
        return None
    if -1 in dims:
        rest = quotient(product(shape), product(dim for dim in dims if dim != -1))
        dims[dims.index(-1)] = "?" if rest is None else rest
    if "?" in dims:
        return None
    return tuple(dims)


def _unsqueeze(shape: Shape, axes: Sequence[Dim]) -> Shape | None:
    rank = len(shape) + len(axes)
    inserted = {int(axis) % rank for axis in axes}
    if len(inserted) != len(axes):
        return None
    rest = iter(shape)
    return tuple(1 if axis in inserted else next(rest) for axis in range(rank))
