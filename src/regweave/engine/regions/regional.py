"""Convolutions and regions of them as operators that are prepared by size.

A region goes through its images whole (`region_plan`), or band by band (`banded`) where that keeps them in
cache; which of the two depends on the size.
"""

from __future__ import annotations

import ctypes
from functools import cache

from regweave.convolution import Conv2d
from regweave.devices.onnxruntime import OUTPUT_PLACE, Place, Prepared, SizedOperator
from regweave.engine.regions.banded import banded
from regweave.engine.regions.interleaved import convolutions, strides_of
from regweave.engine.regions.layers import Layers
from regweave.engine.regions.plan import Plan
from regweave.engine.regions.preparing import Shape, convolution_layer, room_of
from regweave.errors import UnsupportedError
from regweave.graphs import Piece
from regweave.graphs.regions.smaller import with_small_products
from regweave.kernels.convolution import ConvArguments
from regweave.kernels.planes.kernel import can_run
from regweave.machines.x86 import VectorMachine
from regweave.operators import PlaneWork


def convolution_operator(piece: Piece, layer: Conv2d, machine: VectorMachine, threads: int) -> SizedOperator:
    """A single convolution on plain images; of dilated rows several, where they gain."""

    @cache
    def parted(padding: tuple[int, ...], dilations: tuple[int, int]) -> Conv2d:
        return convolution_layer(piece, machine, threads, padding, dilations)

    def prepare(shape: Shape, *, finite: bool = True) -> Prepared:
        out_shape = layer.convolution(shape).out_shape
        if 0 in out_shape:
            return Prepared(out_shape, (), 0)
        x, y = strides_of(shape), strides_of(out_shape)
        parts = convolutions(layer, shape, x, y, parted, finite)
        strips, memory = room_of([part.dense for part in parts])
        steps = [part.step(Place(0), Place(OUTPUT_PLACE), strips, x[0], y[0]) for part in parts]
        return Prepared(out_shape, tuple(steps), memory)

    return SizedOperator(piece.name, (piece.widths[0],), ctypes.sizeof(ConvArguments), prepare, keep=(layer,))


def region_operator(piece: Piece, machine: VectorMachine, threads: int) -> SizedOperator:
    """A region. Errors: UnsupportedError where a member has no kernel."""
    assert piece.region is not None, "the caller asks for regions only"
    region = with_small_products(piece.region)
    for member in region.members:
        if isinstance(member.work, PlaneWork) and not can_run(member.work, machine):
            raise UnsupportedError(f"no kernel for {member.work}", where=member.nodes[0])
    layers = Layers(region, machine, threads)

    def prepare(*given: Shape, finite: bool = True) -> Prepared:
        plan = Plan(region, layers, given, finite)
        return (banded(plan) or plan).prepared()

    return SizedOperator(piece.name, region.channels, layers.arguments_size, prepare, keep=(layers,))
