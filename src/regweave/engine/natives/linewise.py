"""Operators that reduce or rewrite lines of a plain tensor: its last axis, or its last ones together.

    linewise(Mean(), 2)        [batch, channels, height, width] -> [batch, channels, 1, 1]
    linewise(Softmax(), 1)     [batch, rows, columns] -> the same shape

Lines are shared out between threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import onnx

from regweave.devices import cpu
from regweave.devices.onnxruntime import OUTPUT_PLACE, RANK, Place, Prepared, SizedOperator, Step
from regweave.errors import InputError
from regweave.graphs.attributes import attribute
from regweave.kernels.tensors.lines import (
    LargestOfLine,
    LayerNorm,
    LineWork,
    Mean,
    Softmax,
    line_arguments,
    line_kernel,
)
from regweave.machines.x86 import VectorMachine

_EPSILON = 1e-5
_LAST_AXIS = 13
"""The operator set from which a Softmax is of one axis, the last one by default; before, all axes from its
axis on, by default 1, were one line."""

PART_ELEMENTS = 1 << 14
"""Elements below which a part is not worth waking a thread for."""


def linewise_operator(
    name: str,
    work: LineWork,
    axes: int,
    machine: VectorMachine,
    threads: int,
    *,
    keep: bool = True,
    rank: int = RANK,
    scale: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> tuple[SizedOperator, cpu.Function]:
    """An operator on lines of the last `axes` axes of a tensor of at most `rank`, and its kernel.

    Reduced axes stay with one element each, or go where they are not to `keep`. A layer norm has a `scale`
    for each element of a line, and may have a `bias`. Its call fails for lines without elements, or of
    another length than the scale.
    """
    function, kind = _loaded(work, machine), line_arguments()
    extras = _extras(scale, bias) if isinstance(work, LayerNorm) else ()
    reduces = isinstance(work, (Mean, LargestOfLine))

    def prepare(shape: tuple[int, ...]) -> Prepared:
        if len(shape) < axes:
            raise InputError(f"a tensor of shape {list(shape)}", where=name, expected=f"at least {axes} axes")
        length, lines = prod(shape[-axes:]), prod(shape[:-axes])
        if lines and not length and reduces:
            raise InputError(f"lines without elements in shape {list(shape)}", where=name)
        if extras and length != extras[0].size:
            raise InputError(f"lines of {length} elements", where=name, expected=str(extras[0].size))
        out = (*shape[:-axes], *([1] * axes if keep else [])) if reduces else shape
        parts = max(1, min(threads, lines, lines * length // PART_ELEMENTS))
        arguments = kind(rows=length, batch=lines, parts=parts)
        arguments.extras[: len(extras)] = [array.ctypes.data for array in extras]
        step = Step(
            function.address, arguments, {"x": Place(0), "y": Place(OUTPUT_PLACE)}, parts,
            keep=(function, extras),
        )  # fmt: skip
        return Prepared(tuple(out), (step,) if lines * length else (), 0)

    operator = SizedOperator(name, (None,), ctypes.sizeof(kind), prepare, keep=(function, extras), rank=rank)
    return operator, function


def line_work(
    node: onnx.NodeProto,
    shapes: Callable[[str], Sequence[Any] | None],
    constant: Callable[[str], np.ndarray | None],
    opset: int,
) -> dict[str, Any] | None:
    """What a node of operator set `opset` does to the last axes of a tensor, as arguments of
    `linewise_operator`, by the shape of a tensor and the values of a constant; None if nothing."""
    shape = shapes(node.input[0]) if node.input else None
    if not shape or len([name for name in node.output if name]) != 1:
        return None
    rank = len(shape)
    if node.op_type == "GlobalAveragePool" and rank > 2:
        return {"work": Mean(), "axes": rank - 2}
    if node.op_type in ("ReduceMean", "ReduceMax"):
        work: LineWork = Mean() if node.op_type == "ReduceMean" else LargestOfLine()
        axes = attribute(node, "axes")
        if axes is None and len(node.input) > 1:
            axes = constant(node.input[1])
        last = None if axes is None else sorted(int(axis) % rank for axis in axes)
        if not last or last != list(range(rank - len(last), rank)):
            return None
        return {"work": work, "axes": len(last), "keep": bool(attribute(node, "keepdims", 1))}
    early = node.op_type == "Softmax" and opset < _LAST_AXIS
    axis = attribute(node, "axis", 1 if early else -1) % rank
    if early:
        return {"work": Softmax(), "axes": rank - axis}
    if axis != rank - 1:
        return None
    if node.op_type == "Softmax":
        return {"work": Softmax(), "axes": 1}
    if node.op_type == "LayerNormalization":
        scale, bias = (constant(name) if name else None for name in (*node.input[1:], "", "")[:2])
        if scale is None or (len(node.input) > 2 and node.input[2] and bias is None):
            return None
        eps = attribute(node, "epsilon", _EPSILON)
        return {"work": LayerNorm(eps), "axes": 1, "scale": scale, "bias": bias}
    return None


def _extras(scale: np.ndarray | None, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    assert scale is not None, "a layer norm has a scale"
    factor = np.ascontiguousarray(scale, np.float32).ravel()
    added = np.zeros_like(factor) if bias is None else np.ascontiguousarray(bias, np.float32).ravel()
    assert factor.size == added.size, "one of each for every element"
    return factor, added


@lru_cache(maxsize=32)
def _loaded(work: LineWork, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: line_kernel(work, machine), repr(work), machine)
