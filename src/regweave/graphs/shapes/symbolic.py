"""Symbolic shapes of every tensor of a graph: numbers where they are fixed, symbols where they vary.

ONNX's own inference gives fresh names to whatever it cannot express (`unk__7`), so after two convolutions
it no longer knows that a residual has the shape of what it is added to. This pass keeps symbols through the
operators that cascades meet, and names a computed size by how it was computed:

    Conv 3x3 stride 2 on "width"   ->   "size(width,k3,s2,p1+1,d1)"

so that two branches that compute the same size from the same input agree. Integer vectors computed from
shapes (Shape, Gather, Slice, Concat, ...) are followed too, for the Reshape nodes that use them. Everything
else is taken from ONNX's inference; what nobody knows gets a symbol that equals nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx

from regweave.graphs.attributes import attribute, words
from regweave.graphs.shapes.dimensions import Dim, Shape
from regweave.graphs.shapes.reshapes import Vector, reshaped
from regweave.graphs.shapes.vectors import ShapeTable, vector_rule
from regweave.graphs.shapes.windows import window

SAME_SHAPE = words(
    "Identity Dropout Cast Relu LeakyRelu PRelu Elu Selu Celu ThresholdedRelu Clip Sigmoid Tanh HardSigmoid "
    "HardSwish Gelu FastGelu QuickGelu Swish Mish Softplus Softsign Erf Neg Abs Exp Log Sqrt Reciprocal "
    "Floor Ceil Round Sign Sin Cos Softmax LogSoftmax Hardmax LRN LpNormalization BatchNormalization "
    "InstanceNormalization GroupNormalization LayerNormalization Not IsNaN IsInf QuantizeLinear "
    "DequantizeLinear MeanVarianceNormalization CumSum"
)
BROADCAST = words(
    "Add Sub Mul Div Pow Max Min Sum Mean Mod And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual Where"
)
WINDOWS = words("Conv ConvInteger MaxPool AveragePool LpPool")
GLOBAL_POOLS = words("GlobalAveragePool GlobalMaxPool GlobalLpPool")


def symbolic_shapes(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    inferred: Mapping[str, Shape],
    integers: Callable[[str], Vector | None],
    opset: int,
) -> dict[str, Shape]:
    """Shapes of all tensors whose rank is known.

    `inputs` are the shapes of graph inputs and initializers; `inferred` what ONNX's inference and the model
    say of the rest, with unknown dimensions as unique symbols; `integers(name)` the entries of a constant
    integer tensor. Where the model has a name of its own for a size that this pass computes, the two are
    made one.
    """
    table, aliases = _pass(nodes, inputs, inferred, integers, opset)
    known = {dim for shape in inputs.values() for dim in shape}
    same = {
        theirs: next(iter(ours)) for theirs, ours in aliases.items() if len(ours) == 1 and theirs not in known
    }
    if not same:
        return table.shapes
    renamed = {name: tuple(same.get(dim, dim) for dim in shape) for name, shape in inferred.items()}
    return _pass(nodes, inputs, renamed, integers, opset)[0].shapes


def _pass(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    inferred: Mapping[str, Shape],
    integers: Callable[[str], Vector | None],
    opset: int,
) -> tuple[ShapeTable, dict[Dim, set[Dim]]]:
    """Shapes in one go over the nodes, and what was found in place of each of the model's own symbols."""
    table = ShapeTable(dict(inputs), integers)
    aliases: dict[Dim, set[Dim]] = {}
    for node in nodes:
        outputs = [name for name in node.output if name]
        if not outputs:
            continue
        ours = _shape(node, table, opset)
        for name in outputs:
            known = inferred.get(name)
            if name == node.output[0] and ours is not None:
                table.shapes[name] = _merge(ours, known, name)
                for mine, theirs in zip(ours, known or (), strict=False):
                    if mine is not None and isinstance(theirs, str) and mine != theirs and "?" not in theirs:
                        aliases.setdefault(theirs, set()).add(mine)
            elif known is not None:
                table.shapes[name] = known
        entries = vector_rule(node, table, opset)
        if entries is not None:
            table.vectors[node.output[0]] = entries
    return table, aliases


