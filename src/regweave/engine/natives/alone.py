"""A node alone: the piece that is a small model of it, which finds what a kernel needs in its own words.

    MatMul(x [batch, "T", 120], weights)     model of this node, "T" as size0     piece: one product of rows

So nodes that onnxruntime's optimiser has made need no second way to become pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from regweave.graphs import Piece, find_pieces, read_model
from regweave.graphs.elementwise.unary import ORT_DOMAIN

Dims = tuple[Any, ...]

_IR = 8


def piece_alone(
    node: onnx.NodeProto,
    values: Mapping[str, np.ndarray],
    shapes: Mapping[str, Dims],
    given: Mapping[str, Sequence[int]],
    opset: int,
) -> tuple[Piece | None, Dims | None]:
    """The piece that is all of a node, and the shape of its result; None for both where there is none.

    `values` are those of constants that it reads, `shapes` with symbols those of the other tensors, `given`
    the same for the sizes that matter most.
    """
    symbols: dict[Any, str] = {}
    sizes: dict[str, int] = {}
    infos = []
    for tensor, shape in shapes.items():
        for dim, size in zip(shape, given[tensor], strict=True):
            if not isinstance(dim, int):
                sizes[symbols.setdefault(dim, f"size{len(symbols)}")] = size
        dims = [dim if isinstance(dim, int) else symbols[dim] for dim in shape]
        infos.append(helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, dims))
    twin = onnx.NodeProto()
    twin.CopyFrom(node)
    twin.name = f"{node.output[0]}/native"
    y = helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None)
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(v).reshape(v.shape), t) for t, v in values.items()
    ]
    graph = helper.make_graph([twin], "alone", infos, [y], tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ORT_DOMAIN, 1)]
    read = read_model(helper.make_model(graph, opset_imports=opsets, ir_version=_IR), sizes)
    found = [piece for piece in find_pieces(read) if piece.refusal is None]
    names: dict[Any, Any] = {symbol: dim for dim, symbol in symbols.items()}
    out = read.symbols.get(node.output[0])
    if len(found) != 1 or len(found[0].nodes) != len(read.nodes) or out is None:
        return None, None
    return found[0], tuple(names.get(dim, dim) for dim in out)
