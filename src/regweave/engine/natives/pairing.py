"""Products of two computed tensors as operators: as many matrices as there are pairs.

    [batch, 8, 40, 15] @ [batch, 8, 15, 40] -> [batch, 8, 40, 40]

A right operand that is to be read by columns is transposed into memory of the operator's first.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from math import prod

from regweave.devices import cpu
from regweave.devices.onnxruntime import LINE, OUTPUT_PLACE, WORK_PLACE, Place, Prepared, SizedOperator, Step
from regweave.engine.natives.moving import Move, dense, move_steps
from regweave.errors import InputError
from regweave.kernels.tensors.moves import MoveArguments
from regweave.kernels.tensors.pairs import PairArguments, pair_kernel
from regweave.machines.x86 import VectorMachine

PART_FLOPS = 1 << 19
"""Work below which a part is not worth waking a thread for."""

Shape = tuple[int, ...]


def pair_operator(
    name: str,
    machine: VectorMachine,
    threads: int,
    *,
    alpha: float = 1.0,
    left_transposed: bool = False,
    right_transposed: bool = False,
) -> tuple[SizedOperator, cpu.Function]:
    """The operator `alpha * a @ b` of tensors whose axes before the last two are equal, and its kernel."""
    function = _loaded(machine)

    def prepare(a: Shape, b: Shape) -> Prepared:
        rows, depth = reversed(a[-2:]) if left_transposed else a[-2:]
        inner, columns = reversed(b[-2:]) if right_transposed else b[-2:]
        if len(a) < 2 or a[:-2] != b[:-2] or depth != inner:
            raise InputError(f"no products of {list(a)} and {list(b)}", where=name)
        pairs, out = prod(a[:-2]), (*a[:-2], rows, columns)
        if 0 in out:
            return Prepared(out, (), 0)
        right, steps, memory = Place(1), [], 0
        if right_transposed and depth:
            right, memory = Place(WORK_PLACE), -(-4 * prod(b) // LINE) * LINE
            counts = pairs, depth, columns
            move = Move(1, counts, 0, (depth * columns, 1, depth), 0, dense(counts))
            steps += move_steps(move, machine, threads, right)
        parts = max(1, min(threads, pairs, 2 * pairs * rows * depth * columns // PART_FLOPS))
        arguments = PairArguments(
            pairs=pairs, rows=rows, depth=depth, columns=columns,
            a_row=4 if left_transposed else 4 * depth, a_column=4 * rows if left_transposed else 4,
            b_row=4 * columns, y_row=4 * columns, a_pitch=4 * rows * depth, b_pitch=4 * depth * columns,
            y_pitch=4 * rows * columns, parts=parts, alpha=alpha,
        )  # fmt: skip
        places = {"a": Place(0), "b": right, "y": Place(OUTPUT_PLACE)}
        steps.append(Step(function.address, arguments, places, parts, keep=(function,)))
        return Prepared(out, tuple(steps), memory)

    size = max(ctypes.sizeof(PairArguments), ctypes.sizeof(MoveArguments))
    return SizedOperator(name, (None, None), size, prepare, keep=(function,)), function


@lru_cache(maxsize=4)
def _loaded(machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: pair_kernel(machine), "pairs", machine)
