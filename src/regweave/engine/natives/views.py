"""What a view makes of a shape: by its node, or by names that two shapes share.

Reshape to [0, -1, 8]                    (2, 40, 120) -> (2, 600, 8)
["N", "T", 120] seen as ["N", 8, ?]      (2, 40, 120) -> (2, 8, 600)

Of one dimension at most nothing need be known: it is what is left of the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import onnx

from regweave.errors import InputError
from regweave.graphs.shapes.reshapes import reshaped

Dims = tuple[Any, ...]
Rule = Callable[[tuple[int, ...]], tuple[int, ...]]


def view_rule(node: onnx.NodeProto, integers: Callable[[str], tuple[int, ...] | None], opset: int) -> Rule:
    """What a view makes of a shape. It keeps nothing of the model alive but its own constants."""
    twin = onnx.NodeProto()
    twin.CopyFrom(node)
    constants = {tensor: integers(tensor) for tensor in node.input[1:]}

    def rule(given: tuple[int, ...]) -> tuple[int, ...]:
        found = reshaped(twin, given, constants.get, opset)
        if found is None:
            raise InputError(f"a tensor of shape {list(given)}", where=twin.name)
        return tuple(dim for dim in found if isinstance(dim, int))

    return rule


def by_symbols(shape: Dims, out: Dims) -> Rule | None:
    """How a shape becomes another of which every dimension but one is a number or one of the first's."""
    axes = [dim if isinstance(dim, int) else (shape.index(dim),) if dim in shape else None for dim in out]
    if axes.count(None) > 1:
        return None

    def rule(given: tuple[int, ...]) -> tuple[int, ...]:
        dims = [given[axis[0]] if isinstance(axis, tuple) else axis for axis in axes]
        known = prod(dim for dim in dims if dim is not None)
        return tuple((prod(given) // known if known else 0) if dim is None else dim for dim in dims)

    return rule
