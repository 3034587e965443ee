"""Operators that reduce or rewrite lines of a plain tensor: its last axis, or its last ones together.

    linewise(Mean(), 2)        [batch, channels, height, width] -> [batch, channels, 1, 1]
    linewise(Softmax(), 1)     [batch, rows, columns] -> the same shape

Lines are shared out between threads.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from math import prod

import numpy as np

from regweave.devices import cpu
from regweave.devices.onnxruntime import OUTPUT_PLACE, RANK, Place, Prepared, SizedOperator, Step
from regweave.errors import InputError
from regweave.kernels.tensors.lines import (
    LargestOfLine,
    LayerNorm,
    LineWork,
    Mean,
    line_arguments,
    line_kernel,
)
from regweave.machines.x86 import VectorMachine

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


def _extras(scale: np.ndarray | None, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    assert scale is not None, "a layer norm has a scale"
    factor = np.ascontiguousarray(scale, np.float32).ravel()
    added = np.zeros_like(factor) if bias is None else np.ascontiguousarray(bias, np.float32).ravel()
    assert factor.size == added.size, "one of each for every element"
    return factor, added


@lru_cache(maxsize=32)
def _loaded(work: LineWork, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: line_kernel(work, machine), repr(work), machine)
