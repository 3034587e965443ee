"""Native operators that change the layout of images, in the place of onnxruntime's between native ones."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from regweave.devices import cpu
from regweave.devices.onnxruntime import OUTPUT_PLACE, Place, Prepared, SizedOperator, Step
from regweave.engine.natives.native import PART_ELEMENTS
from regweave.kernels.blocks.reorders import reorder_arguments, reorder_kernel
from regweave.machines.x86 import VectorMachine


def reorder_operator(
    name: str, channels: int, machine: VectorMachine, threads: int, to_blocks: bool
) -> tuple[SizedOperator, cpu.Function]:
    """The operator for images of so many channels, in blocks as wide as a vector on one side; and its
    kernel."""
    function, kind = _loaded(channels, machine, to_blocks), reorder_arguments()
    padded = -(-channels // machine.lanes) * machine.lanes
    given, made = (channels, padded) if to_blocks else (padded, channels)

    def prepare(shape: tuple[int, ...]) -> Prepared:
        batch, _, height, width = shape
        parts = max(1, min(threads, batch * padded * height * width // PART_ELEMENTS))
        arguments = kind(rows=height * width, batch=batch, parts=parts)
        places = {"x": Place(0), "y": Place(OUTPUT_PLACE)}
        step = Step(function.address, arguments, places, parts, keep=(function,))
        return Prepared((batch, made, height, width), (step,) if batch * height * width else (), 0)

    return SizedOperator(name, (given,), ctypes.sizeof(kind), prepare, keep=(function,)), function


@lru_cache(maxsize=64)
def _loaded(channels: int, machine: VectorMachine, to_blocks: bool) -> cpu.Function:
    key = f"reorder {channels} {'to blocks' if to_blocks else 'to planes'}"
    return cpu.load_made(lambda: reorder_kernel(channels, machine, to_blocks), key, machine)
