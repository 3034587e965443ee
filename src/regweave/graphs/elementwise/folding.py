"""From the steps of a graph to the stages of a chain: scales into weights, constants together.

    (x @ W) * scale + shift, then Relu    ->    x @ (W * scale), ChannelAdd(shift), Relu

Every multiplication and addition of a constant that comes first behind a product goes into its weights and
one bias (an unfolded batch norm vanishes), and a last multiplication goes into the rows of the next product's
weights. All of it in float64 and rounded to float32 once. A factor stays an operator of its own where the
product of weights would overflow or be lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regweave.graphs.elementwise.steps import FLOAT_TINY, GraphOperand, Step
from regweave.graphs.elementwise.unary import FLOAT_MAX
from regweave.operators import (
    AddScalar,
    Chain,
    ChannelAdd,
    ChannelMul,
    Elementwise,
    ElementwiseRun,
    MulScalar,
    Operand,
    Order,
    Stage,
)

Item = tuple[Elementwise, GraphOperand]
ADDS = (AddScalar, ChannelAdd)
MULS = (MulScalar, ChannelMul)


def extra_names(steps: Sequence[Step]) -> tuple[str, ...]:
    """The tensors that steps read beside the main one, in order of first use, each once."""
    return tuple(
        dict.fromkeys(operand for step in steps for operand in step.operands if isinstance(operand, str))
    )


def build_chain(weights: Sequence[np.ndarray], steps: Sequence[Sequence[Step]], order: Order) -> Chain:
    """The chain of products `weights[i]` ([K, N] float32) with the work `steps[i]` behind each."""
    extras = extra_names([step for group in steps for step in group])
    stages: list[Stage] = []
    carried: np.ndarray | None = None
    for index, (weight, group) in enumerate(zip(weights, steps, strict=True)):
        matrix = (
            weight if carried is None else (weight.astype(np.float64) * carried[:, None]).astype(np.float32)
        )
        matrix, items = _fold_prefix(matrix, merged(_items(group)))
        carried = None
        if index + 1 < len(weights) and items and isinstance(items[-1][0], MULS):
            factor = np.broadcast_to(_value(items[-1]), matrix.shape[1:])
            if _survives(weights[index + 1], factor[:, None]):
                carried, items = factor, items[:-1]
        stages.append(Stage(matrix, *_operands(items, extras, matrix.shape[1])))
    return Chain(tuple(stages), order)


def build_run(steps: Sequence[Step], channel_first: bool) -> ElementwiseRun:
    """The element-wise work of `steps` on one tensor."""
    items = merged(_items(steps))
    return ElementwiseRun(
        *_operands(items, extra_names(steps), None), axis="first" if channel_first else "last"
    )


def has_work(steps: Sequence[Step]) -> bool:
    """Whether anything is computed at all, once what cancels is gone."""
    return bool(merged(_items(steps)))


def _items(steps: Sequence[Step]) -> list[Item]:
    return [item for step in steps for item in zip(step.ops, step.operands, strict=True)]


def _value(item: Item) -> np.ndarray:
    """The constant of an addition or multiplication, as float64."""
    op, operand = item
    if isinstance(op, (AddScalar, MulScalar)):
        return np.asarray(op.value, np.float64)
    return np.asarray(operand, np.float64)


def _add(value: np.ndarray) -> list[Item]:
    if value.ndim:
        return [(ChannelAdd(), value)] if np.any(value) else []
    return [(AddScalar(float(value)), None)] if _rounded(value) != 0 else []


def _mul(value: np.ndarray) -> list[Item]:
    if value.ndim:
        return [(ChannelMul(), value)] if np.any(_rounded(value) != 1) else []
    return [(MulScalar(float(value)), None)] if _rounded(value) != 1 else []


def _rounded(value: np.ndarray) -> np.ndarray:
    """The value in float32; what is too big becomes Inf."""
    with np.errstate(over="ignore"):
        return value.astype(np.float32)


def merged(items: Sequence[Item]) -> list[Item]:
    """Neighbouring additions in one, neighbouring multiplications in one, and none that changes nothing."""
    result: list[Item] = []
    for item in items:
        both = _together(result[-1], item) if result else None
        if both is not None:
            result[-1:] = both
        elif isinstance(item[0], ADDS):
            result.extend(_add(_value(item)))
        elif isinstance(item[0], MULS):
            result.extend(_mul(_value(item)))
        else:
            result.append(item)
    return result if len(result) == len(items) else merged(result)


def _together(first: Item, second: Item) -> list[Item] | None:
    """Two additions, or two multiplications, as one or none; None where that cannot be."""
    a, b = first[0], second[0]
    if isinstance(a, ADDS) and isinstance(b, ADDS):
        total, make = _value(first) + _value(second), _add
    elif isinstance(a, MULS) and isinstance(b, MULS):
        total, make = _value(first) * _value(second), _mul
    else:
        return None
    sizes = np.abs(total)
    fits = np.all((sizes <= FLOAT_MAX) & ((sizes >= FLOAT_TINY) | (sizes == 0)))
    return make(np.asarray(total)) if fits else None


def _fold_prefix(weight: np.ndarray, items: list[Item]) -> tuple[np.ndarray, list[Item]]:
    """Leading additions and multiplications of constants, into the weights and one addition."""
    scale, shift = np.asarray(1.0), np.asarray(0.0)
    taken = 0
    for op, operand in items:
        if isinstance(op, ADDS):
            shift = shift + _value((op, operand))
        elif isinstance(op, MULS) and _survives(weight, scale * _value((op, operand))):
            scale, shift = scale * _value((op, operand)), shift * _value((op, operand))
        else:
            break
        taken += 1
    if np.any(scale != 1.0):
        weight = (weight.astype(np.float64) * scale).astype(np.float32)
    return weight, [*_add(np.asarray(shift)), *items[taken:]]


def _survives(weight: np.ndarray, factor: np.ndarray) -> bool:
    """Whether weights times factors stay in float32's range: no new Inf, nothing but zero made tiny."""
    with np.errstate(all="ignore"):
        sizes = np.abs(weight.astype(np.float64) * factor)
    whole = np.isfinite(weight)
    return bool(
        np.all(np.isfinite(factor))
        and np.all((sizes <= FLOAT_MAX) | ~whole)
        and np.all((sizes >= FLOAT_TINY) | (np.abs(weight) < FLOAT_TINY) | ~whole)
    )


def _operands(
    items: Sequence[Item], extras: Sequence[str], channels: int | None
) -> tuple[tuple[Elementwise, ...], tuple[Operand, ...]]:
    """Operators and their operands as `regweave.operators` wants them: float32 vectors, indices of extras."""
    operands: list[Operand] = []
    for _, operand in items:
        if isinstance(operand, str):
            operands.append(extras.index(operand))
        elif operand is None:
            operands.append(None)
        else:
            values = _rounded(operand)
            operands.append(values if channels is None else np.broadcast_to(values, (channels,)))
    return tuple(op for op, _ in items), tuple(operands)
