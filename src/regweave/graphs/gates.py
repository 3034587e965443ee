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
from collections.abc import Callable, Mapping

import onnx

from regweave.graphs.model import Model
from regweave.graphs.polynomials import Atom, Polynomial
from regweave.graphs.steps import Ops, Step, is_close, scaled, scaled_silu, unary_work
from regweave.operators import (
    AddScalar,
    Clip,
    Elementwise,
    Gelu,
    HardSigmoid,
    HardSwish,
    MulScalar,
    Relu,
    Sigmoid,
    Tanh,
)

MAX_NODES = 14
TANH_INNER = math.sqrt(2.0 / math.pi)
TANH_CUBIC = 0.044715
ATOMS: Mapping[str, str] = {"Erf": "erf", "Tanh": "tanh", "Sigmoid": "sigmoid"}
CUBIC_STEPS = 8.0


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
    return _apply(ops[0], first) if ops else first


def _apply(op: Elementwise, x: Polynomial) -> Polynomial | None:
    match op:
        case Clip(low=low, high=high):
            return x.atom("clip", low, high)
        case Relu():
            return x.atom("clip", 0.0, math.inf)
        case HardSigmoid(alpha=alpha, beta=beta):
            inner = x.scaled(alpha).plus(Polynomial.constant(beta))
            return None if inner is None else inner.atom("clip", 0.0, 1.0)
        case MulScalar(value=value):
            return x.scaled(value)
    return None


def _power(base: Polynomial, exponent: Polynomial) -> Polynomial | None:
    powers = exponent.in_x()
    if powers is None or len(powers) != 1 or powers[0] not in (1.0, 2.0, 3.0):
        return None
    result: Polynomial | None = base
    for _ in range(int(powers[0]) - 1):
        result = None if result is None else result.times(base)
    return result


def _quotient(a: Polynomial, b: Polynomial) -> Polynomial | None:
    divisor = b.in_x()
    return a.scaled(1.0 / divisor[0]) if divisor is not None and len(divisor) == 1 and divisor[0] else None


ARITHMETIC: Mapping[str, Callable[[Polynomial, Polynomial], Polynomial | None]] = {
    "Add": lambda a, b: a.plus(b),
    "Sum": lambda a, b: a.plus(b),
    "Sub": lambda a, b: a.plus(b.scaled(-1.0)),
    "Mul": lambda a, b: a.times(b),
    "Div": _quotient,
    "Pow": _power,
}
KNOWN = frozenset(
    (*ATOMS, *ARITHMETIC, "Clip", "Max", "Min", "Relu", "HardSigmoid", "Neg", "Identity", "Dropout", "Cast")
)


def match(value: Polynomial) -> Ops | None:
    """Operators that compute the polynomial, or None if it is no activation that this project has."""
    plain = value.in_x()
    if plain is not None:
        return _affine(*plain, *([0.0] * (2 - len(plain)))) if len(plain) <= 2 else None
    parts = value.split()
    if parts is None:
        return None
    outside, atom, factor = parts
    if len(factor) == 2 and factor[0] == 0.0:
        return _gate(outside, atom, factor[1])
    if len(factor) == 1 and len(outside) == 1 and len(atom.argument) <= 2:
        inner = _affine(*atom.argument, *([0.0] * (2 - len(atom.argument))))
        outer = _affine(outside[0], factor[0])
        op = _function(atom)
        return None if op is None else (*inner, op, *outer)
    return None


def _affine(offset: float, factor: float) -> Ops:
    """factor * x + offset."""
    scale = () if factor == 1.0 else (MulScalar(factor),)
    return (*scale, *(() if offset == 0.0 else (AddScalar(offset),)))


def _function(atom: Atom) -> Elementwise | None:
    if atom.name == "clip":
        return Clip(*atom.parameters)
    return {"sigmoid": Sigmoid(), "tanh": Tanh()}.get(atom.name)


def _gate(outside: tuple[float, ...], atom: Atom, factor: float) -> Ops | None:
    """outside(x) + factor * x * atom."""
    argument = atom.argument
    if atom.name in ("erf", "tanh"):
        if len(outside) != 2 or outside[0] != 0.0 or not is_close(outside[1], factor):
            return None
        if atom.name == "erf":
            return _gelu_erf(argument, factor)
        if len(argument) == 2 and argument[0] == 0.0:
            return scaled_silu(2.0 * argument[1], 2.0 * factor)
        return _gelu_tanh(argument, factor)
    if any(outside):
        return None
    if atom.name == "sigmoid":
        if len(argument) == 2 and argument[0] == 0.0:
            return scaled_silu(argument[1], factor)
        return _gelu_tanh(tuple(value / 2.0 for value in argument), factor / 2.0)
    return _hard_swish(atom, factor)


def _gelu_erf(argument: tuple[float, ...], factor: float) -> Ops | None:
    """factor * x * (1 + erf(k x)), where a plain GELU has factor 1/2 and k = 1/sqrt(2)."""
    if len(argument) != 2 or argument[0] != 0.0 or argument[1] == 0.0:
        return None
    inner = argument[1] * math.sqrt(2.0)
    return scaled(Gelu("erf"), inner, 2.0 * factor / inner)


def _gelu_tanh(argument: tuple[float, ...], factor: float) -> Ops | None:
    """factor * x * (1 + tanh(a x + b x^3)), where a plain GELU has a = sqrt(2/pi), b = 0.044715 a.

    Exporters write the constants with more or fewer digits: the cubic term may differ by one part in 10^6.
    """
    if len(argument) != 4 or argument[0] or argument[2] or argument[1] == 0.0:
        return None
    inner = argument[1] / TANH_INNER
    if not is_close(argument[3], TANH_CUBIC * TANH_INNER * inner**3, CUBIC_STEPS):
        return None
    return scaled(Gelu("tanh"), inner, 2.0 * factor / inner)


def _hard_swish(atom: Atom, factor: float) -> Ops | None:
    """factor * x * clip(a x + b, 0, high), where a plain hard-swish has a = 1/6, b = 1/2, high = 1."""
    low, high = atom.parameters
    if len(atom.argument) != 2 or low != 0.0 or not 0.0 < high < math.inf:
        return None
    offset, slope = (value / high for value in atom.argument)
    if not is_close(offset, 0.5) or slope == 0.0:
        return None
    inner = 6.0 * slope
    return scaled(HardSwish(), inner, factor * high / inner)
