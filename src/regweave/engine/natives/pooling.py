"""MaxPool and AveragePool of blocked images as native operators: stand-ins for onnxruntime's."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from regweave.devices import cpu
from regweave.devices.onnxruntime import OUTPUT_PLACE, Place, Prepared, SizedOperator, Step
from regweave.engine.natives.native import PART_ELEMENTS
from regweave.errors import UnsupportedError
from regweave.kernels.blocks.pools import Pool, PoolArguments, pool_kernel
from regweave.machines.x86 import VectorMachine


def pool_operator(
    name: str, pool: Pool, channels: int, machine: VectorMachine, threads: int
) -> tuple[SizedOperator, cpu.Function]:
    """The operator for blocked images of so many channels, padded ones counted; and its kernel.

    Errors: UnsupportedError for windows that may lie in padding alone.
    """
    if not pool.is_whole:
        raise UnsupportedError("windows that may have no pixel of the image", where=name)
    function, blocks = _loaded(pool, machine), channels // machine.lanes

    def prepare(shape: tuple[int, ...]) -> Prepared:
        batch, _, rows, columns = shape
        high, wide = pool.size(rows, columns)
        elements = batch * channels * high * wide
        parts = max(1, min(threads, batch * blocks, elements // PART_ELEMENTS))
        arguments = PoolArguments(
            blocks=batch * blocks, rows=rows, columns=columns, high=high, wide=wide, parts=parts
        )
        places = {"x": Place(0), "y": Place(OUTPUT_PLACE)}
        step = Step(function.address, arguments, places, parts, keep=(function,))
        return Prepared((batch, channels, high, wide), (step,) if elements else (), 0)

    return SizedOperator(name, (channels,), ctypes.sizeof(PoolArguments), prepare, keep=(function,)), function


@lru_cache(maxsize=32)
def _loaded(pool: Pool, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: pool_kernel(pool, machine), repr(pool), machine)
