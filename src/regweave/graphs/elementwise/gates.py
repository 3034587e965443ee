"""Activations that are written out in several nodes and read their input more than once.

    t -> Sigmoid -> Mul(t, .)                        Silu
    t -> Div -> Erf -> Add -> Mul(t, .) -> Mul       Gelu
    t -> Add 3 -> Clip(0, 6) -> Mul(t, .) -> Div 6   HardSwish

Such a tensor has several readers, but all of them meet again in one tensor: `find_gate` grows the set of
nodes that read nothing but `t`, constants and each other until only one result leaves it, writes that result
as a polynomial (see `polynomials`) and compares coefficients. Factors other than the usual ones are not a
miss: 2 * gelu(3 x) is a Gelu between two MulScalar.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx

from regweave.graphs.elementwise.activations import ARITHMETIC, apply, match
from regweave.graphs.elementwise.polynomials import Polynomial
from regweave.graphs.elementwise.steps import Step
from regweave.graphs.elementwise.unary import Ops, unary_work
from regweave.graphs.reading.model import Model

MAX_NODES = 14
ATOMS: Mapping[str, str] = {"Erf": "erf", "Tanh": "tanh", "Sigmoid": "sigmoid"}


def find_gate(model: Model, tensor: str, *, first: int | None = None) -> Step | None:
    """The activation that all readers of `tensor` together compute, as one step, or None.

    With `first` (the index of a reader), readers that have nothing to do with that one may stay outside: the
    tensor is then the input of a piece, which exists anyway.
    """
    limit = None if first is None else {first}
    members: list[int] = []
    produced = {tensor}
    while len(members) < MAX_NODES:
        following = _next(model, produced, members, tensor, limit)
        if following is None:
            break
        members.append(following)
        produced.update(name for name in model.nodes[following].output if name)
        output = _only_exit(model, tensor, members, strict=first is None)
        if output is None or sum(list(model.nodes[i].input).count(tensor) for i in members) < 2:
            continue
        ops = _recognise(model, tensor, members, output)
        if ops is not None:
            names = tuple(model.nodes[index].name for index in members)
            return Step(ops, (None,) * len(ops), names, output)
    return None


def _next(
    model: Model, produced: set[str], members: list[int], tensor: str, limit: set[int] | None
) -> int | None:
    """The earliest node outside that reads only what is known: produced tensors and constants."""
    seeds = produced if limit is None or members else {tensor}
    candidates = sorted({index for name in seeds for index in model.readers.get(name, ())} - set(members))
    if limit is not None and not members:
        candidates = [index for index in candidates if index in limit]
    for index in candidates:
        node = model.nodes[index]
        if node.domain not in ("", "ai.onnx") or node.op_type not in KNOWN:
            continue
        if all(name == "" or name in produced or name in model.constants for name in node.input):
            return index
    return None


def _only_exit(model: Model, tensor: str, members: list[int], *, strict: bool) -> str | None:
    """The one tensor that leaves the set of nodes; None if more do, or (strict) `tensor` is read outside."""
    inside = set(members)
    if strict and (tensor in model.outputs or not set(model.readers.get(tensor, ())) <= inside):
        return None
    exits = [
        name
        for index in members
        for name in filter(None, model.nodes[index].output)
        if name in model.outputs or not set(model.readers.get(name, ())) <= inside
    ]
    last = model.nodes[members[-1]].output[0]
    return last if exits == [last] else None


def _recognise(model: Model, tensor: str, members: list[int], output: str) -> Ops | None:
    values: dict[str, Polynomial] = {tensor: Polynomial.unknown()}
    shape = model.symbols.get(tensor)
    for index in members:
        node = model.nodes[index]
        if shape is None or model.symbols.get(node.output[0]) != shape:
            return None
        result = _evaluate(model, node, values)
        if result is None:
            return None
        values[node.output[0]] = result
    return match(values[output])


def _operand(model: Model, name: str, values: Mapping[str, Polynomial]) -> Polynomial | None:
    if name in values:
        return values[name]
    constant = model.constants.small(name)
    if constant is None or constant.size != 1 or constant.dtype.kind not in "fiu":
        return None
    number = float(constant.reshape(-1)[0])
    return Polynomial.constant(number) if math.isfinite(number) else None


def _evaluate(model: Model, node: onnx.NodeProto, values: Mapping[str, Polynomial]) -> Polynomial | None:
    """The node's result as a polynomial, or None where it is beyond this form."""
    name = node.input[0]
    if name not in values and node.op_type in ("Max", "Min"):
        name = node.input[-1]
    first = _operand(model, name, values)
    if first is None:
        return None
    if node.op_type in ATOMS:
        return first.atom(ATOMS[node.op_type])
    if node.op_type in ARITHMETIC:
        second = _operand(model, node.input[1], values) if len(node.input) == 2 else None
        return None if second is None else ARITHMETIC[node.op_type](first, second)
    ops = unary_work(model, node) if name in values else None
    if ops is None or len(ops) > 1:
        return None
    return apply(ops[0], first) if ops else first


KNOWN = frozenset(
    (*ATOMS, *ARITHMETIC, "Clip", "Max", "Min", "Relu", "HardSigmoid", "Neg", "Identity", "Dropout", "Cast")
)
