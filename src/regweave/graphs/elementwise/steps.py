"""One node as element-wise work on the tensor that a walk stands at, or the reason why it is not.

    Add(t, [1, 96, 1, 1] constant)   ->  ChannelAdd with 96 floats
    Div(t, 6.0)                      ->  MulScalar(1/6)
    Add(t, r), r of t's shape        ->  TensorAdd of r, a residual
    Reshape(t) that keeps the rows   ->  no work, another shape

`UNARY` is the table of operators with one run-time operand; binary ones are decided by what their other
operand is. Constants stay in float64 here and are rounded once, when a chain is built.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx

from regweave.graphs.attributes import attribute
from regweave.graphs.elementwise.breakers import broken_by
from regweave.graphs.elementwise.cursor import Cursor
from regweave.graphs.elementwise.unary import FLOAT_MAX, LIMITS, UNARY, Ops, domain_of, unary_work
from regweave.graphs.reading.model import FLOAT, Model
from regweave.graphs.shapes.dimensions import Shape, show
from regweave.operators import (
    AddScalar,
    ChannelAdd,
    ChannelMul,
    MulScalar,
    TensorAdd,
    TensorMul,
)

GraphOperand = np.ndarray | str | None
Work = tuple[Ops, tuple[GraphOperand, ...]]

FLOAT_TINY = float(np.finfo(np.float32).tiny)
_IMAGE = 4
"""Dimensions of an image: [batch, channels, height, width]."""
RESHAPES = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten"))
BINARY = frozenset(("Add", "Sub", "Mul", "Div", "Sum"))


@dataclass(frozen=True, eq=False)
class Step:
    """Element-wise work of one or more nodes: operators, and an operand for each.

    An operand is a float64 vector (Channel operators), the name of a tensor (Tensor operators) or None.
    `nodes` are the names of the nodes that the step stands for, `output` the tensor that they leave.
    `added` are constants, by name, that the model does not hold and the rewritten one must. `gates` are the
    tensors with one element per image and channel; all others have the shape of what they are combined with.
    """

    ops: Ops
    operands: tuple[GraphOperand, ...]
    nodes: tuple[str, ...]
    output: str
    added: tuple[tuple[str, np.ndarray], ...] = ()
    gates: tuple[str, ...] = ()


def element_step(
    model: Model, node: onnx.NodeProto, cursor: Cursor, *, gates: bool = False
) -> tuple[Step, Cursor] | str:
    """The node as a step from `cursor` and the cursor behind it, or why it is none; with `gates` also what
    combines an image with one number per channel that is computed at run time."""
    op = node.op_type
    output = node.output[0]
    known = model.types.get(output)
    if known is not None and known != FLOAT:
        return f"gives {model.type_name(output)}"
    if any(name and (model.readers.get(name) or name in model.outputs) for name in node.output[1:]):
        return "has a second output that is read"
    if domain_of(node) == "" and op in BINARY and len(node.input) == 2:
        return _binary(model, node, cursor, gates)
    if op not in KNOWN:
        return broken_by(node, model)
    if node.input[0] != cursor.tensor and op not in LIMITS:
        return "takes it as a parameter"
    if domain_of(node) == "" and op in RESHAPES:
        shape = model.symbols.get(output)
        moved = None if shape is None else cursor.reshaped(output, shape)
        if moved is None:
            return f"turns {show(cursor.shape)} into {show(shape)}, which mixes rows"
        return Step((), (), (node.name,), output), moved
    if domain_of(node) == "" and op == "BatchNormalization":
        return _batch_norm(model, node, cursor)
    ops = unary_work(model, node)
    if ops is None:
        return "has parameters that do not fit, or are computed at run time"
    return Step(ops, (None,) * len(ops), (node.name,), output), cursor.at(output)


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


def _binary(model: Model, node: onnx.NodeProto, cursor: Cursor, gates: bool) -> tuple[Step, Cursor] | str:
    swapped = node.input[0] != cursor.tensor
    other = node.input[0] if swapped else node.input[1]
    output = node.output[0]
    if other == cursor.tensor:
        return "reads it twice"
    if other not in model.constants:
        shape = model.symbols.get(other)
        if gates and shape is not None and _is_gate(shape, cursor) and model.is_float32(other):
            found = _with_tensor(node, cursor, other, swapped)
            if isinstance(found, str):
                return found
            step, moved = found
            return replace(step, gates=(other,)), replace(moved, axis=1, channels=shape[1])
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


def _is_gate(shape: Shape, cursor: Cursor) -> bool:
    """Whether a tensor of that shape has one element per image and channel of the image at the cursor."""
    image = cursor.shape
    if image is None or len(image) != _IMAGE or shape == image:
        return False
    return cursor.axis in (None, 1) and shape == (*image[:2], 1, 1) and isinstance(image[1], int)


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


KNOWN = frozenset((*(op for _, op in UNARY), *RESHAPES, *BINARY, "BatchNormalization"))
