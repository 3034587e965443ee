"""One node as element-wise work on the tensor that a walk stands at, or the reason why it is not.

    Add(t, [1, 96, 1, 1] constant)   ->  ChannelAdd with 96 floats
    Div(t, 6.0)                      ->  MulScalar(1/6)
    Add(t, r), r of t's shape        ->  TensorAdd of r, a residual
    Reshape(t) that keeps the rows   ->  no work, another shape

`UNARY` is the table of operators with one run-time operand; binary ones are decided by what their other
operand is. Constants stay in float64 here and are rounded once, when a chain is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx

from regweave.graphs.attributes import attribute
from regweave.graphs.cursor import Cursor
from regweave.graphs.dimensions import show
from regweave.graphs.model import FLOAT, Model
from regweave.operators import (
    AddScalar,
    ChannelAdd,
    ChannelMul,
    Clip,
    Elementwise,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    MulScalar,
    Relu,
    Sigmoid,
    Silu,
    Tanh,
    TensorAdd,
    TensorMul,
)

Ops = tuple[Elementwise, ...]
GraphOperand = np.ndarray | str | None
Work = tuple[Ops, tuple[GraphOperand, ...]]

FLOAT_MAX = float(np.finfo(np.float32).max)
FLOAT_TINY = float(np.finfo(np.float32).tiny)
RESHAPES = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten"))
LIMITS = frozenset(("Max", "Min"))
BINARY = frozenset(("Add", "Sub", "Mul", "Div", "Sum"))
ORT_DOMAIN = "com.microsoft"


@dataclass(frozen=True, eq=False)
class Step:
    """Element-wise work of one or more nodes: operators, and an operand for each.

    An operand is a float64 vector (Channel operators), the name of a tensor (Tensor operators) or None.
    `nodes` are the names of the nodes that the step stands for, `output` the tensor that they leave.
    `added` are constants, by name, that the model does not hold and the rewritten one must.
    """

    ops: Ops
    operands: tuple[GraphOperand, ...]
    nodes: tuple[str, ...]
    output: str
    added: tuple[tuple[str, np.ndarray], ...] = ()


def unary_work(model: Model, node: onnx.NodeProto) -> Ops | None:
    """The operators of a node with one run-time input, or None if there are none for it."""
    maker = UNARY.get((_domain(node), node.op_type))
    return None if maker is None else maker(model, node)


def element_step(model: Model, node: onnx.NodeProto, cursor: Cursor) -> tuple[Step, Cursor] | str:
    """The node as a step from `cursor` and the cursor behind it, or why it is none."""
    op = node.op_type
    output = node.output[0]
    known = model.types.get(output)
    if known is not None and known != FLOAT:
        return f"gives {model.type_name(output)}"
    if any(name and (model.readers.get(name) or name in model.outputs) for name in node.output[1:]):
        return "has a second output that is read"
    if _domain(node) == "" and op in BINARY and len(node.input) == 2:
        return _binary(model, node, cursor)
    if op not in KNOWN:
        return broken_by(node, model)
    if node.input[0] != cursor.tensor and op not in LIMITS:
        return "takes it as a parameter"
    if _domain(node) == "" and op in RESHAPES:
        shape = model.symbols.get(output)
        moved = None if shape is None else cursor.reshaped(output, shape)
        if moved is None:
            return f"turns {show(cursor.shape)} into {show(shape)}, which mixes rows"
        return Step((), (), (node.name,), output), moved
    if _domain(node) == "" and op == "BatchNormalization":
        return _batch_norm(model, node, cursor)
    ops = unary_work(model, node)
    if ops is None:
        return "has parameters that do not fit, or are computed at run time"
    return Step(ops, (None,) * len(ops), (node.name,), output), cursor.at(output)


def broken_by(node: onnx.NodeProto, model: Model) -> str:
    """Why an operator that is no element-wise work breaks a chain."""
    op = node.op_type
    if op in ("Conv", "ConvTranspose"):
        shape = model.symbols.get(node.input[1]) if len(node.input) > 1 else None
        kernel = attribute(node, "kernel_shape") or (shape[2:] if shape else ())
        return f"mixes neighbouring pixels (kernel {'x'.join(map(str, kernel))})"
    for reason, ops in BREAKERS.items():
        if op in ops or (op.startswith("Reduce") and "ReduceMean" in ops):
            return reason
    return "is not work that can be done in registers"


def constant_step(op: str, value: np.ndarray, kind: str, *, swapped: bool = False) -> Work:
    """`x op value`, or `value op x` if `swapped`, for a scalar or channel vector; ((), ()) if impossible."""
    with np.errstate(all="ignore"):
        if op == "Div":
            op, value = "Mul", 1.0 / value
            if swapped or not _is_normal(value):
                return (), ()
    if not np.all(np.isfinite(value)):
        return (), ()
    negated = op == "Sub" and swapped
    if op == "Sub" and not swapped:
        value = -value
    adds = op in ("Add", "Sub", "Sum")
    if kind == "scalar":
        number = float(value.reshape(-1)[0])
        work: Work = ((AddScalar(number) if adds else MulScalar(number),), (None,))
    else:
        work = ((ChannelAdd() if adds else ChannelMul(),), (value.reshape(-1),))
    return ((MulScalar(-1.0), *work[0]), (None, *work[1])) if negated else work


def _is_normal(value: np.ndarray) -> bool:
    """Whether float32 holds the values without overflow or loss of digits."""
    size = np.abs(value)
    return bool(np.all((size >= FLOAT_TINY) & (size <= FLOAT_MAX)))


def _domain(node: onnx.NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else node.domain


def _binary(model: Model, node: onnx.NodeProto, cursor: Cursor) -> tuple[Step, Cursor] | str:
    swapped = node.input[0] != cursor.tensor
    other = node.input[0] if swapped else node.input[1]
    output = node.output[0]
    if other == cursor.tensor:
        return "reads it twice"
    if other not in model.constants:
        shape = model.symbols.get(other)
        if shape is None or shape != cursor.shape:
            return f"combines it with '{other}' of shape {show(shape)}, not {show(cursor.shape)}"
        return _with_tensor(node, cursor, other, swapped)
    shape = model.symbols.get(other)
    if shape is None or any(not isinstance(dim, int) for dim in shape):
        shape = model.constants.value(other).shape
    fixed = tuple(dim for dim in shape if isinstance(dim, int))
    found = cursor.classify(fixed)
    if found is None:
        return f"combines it with a constant of shape {show(fixed)}, which is not one value per channel"
    kind, axis = found
    if kind == "full":
        return _with_tensor(node, cursor, other, swapped)
    value = np.asarray(model.constants.value(other), np.float64)
    work = constant_step(node.op_type, value, kind, swapped=swapped)
    if not work[0]:
        return (
            "divides by it"
            if swapped and node.op_type == "Div"
            else "has a constant that is not finite or tiny"
        )
    moved = cursor.at(output)
    if kind == "channel" and cursor.axis is None:
        moved = replace(moved, axis=axis, channels=value.size)
    return Step(*work, (node.name,), output), moved


def _with_tensor(
    node: onnx.NodeProto, cursor: Cursor, other: str, swapped: bool
) -> tuple[Step, Cursor] | str:
    """A second operand of the same shape: a residual or a gate. x - r is -(r - x), which rounds alike."""
    output, minus = node.output[0], MulScalar(-1.0)
    work: Work
    if node.op_type in ("Add", "Sum"):
        work = (TensorAdd(),), (other,)
    elif node.op_type == "Mul":
        work = (TensorMul(),), (other,)
    elif node.op_type == "Sub" and swapped:
        work = (minus, TensorAdd()), (None, other)
    elif node.op_type == "Sub":
        work = (minus, TensorAdd(), minus), (None, other, None)
    else:
        return f"divides it and '{other}'"
    return Step(*work, (node.name,), output), cursor.at(output)


def _batch_norm(model: Model, node: onnx.NodeProto, cursor: Cursor) -> tuple[Step, Cursor] | str:
    if attribute(node, "training_mode", 0) or not attribute(node, "spatial", 1):
        return "does not run in inference mode per channel"
    if cursor.shape is None or len(cursor.shape) < 2 or cursor.axis not in (None, 1):
        return "normalizes axis 1, which is not the channels' axis"
    if any(name not in model.constants for name in node.input[1:5]):
        return "has parameters that are computed at run time"
    scale, offset, mean, variance = (
        np.asarray(model.constants.value(name), np.float64).reshape(-1) for name in node.input[1:5]
    )
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
        shift = offset - mean * factor
    if not (np.all(np.isfinite(factor)) and np.all(np.isfinite(shift))):
        return "has parameters that are not finite"
    if cursor.shape[1] != factor.size:
        return f"has {factor.size} channels"
    moved = replace(cursor.at(node.output[0]), axis=1, channels=factor.size)
    return Step((ChannelMul(), ChannelAdd()), (factor, shift), (node.name,), node.output[0]), moved


def _scalar(model: Model, name: str) -> float | None:
    """The value of a constant with one element, as a float."""
    value = model.constants.small(name)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def _clip(model: Model, node: onnx.NodeProto) -> Ops | None:
    bounds: list[float] = []
    for index, word, default in ((1, "min", -FLOAT_MAX), (2, "max", FLOAT_MAX)):
        given: float | None = attribute(node, word, default)
        if len(node.input) > index and node.input[index]:
            given = _scalar(model, node.input[index])
        if given is None or math.isnan(given):
            return None
        bounds.append(given)
    return (Clip(*bounds),)


def _limit(model: Model, node: onnx.NodeProto) -> Ops | None:
    """Max or Min with one scalar constant."""
    name = next((name for name in node.input if name in model.constants), "")
    if len(node.input) != 2 or not name or len(model.symbols.get(name, ())) > 1:
        return None
    bound = _scalar(model, name)
    if bound is None or math.isnan(bound):
        return None
    return (Clip(low=bound),) if node.op_type == "Max" else (Clip(high=bound),)


def _leaky(model: Model, node: onnx.NodeProto) -> Ops | None:
    return (LeakyRelu(attribute(node, "alpha", 0.01)),)


def _prelu(model: Model, node: onnx.NodeProto) -> Ops | None:
    slope = _scalar(model, node.input[1])
    if slope is None or not math.isfinite(slope) or len(model.symbols.get(node.input[1], ())) > 1:
        return None
    return (LeakyRelu(slope),)


def _hard_sigmoid(model: Model, node: onnx.NodeProto) -> Ops | None:
    return (HardSigmoid(attribute(node, "alpha", 0.2), attribute(node, "beta", 0.5)),)


def _gelu(model: Model, node: onnx.NodeProto) -> Ops | None:
    form = attribute(node, "approximate", "none")
    return (Gelu("tanh" if form == "tanh" else "erf"),) if form in ("none", "tanh") else None


def _fast_gelu(model: Model, node: onnx.NodeProto) -> Ops | None:
    return (Gelu("tanh"),) if len([name for name in node.input if name]) == 1 else None


def _swish(default: float) -> Callable[[Model, onnx.NodeProto], Ops | None]:
    def make(model: Model, node: onnx.NodeProto) -> Ops | None:
        return scaled_silu(float(attribute(node, "alpha", default)), 1.0)

    return make


def scaled_silu(inner: float, outer: float) -> Ops | None:
    """`outer * x * sigmoid(inner * x)` as operators."""
    return scaled(Silu(), inner, outer / inner) if inner and math.isfinite(outer / inner) else None


def scaled(op: Elementwise, inner: float, outer: float) -> Ops:
    """`outer * op(inner * x)`, without the factors that are 1 to within two float32 steps."""
    before = () if is_close(inner, 1.0) else (MulScalar(inner),)
    behind = () if is_close(outer, 1.0) else (MulScalar(outer),)
    return (*before, op, *behind)


def is_close(value: float, target: float, steps: float = 2.0) -> bool:
    """Whether two numbers agree to within `steps` float32 roundings."""
    return abs(value - target) <= steps * 2.0**-23 * abs(target)


def _dropout(model: Model, node: onnx.NodeProto) -> Ops | None:
    if model.opset < 7:
        return () if attribute(node, "is_test", 0) else None
    mode = node.input[2] if len(node.input) > 2 else ""
    if not mode:
        return ()
    value = model.constants.small(mode)
    return () if value is not None and not value.any() else None


def _cast(model: Model, node: onnx.NodeProto) -> Ops | None:
    return () if attribute(node, "to") == FLOAT and model.is_float32(node.input[0]) else None


def _plain(*ops: Elementwise) -> Callable[[Model, onnx.NodeProto], Ops | None]:
    return lambda model, node: ops


UNARY: Mapping[tuple[str, str], Callable[[Model, onnx.NodeProto], Ops | None]] = {
    ("", "Identity"): _plain(),
    ("", "Dropout"): _dropout,
    ("", "Cast"): _cast,
    ("", "Relu"): _plain(Relu()),
    ("", "Sigmoid"): _plain(Sigmoid()),
    ("", "Tanh"): _plain(Tanh()),
    ("", "Neg"): _plain(MulScalar(-1.0)),
    ("", "HardSwish"): _plain(HardSwish()),
    ("", "LeakyRelu"): _leaky,
    ("", "PRelu"): _prelu,
    ("", "Clip"): _clip,
    ("", "Max"): _limit,
    ("", "Min"): _limit,
    ("", "HardSigmoid"): _hard_sigmoid,
    ("", "Gelu"): _gelu,
    ("", "Swish"): _swish(1.0),
    (ORT_DOMAIN, "Gelu"): _plain(Gelu("erf")),
    (ORT_DOMAIN, "FastGelu"): _fast_gelu,
    (ORT_DOMAIN, "QuickGelu"): _swish(1.702),
}
KNOWN = frozenset((*(op for _, op in UNARY), *RESHAPES, *BINARY, "BatchNormalization"))
BREAKERS: Mapping[str, frozenset[str]] = {
    "moves rows and columns": frozenset(("Transpose", "DepthToSpace", "SpaceToDepth")),
    "pools neighbouring pixels": frozenset(("MaxPool", "AveragePool", "LpPool")),
    "reduces over rows or channels": frozenset(
        ("ReduceMean", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "ArgMax", "ArgMin", "TopK")
    ),
    "needs whole rows": frozenset(
        ("Softmax", "LogSoftmax", "LayerNormalization", "GroupNormalization", "InstanceNormalization", "LRN")
    ),
    "joins it with other tensors": frozenset(("Concat",)),
    "takes it apart": frozenset(("Split", "Slice", "Gather", "Tile", "Expand", "Pad", "Resize", "Upsample")),
    "turns it into integers": frozenset(("QuantizeLinear", "DynamicQuantizeLinear", "Shape", "Size")),
    "carries state from row to row": frozenset(("GRU", "LSTM", "RNN", "Scan", "Loop", "CumSum")),
}
