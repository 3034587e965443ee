"""Operators with one run-time operand, as element-wise operators: a table, with one maker per entry.

    unary_work(model, LeakyRelu node)   ->   (LeakyRelu(0.1),)
    unary_work(model, Identity node)    ->   ()

A maker answers None where the node's parameters do not fit: computed at run time, one per row, not a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import onnx

from regweave.errors import InputError
from regweave.graphs.attributes import attribute
from regweave.graphs.reading.model import FLOAT, Model
from regweave.operators import (
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
)

Ops = tuple[Elementwise, ...]
FLOAT_MAX = float(np.finfo(np.float32).max)
ORT_DOMAIN = "com.microsoft"
LIMITS = frozenset(("Max", "Min"))


def unary_work(model: Model, node: onnx.NodeProto) -> Ops | None:
    """The operators of a node with one run-time input, or None if there are none for it."""
    maker = UNARY.get((domain_of(node), node.op_type))
    try:
        return None if maker is None else maker(model, node)
    except InputError:
        return None


def domain_of(node: onnx.NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else node.domain


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
    return scaled(Silu(), inner, outer / inner) if inner else None


def scaled(op: Elementwise, inner: float, outer: float) -> Ops | None:
    """`outer * op(inner * x)`, without the factors that are 1 to within two float32 steps.

    None where a factor is beyond float32.
    """
    if not abs(inner) <= FLOAT_MAX or not abs(outer) <= FLOAT_MAX:
        return None
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