def _merge(ours: Sequence[Dim | None], known: Shape | None, name: str) -> Shape:
    """Our dimensions first; where we know none, those of ONNX's inference; else a new symbol."""
    if known is None or len(known) != len(ours):
        known = tuple(f"{name}[{axis}]?" for axis in range(len(ours)))
    return tuple(theirs if mine is None else mine for mine, theirs in zip(ours, known, strict=True))


def _shape(node: onnx.NodeProto, table: ShapeTable, opset: int) -> Sequence[Dim | None] | None:
    """`_rule`, or None where the node's attributes are no sense: too short, or for another rank."""
    try:
        return _rule(node, table, opset)
    except (IndexError, ValueError, TypeError, ZeroDivisionError):
        return None


def _rule(node: onnx.NodeProto, table: ShapeTable, opset: int) -> Sequence[Dim | None] | None:
    """The shape of the first output, or None where this pass has no rule for the node."""
    shapes = [table.shapes.get(name) if name else None for name in node.input]
    first = shapes[0] if shapes else None
    op = node.op_type
    if op in BROADCAST:
        return _broadcast(shapes)
    if first is None:
        return None
    if op in SAME_SHAPE:
        return first
    if op in WINDOWS:
        return window(node, first, shapes[1] if len(shapes) > 1 else None, opset)
    if op in GLOBAL_POOLS:
        return (*first[:2], *(1 for _ in first[2:]))
    if op == "MatMul" and len(shapes) == 2:
        return _matmul(first, shapes[1])
    if op == "Gemm" and len(shapes) > 1 and shapes[1] is not None and len(first) == len(shapes[1]) == 2:
        rows = first[1] if attribute(node, "transA", 0) else first[0]
        return (rows, shapes[1][0] if attribute(node, "transB", 0) else shapes[1][1])
    if op == "Transpose":
        order = attribute(node, "perm") or range(len(first))[::-1]
        return tuple(first[axis] for axis in order) if len(order) == len(first) else None
    if op == "Concat":
        return _concat(shapes, attribute(node, "axis", 1))
    if op.startswith("Reduce") and len(node.output) == 1:
        return _reduce(node, first, table)
    return reshaped(node, first, table.vector, opset)


def _broadcast(shapes: Sequence[Shape | None]) -> tuple[Dim | None, ...] | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes) or not known:
        return None
    result: list[Dim | None] = []
    for axis in range(max(map(len, known)), 0, -1):
        dims = {shape[-axis] for shape in known if len(shape) >= axis}
        result.append(_broadcast_dim(dims - {1}))
    return tuple(result)


def _broadcast_dim(dims: set[Dim]) -> Dim | None:
    if not dims:
        return 1
    if len(dims) == 1:
        return next(iter(dims))
    fixed = [dim for dim in dims if isinstance(dim, int)]
    return fixed[0] if len(fixed) == 1 else None


def _matmul(a: Shape, b: Shape | None) -> tuple[Dim | None, ...] | None:
    if b is None or not a or not b:
        return None
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    batch = _broadcast([a[:-2], b[:-2]])
    return None if batch is None else (*batch, *rows, *columns)


def _concat(shapes: Sequence[Shape | None], axis: int) -> tuple[Dim | None, ...] | None:
    known = [shape for shape in shapes if shape is not None]
    if not known or len({len(shape) for shape in known}) != 1:
        return None
    rank = len(known[0])
    result: list[Dim | None] = []
    for position in range(rank):
        dims = [shape[position] for shape in known]
        if position != axis % rank:
            result.append(next((dim for dim in dims if isinstance(dim, int)), dims[0]))
        elif len(known) == len(shapes) and all(isinstance(dim, int) for dim in dims):
            result.append(sum(dim for dim in dims if isinstance(dim, int)))
        else:
            result.append(None)
    return tuple(result)


def _reduce(node: onnx.NodeProto, shape: Shape, table: ShapeTable) -> Shape | None:
    axes: Sequence[Dim] | None = attribute(node, "axes")
    if len(node.input) > 1 and node.input[1]:
        axes = table.vector(node.input[1])
        if axes is None:
            return None
    if not axes:
        if attribute(node, "noop_with_empty_axes", 0):
            return shape
        axes = range(len(shape))
    reduced = {int(axis) % max(len(shape), 1) for axis in axes}
    if attribute(node, "keepdims", 1):
        return tuple(1 if axis in reduced else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in reduced)
