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

import numpy as np
import onnx

from regweave.graphs.attributes import attribute, words
from regweave.graphs.dimensions import Dim, Shape, dimension, product, quotient

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

Vector = tuple[Dim, ...]


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
        ours = _rule(node, table, opset)
        for name in outputs:
            known = inferred.get(name)
            if name == node.output[0] and ours is not None:
                table.shapes[name] = _merge(ours, known, name)
                for mine, theirs in zip(ours, known or (), strict=False):
                    if mine is not None and isinstance(theirs, str) and mine != theirs and "?" not in theirs:
                        aliases.setdefault(theirs, set()).add(mine)
            elif known is not None:
                table.shapes[name] = known
        entries = _vector_rule(node, table, opset)
        if entries is not None:
            table.vectors[node.output[0]] = entries
    return table, aliases


def _merge(ours: Sequence[Dim | None], known: Shape | None, name: str) -> Shape:
    """Our dimensions first; where we know none, those of ONNX's inference; else a new symbol."""
    if known is None or len(known) != len(ours):
        known = tuple(f"{name}[{axis}]?" for axis in range(len(ours)))
    return tuple(theirs if mine is None else mine for mine, theirs in zip(ours, known, strict=True))


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
        return _window(node, first, shapes[1] if len(shapes) > 1 else None, opset)
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


def _window(
    node: onnx.NodeProto, shape: Shape, weight: Shape | None, opset: int
) -> tuple[Dim | None, ...] | None:
    """Convolution and pooling: batch and channels, then one size per window axis."""
    is_conv = node.op_type.startswith("Conv")
    spatial = len(shape) - 2
    kernel = attribute(node, "kernel_shape") or (weight[2:] if is_conv and weight else None)
    if spatial < 1 or kernel is None or len(kernel) != spatial:
        return None
    channels: Dim | None = (weight[0] if weight else None) if is_conv else shape[1]
    strides = attribute(node, "strides") or [1] * spatial
    dilations = attribute(node, "dilations") or [1] * spatial
    pads = attribute(node, "pads") or [0] * (2 * spatial)
    auto = attribute(node, "auto_pad", "NOTSET")
    ceil = bool(attribute(node, "ceil_mode", 0))
    sizes = [
        _window_size(dim, k, strides[i], dilations[i], (pads[i], pads[spatial + i]), auto, ceil)
        for i, (dim, k) in enumerate(zip(shape[2:], kernel, strict=True))
    ]
    return (shape[0], channels, *sizes)


def _window_size(
    dim: Dim, kernel: Dim, stride: int, dilation: int, pads: tuple[int, int], auto: str, ceil: bool
) -> Dim | None:
    if isinstance(kernel, str) or stride < 1:
        return None
    reach = (kernel - 1) * dilation + 1
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        if stride == 1:
            return dim
        return -(-dim // stride) if isinstance(dim, int) else f"size({_opaque(dim)},same,s{stride})"
    total = 0 if auto == "VALID" else pads[0] + pads[1]
    if stride == 1 and total == reach - 1:
        return dim
    if not isinstance(dim, int):
        form = f"k{kernel},s{stride},p{pads[0] if total else 0}+{pads[1] if total else 0},d{dilation}"
        return f"size({_opaque(dim)},{form}{',ceil' if ceil else ''})"
    if ceil:
        return None
    return (dim + total - reach) // stride + 1 if dim + total >= reach else None


def _opaque(symbol: str) -> str:
    """A symbol as part of another: `*` must not read as a product of the whole."""
    return symbol.replace("*", "×")


def _vector_rule(node: onnx.NodeProto, table: ShapeTable, opset: int) -> Vector | None:
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
