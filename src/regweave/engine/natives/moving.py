"""Operators that only move elements: transposes, slices, joins; and views, which leave them where they are.

    Transpose [0, 2, 1]    [1, 120, 40] -> [1, 40, 120]     one move along two axes
    Slice                  [40, 3, 8, 15] -> [40, 1, 8, 15]  one move, its runs 120 elements long
    Concat                 a, b -> [a b]                     a move for each
    Reshape, Squeeze       the same elements under other dimensions

A view alone has to copy, as onnxruntime may give it other memory. Between the parts of a joined operator it
costs nothing: both names are of one place (see joined).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod

from regweave.devices import cpu
from regweave.devices.onnxruntime import OUTPUT_PLACE, RANK, Place, Prepared, SizedOperator, Step
from regweave.errors import InputError
from regweave.kernels.tensors.moves import (
    MOVE,
    Axis,
    MoveArguments,
    by_vectors,
    move_arguments,
    move_kernel,
    strips,
    walk,
)
from regweave.machines.x86 import VectorMachine

PART_ELEMENTS = 1 << 14
"""Elements that are worth waking a thread for."""

_RESULT = Place(OUTPUT_PLACE)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Move:
    """Elements of input `source`, from `start` on with `strides`, along axes of so many `counts`, go to the
    result from `to` on with `to_strides`; all in elements."""

    source: int
    counts: Shape
    start: int
    strides: Shape
    to: int
    to_strides: Shape


Plan = Callable[..., tuple[Shape, Sequence[Move]]]
"""The shape of the result and the moves that make it, for the shapes of the inputs."""


def dense(shape: Sequence[int]) -> Shape:
    """The strides of a tensor whose elements lie one behind the other.

    >>> dense((2, 3, 5))
    (15, 5, 1)
    """
    return tuple(accumulate(reversed(shape[1:]), int.__mul__, initial=1))[::-1] if shape else ()


def transposed(order: Sequence[int]) -> Plan:
    """Axis `order[i]` becomes axis i."""

    def plan(shape: Shape) -> tuple[Shape, Sequence[Move]]:
        strides = dense(shape)
        out = tuple(shape[axis] for axis in order)
        return out, [Move(0, out, 0, tuple(strides[axis] for axis in order), 0, dense(out))]

    return plan


def sliced(bounds: Sequence[tuple[int, int, int, int]]) -> Plan:
    """Some axes cut: (axis, start, end, step) as in ONNX, beyond the ends and negative allowed."""

    def plan(shape: Shape) -> tuple[Shape, Sequence[Move]]:
        strides, out, start = list(dense(shape)), list(shape), 0
        for axis, first, last, step in bounds:
            chosen = cut(shape[axis], first, last, step)
            out[axis] = len(chosen)
            start += chosen.start * strides[axis] if len(chosen) else 0
            strides[axis] *= step
        return tuple(out), [Move(0, tuple(out), start, tuple(strides), 0, dense(out))]

    return plan


def cut(size: int, first: int, last: int, step: int) -> range:
    """The indices that an ONNX slice takes of an axis.

    >>> list(cut(5, -2, 1 << 40, 1)), list(cut(5, 10, -100, -2))
    ([3, 4], [4, 2, 0])
    """
    first, last = (bound + size if bound < 0 else bound for bound in (first, last))
    if step > 0:
        return range(min(max(first, 0), size), min(max(last, 0), size), step)
    return range(min(max(first, 0), size - 1), min(max(last, -1), size - 1), step)


def side_by_side(axis: int, where: str) -> Plan:
    """Tensors joined along an axis."""

    def plan(*shapes: Shape) -> tuple[Shape, Sequence[Move]]:
        first = shapes[0]
        if any(
            len(s) != len(first) or (*s[:axis], *s[axis + 1 :]) != (*first[:axis], *first[axis + 1 :])
            for s in shapes
        ):
            raise InputError(f"tensors of shapes {[list(s) for s in shapes]} cannot be joined", where=where)
        out = (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
        starts = accumulate((prod(shape[axis:]) for shape in shapes), initial=0)
        return out, [
            Move(index, shape, 0, dense(shape), start, dense(out))
            for index, (shape, start) in enumerate(zip(shapes, starts, strict=False))
        ]

    return plan


def seen_as(rule: Callable[[Shape], Shape], where: str) -> Plan:
    """The same elements in another shape, which `rule` tells."""

    def plan(shape: Shape) -> tuple[Shape, Sequence[Move]]:
        out = rule(shape)
        if prod(out) != prod(shape):
            raise InputError(f"{list(shape)} cannot be seen as {list(out)}", where=where)
        return out, [Move(0, (prod(shape),), 0, (1,), 0, (1,))]

    return plan


def move_operator(
    name: str,
    plan: Plan,
    inputs: int,
    machine: VectorMachine,
    threads: int,
    *,
    rank: int = RANK,
    view: bool = False,
) -> tuple[SizedOperator, cpu.Function]:
    """The operator of a plan, whose result has at most `rank` dimensions, and its kernel; a `view` may be
    left out where both names can be of one place."""

    def prepare(*shapes: Shape) -> Prepared:
        out, moves = plan(*shapes)
        steps = [
            s for move in moves if prod(move.counts) for s in move_steps(move, machine, threads, _RESULT)
        ]
        return Prepared(out, tuple(steps), 0)

    kernels = tuple(_loaded(vectors, machine) for vectors in (True, False))
    operator = SizedOperator(
        name, (None,) * inputs, ctypes.sizeof(MoveArguments), prepare, keep=kernels, rank=rank, view=view
    )
    return operator, kernels[0]


def move_steps(move: Move, machine: VectorMachine, threads: int, to: Place) -> list[Step]:
    """One move as steps; the result begins at the place that `to` names."""
    axes = walk(move.counts, move.strides, move.to_strides) or ((1, 1, 1),)
    if len(axes) == 1 and axes[0][1:] == (1, 1):
        axes = _rows(axes[0][0])
    steps = []
    for part, x, y in strips(axes):
        elements = prod(count for count, _, _ in part)
        parts = max(1, min(threads, part[0][0] if len(part) > 1 else 1, elements // PART_ELEMENTS))
        function = _loaded(by_vectors(part, machine), machine)
        places = {
            "x": Place(move.source, 4 * (move.start + x)),
            "y": Place(to.source, to.offset + 4 * (move.to + y)),
        }
        steps.append(Step(function.address, move_arguments(part, parts), places, parts, keep=(function,)))
    return steps


def _rows(count: int) -> tuple[Axis, ...]:
    """A long run as rows that parts can share, where it can be divided evenly."""
    rows = next((rows for rows in (16, 8, 4, 2) if count % rows == 0 and count > PART_ELEMENTS), 1)
    run = count // rows
    return ((rows, run, run), (run, 1, 1)) if rows > 1 else ((count, 1, 1),)


def pays(plan: Plan, shapes: Sequence[Shape], machine: VectorMachine) -> bool:
    """Whether onnxruntime would not be faster: it is with many runs that are shorter than a vector."""
    out, moves = plan(*shapes)
    axes = [walk(move.counts, move.strides, move.to_strides)[-1:] for move in moves]
    short = any(axis[1:] == (1, 1) and axis[0] < machine.lanes for last in axes for axis in last)
    return not short or prod(out) <= PART_ELEMENTS


def only_moves(kernel: cpu.Function) -> bool:
    """Whether a kernel computes nothing."""
    return kernel.listing.name == MOVE


@lru_cache(maxsize=8)
def _loaded(vectors: bool, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: move_kernel(vectors, machine), f"move {vectors}", machine)
