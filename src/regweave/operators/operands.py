"""Second operands of element-wise operators, checked once for stages and for element-wise runs alike.

    epilogue (ChannelAdd(), Relu(), TensorAdd())   operands (bias, None, 0)

A channel operand is data and travels with the stage; a tensor operand is only the index of a run-time input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from regweave.errors import InputError
from regweave.operators.elementwise import Elementwise

Operand = np.ndarray | int | None
T = TypeVar("T")


def all_of(kind: type[T], given: Iterable[T], where: str, example: str) -> tuple[T, ...]:
    """`given` as a tuple. InputError if it is no list or holds something else than `kind`."""
    try:
        values = tuple(given)
    except TypeError:
        raise InputError(
            f"{given!r} is not a list", where=where, expected=f"a tuple, e.g. {example}"
        ) from None
    for value in values:
        if not isinstance(value, kind):
            raise InputError(
                f"{value!r} is not of type {kind.__name__}", where=where, expected=f"e.g. {example}"
            )
    return values


def check_operands(
    ops: Sequence[Elementwise], operands: Sequence[Operand], channels: int | None, where: str
) -> tuple[Operand, ...]:
    """The operands, one per operator, validated; `channels` None accepts any one length."""
    if not isinstance(operands, Sequence):
        raise InputError(
            f"operands are {operands!r}", where=where, expected="a tuple, one entry per operator"
        )
    if not operands and all(op.operand == "none" for op in ops):
        operands = (None,) * len(ops)
    if len(operands) != len(ops):
        raise InputError(
            f"{len(operands)} operands for {len(ops)} operators", where=where, expected="one each (or None)"
        )
    return tuple(
        _check(op, operand, channels, f"{where}[{index}]")
        for index, (op, operand) in enumerate(zip(ops, operands, strict=True))
    )


def _check(op: Elementwise, operand: Operand, channels: int | None, where: str) -> Operand:
    if op.operand == "none":
        if operand is not None:
            raise InputError(f"{op} takes no operand", where=where, expected="None")
        return None
    if op.operand == "tensor":
        if isinstance(operand, bool) or not isinstance(operand, (int, np.integer)) or operand < 0:
            raise InputError(
                f"{op} got {operand!r}", where=where, expected="the index of an extra input, 0 or more"
            )
        return int(operand)
    if not isinstance(operand, np.ndarray) or operand.dtype != np.float32 or operand.ndim != 1:
        raise InputError(f"{op} got {_describe(operand)}", where=where, expected="a float32 vector [N]")
    if operand.size == 0 or (channels is not None and operand.size != channels):
        raise InputError(
            f"{op} got a vector of {operand.size}",
            where=where,
            expected=f"{'at least one' if channels is None else channels} floats, one per column",
        )
    return owned(operand)


def owned(array: np.ndarray) -> np.ndarray:
    """`array` as a plain contiguous one that nobody can change; copied unless that is so already."""
    plain = np.asarray(array)
    if not (plain.flags.c_contiguous and plain.flags.aligned and _constant(plain)):
        plain = np.array(plain, order="C")
        plain.flags.writeable = False
    return plain


def _constant(array: object) -> bool:
    """Whether nothing can write to the array's memory: neither it, nor any that it is a view of."""
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.base
    return array is None or isinstance(array, bytes)


def _describe(operand: object) -> str:
    if isinstance(operand, np.ndarray):
        return f"an array {operand.dtype.str} {list(operand.shape)}"
    return repr(operand)


def structure(operands: Sequence[Operand]) -> tuple[int | None, ...]:
    """The operands without their data: the indices of extra inputs, None elsewhere."""
    return tuple(operand if isinstance(operand, int) else None for operand in operands)


def extra_count(extras: Sequence[Sequence[int | None]]) -> int:
    """How many run-time inputs the indices name: one more than the largest."""
    return max((e + 1 for stage in extras for e in stage if e is not None), default=0)


def resolved(operand: Operand, extras: Sequence[np.ndarray], channel_first: bool) -> np.ndarray | None:
    """An operand as a float64 array that broadcasts against [..., N], or [..., N, P] if `channel_first`."""
    if operand is None:
        return None
    if isinstance(operand, np.ndarray):
        vector = operand.astype(np.float64)
        return vector[:, None] if channel_first else vector
    return np.asarray(extras[operand], np.float64)
