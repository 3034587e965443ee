"""Depthwise convolutions of blocked images as operators: they stay in onnxruntime's blocks on both sides."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from regweave.devices import cpu
from regweave.devices.onnxruntime import OUTPUT_PLACE, Place, Prepared, SizedOperator, Step
from regweave.errors import InputError, UnsupportedError
from regweave.graphs import Piece
from regweave.kernels.blocks.depthwise import (
    DepthwiseArguments,
    DepthwiseTiles,
    depthwise_kernel,
    depthwise_tiles,
    inner_tiles,
    packed_depthwise,
)
from regweave.machines.x86 import VectorMachine
from regweave.operators import Elementwise

PART_ROWS = 4
"""Rows of results that are worth waking a thread for."""


def can_run_depthwise(piece: Piece, machine: VectorMachine) -> bool:
    """Whether a piece is a depthwise convolution with a kernel for the sizes that the model was read for."""
    if piece.window is None or piece.input_shape is None:
        return False
    try:
        depthwise_tiles(piece.window.convolution(size or 1 for size in piece.input_shape), machine)
    except (InputError, UnsupportedError):
        return False
    return True


def depthwise_operator(
    piece: Piece, machine: VectorMachine, threads: int
) -> tuple[SizedOperator, cpu.Function]:
    """The operator, and its kernel for the sizes that the model was read for."""
    window, layer, shape = piece.window, piece.layer, piece.input_shape
    assert window is not None, "the caller asks for convolutions only"
    assert layer is not None
    assert shape is not None, "their sizes are known"
    weights = packed_depthwise(layer.weights, layer.bias, machine.lanes)
    channels = weights.shape[0] * machine.lanes

    def function(given: tuple[int, ...]) -> tuple[DepthwiseTiles, cpu.Function]:
        tiles = depthwise_tiles(window.convolution(given), machine)
        return tiles, _loaded(tiles, layer.epilogue, machine)

    def prepare(given: tuple[int, ...]) -> Prepared:
        images, _, height, width = given
        true = (images, piece.widths[0], height, width)
        _, _, rows, columns = window.convolution(true).out_shape
        out = (images, channels, rows, columns)
        if 0 in out:
            return Prepared(out, (), 0)
        tiles, kernel = function(true)
        inner, gap = inner_tiles(tiles, columns)
        parts = max(1, min(threads, images * weights.shape[0] * rows // PART_ROWS))
        arguments = DepthwiseArguments(
            weights=weights.ctypes.data, images=images, blocks=weights.shape[0], x_rows=height,
            x_columns=width, rows=rows, columns=columns, inner=inner, gap=gap, parts=parts,
        )  # fmt: skip
        places = {"x": Place(0), "y": Place(OUTPUT_PLACE)}
        step = Step(kernel.address, arguments, places, parts, keep=(kernel, weights))
        return Prepared(out, (step,), 0)

    operator = SizedOperator(
        piece.name, (channels,), ctypes.sizeof(DepthwiseArguments), prepare, keep=(weights,)
    )
    return operator, function(tuple(size or 1 for size in shape))[1]


@lru_cache(maxsize=64)
def _loaded(tiles: DepthwiseTiles, epilogue: tuple[Elementwise, ...], machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(
        lambda: depthwise_kernel(tiles, epilogue, machine), f"depthwise {tiles!r} {epilogue!r}", machine
    )
