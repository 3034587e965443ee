"""Operators between pieces of blocked images: means of planes, and images joined along their channels.

    mean     [N, 96, H, W] -> [N, 96, 1, 1]             what a squeeze-and-excitation begins with
    join     24 + 24 channels in blocks of 16 -> 48     the parts do not fill their blocks, the result does

They come into being where the layout pass finds such nodes between native pieces.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from regweave.devices import cpu
from regweave.devices.onnxruntime import (
    OUTPUT_PLACE,
    NativeOperator,
    Pitch,
    Place,
    Prepared,
    SizedOperator,
    Step,
)
from regweave.engine.natives.native import PART_ELEMENTS, PLACES, Native, extra_input, padded
from regweave.kernels.blocks.joins import join_arguments, join_kernel
from regweave.kernels.blocks.means import mean_arguments, mean_kernel
from regweave.machines.x86 import VectorMachine
from regweave.operators import Same


def mean_native(channels: int, machine: VectorMachine, threads: int, name: str) -> Native:
    """The mean of each plane of a blocked image; `channels` counts padded ones."""
    function, kind = _loaded_mean(channels // machine.lanes, machine), mean_arguments()

    def prepare(shape: tuple[int, ...]) -> Prepared:
        batch, _, height, width = shape
        elements = batch * channels * height * width
        parts = max(1, min(threads, elements // PART_ELEMENTS))
        arguments = kind(rows=height * width, batch=batch, parts=parts)
        places = {"x": Place(0), "y": Place(OUTPUT_PLACE)}
        step = Step(function.address, arguments, places, parts, keep=(function,))
        return Prepared((batch, channels, 1, 1), (step,) if batch else (), 0)

    operator = SizedOperator(name, (channels,), ctypes.sizeof(kind), prepare, keep=(function,))
    return Native(operator, function)


def join_native(
    channels: tuple[int, ...], machine: VectorMachine, threads: int, block: int, name: str
) -> Native:
    """Blocked images of these numbers of channels joined along them."""
    function, kind = _loaded_join(channels, machine), join_arguments(len(channels))
    widths = [padded(count, block) for count in channels]
    total = padded(sum(channels), block)
    operator = NativeOperator(
        name,
        kernel=function.address,
        arguments=kind(),
        axis=1,
        channels_in=widths[0],
        channels_out=total,
        x_pitch=Pitch(),
        y_pitch=Pitch(),
        places=PLACES,
        output=(Same(0), total, Same(2), Same(3)),
        extras=tuple(extra_input(kind, index, width, 0) for index, width in enumerate(widths[1:])),
        parts=threads,
        unit=max(1, PART_ELEMENTS // total),
        keep=(function,),
    )
    return Native(operator, function)


@lru_cache(maxsize=32)
def _loaded_join(channels: tuple[int, ...], machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: join_kernel(channels, machine), f"join {channels!r}", machine)


@lru_cache(maxsize=32)
def _loaded_mean(blocks: int, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: mean_kernel(blocks, machine), f"mean {blocks}", machine)
