"""Convolutions and regions of them as operators that are prepared by size.

A size is prepared by going through the region once: every member's shape, where every tensor lies (an input,
the output, or memory of the operator's own), a kernel for each member with those addresses.

    memory   [flags][strips of the convolution that runs][images between members, by their lifetimes]
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from regweave.convolution import Conv2d, DenseConvolution
from regweave.devices import cpu
from regweave.devices.onnxruntime import LINE, OUTPUT_PLACE, WORK_PLACE, Place, Prepared, SizedOperator, Step
from regweave.errors import UnsupportedError
from regweave.graphs import Piece
from regweave.graphs.members import JOIN, Member, Region, Spot, placed, spots
from regweave.kernels.convolution import ConvArguments
from regweave.kernels.planes import PlaneArguments, can_run, plane_kernel
from regweave.machines.x86 import VectorMachine
from regweave.operators import Largest, Repeat

Shape = tuple[int, ...]


def convolution_layer(piece: Piece, machine: VectorMachine, threads: int) -> Conv2d:
    """The convolution of a piece with its weights packed."""
    layer, window = piece.layer, piece.window
    assert layer is not None, "the caller asks for convolutions only"
    assert window is not None
    return Conv2d(
        layer.weights,
        layer.bias,
        stride=window.settings["strides"],
        padding=window.settings["padding"],
        dilation=window.settings["dilations"],
        groups=window.settings["groups"],
        activation=layer.epilogue,
        threads=threads,
        isa=machine.name,
    )


def convolution_operator(piece: Piece, layer: Conv2d) -> SizedOperator:
    """A single convolution on plain images."""

    def prepare(shape: Shape) -> Prepared:
        dense = layer.dense(shape)
        strips, memory = _room([dense])
        x, y = Place(0), Place(OUTPUT_PLACE)
        steps = () if 0 in dense.out_shape else (_convolution(dense, x, y, strips),)
        return Prepared(dense.out_shape, steps, memory)

    return SizedOperator(piece.name, (piece.widths[0],), ctypes.sizeof(ConvArguments), prepare, keep=(layer,))


def region_operator(piece: Piece, machine: VectorMachine, threads: int) -> SizedOperator:
    """A region. Errors: UnsupportedError where a member has no kernel."""
    region = piece.region
    assert region is not None, "the caller asks for regions only"
    layers = {}
    for member in region.members:
        if isinstance(member.work, Piece):
            layers[member.output] = convolution_layer(member.work, machine, threads)
        elif isinstance(member.work, (Repeat, Largest)) and not can_run(member.work, machine):
            raise UnsupportedError(f"no kernel for {member.work}", where=member.nodes[0])

    def prepare(*given: Shape) -> Prepared:
        return _Plan(region, layers, given, machine, threads).prepared()

    size = max(ctypes.sizeof(ConvArguments), ctypes.sizeof(PlaneArguments))
    return SizedOperator(piece.name, region.channels, size, prepare, keep=tuple(layers.values()))


class _Plan:
    """A region for given shapes."""

    def __init__(
        self,
        region: Region,
        layers: dict[str, Conv2d],
        given: Sequence[Shape],
        machine: VectorMachine,
        threads: int,
    ) -> None:
        self.region, self.machine, self.threads = region, machine, threads
        self.shapes = region.shapes(given)
        self.where, self.copies = spots(region, self.shapes)
        self.dense = {
            member.output: layers[member.output].dense(self.shapes[member.inputs[0]])
            for member in region.members
            if member.output in layers and 0 not in self.shapes[member.output]
        }
        self.strips, room = _room(list(self.dense.values()))
        self.offsets, size = placed(region, self.shapes, self.where, LINE)
        self.start, self.memory = room, room + size

    def prepared(self) -> Prepared:
        out_shape = self.shapes[self.region.output]
        steps = [step for member in self.region.members for step in self._steps(member)]
        return Prepared(out_shape, () if 0 in out_shape else tuple(steps), self.memory)

    def _steps(self, member: Member) -> list[Step]:
        if isinstance(member.work, (Repeat, Largest)):
            return [self._planes(member.work, member.inputs[0], self.where[member.output])]
        if member.work == JOIN:
            copies = self.copies.get(member.output, ())
            return [self._planes(Repeat(), name, spot) for name, spot in copies]
        dense = self.dense.get(member.output)
        if dense is None:
            return []
        (x, x_pitch), (y, y_pitch) = self._place(member.inputs[0]), self._place(member.output)
        return [_convolution(dense, x, y, self.strips, x_pitch, y_pitch)]

    def _place(self, tensor: str) -> tuple[Place, int]:
        """Where a tensor lies, and the bytes from one of its images to the next."""
        if tensor in self.region.inputs:
            return Place(self.region.inputs.index(tensor)), 4 * prod(self.shapes[tensor][1:])
        return self._spot(self.where[tensor])

    def _spot(self, spot: Spot) -> tuple[Place, int]:
        if spot.root == self.region.output:
            return Place(OUTPUT_PLACE, spot.offset), spot.pitch
        return Place(WORK_PLACE, self.start + self.offsets[spot.root] + spot.offset), spot.pitch

    def _planes(self, work: Repeat | Largest, source: str, to: Spot) -> Step:
        (x, x_pitch), (y, y_pitch) = self._place(source), self._spot(to)
        batch, planes, rows, columns = self.shapes[source]
        size = work.size(rows, columns)
        parts = max(1, min(self.threads, planes))
        arguments = PlaneArguments(
            batch=batch, planes=planes, rows=rows, columns=columns, x_image=x_pitch, y_image=y_pitch,
            x_plane=4 * rows * columns, y_plane=4 * prod(size), parts=parts,
        )  # fmt: skip
        kernel = _loaded(work, self.machine)
        return Step(kernel.address, arguments, {"x": x, "y": y}, parts, keep=(kernel,))


def _room(convolutions: Sequence[DenseConvolution]) -> tuple[int, int]:
    """Where strips start behind the flags, and where both end: for convolutions that run in turn."""
    every = [dense for first in convolutions for dense in (first, first.fallback) if dense is not None]
    flags = max((dense.parts * dense.flag_bytes for dense in every), default=0)
    strips = -(-flags // LINE) * LINE
    scratch = max((dense.parts * dense.scratch_bytes for dense in every), default=0)
    return strips, strips + -(-scratch // LINE) * LINE


def _convolution(
    dense: DenseConvolution,
    x: Place,
    y: Place,
    strips: int,
    x_pitch: int | None = None,
    y_pitch: int | None = None,
) -> Step:
    """A convolution from x to y, whose images may lie further apart than they are large."""
    arguments = dense.arguments
    if x_pitch is not None and y_pitch is not None:
        arguments.x_image, arguments.y_image = x_pitch, y_pitch
    places = {"x": x, "y": y, "flags": Place(WORK_PLACE), "scratch": Place(WORK_PLACE, strips)}
    step = Step(
        dense.kernel.address, arguments, places, dense.parts, dense.parts * dense.flag_bytes, keep=(dense,)
    )
    if dense.fallback is None:
        return step
    return replace(step, fallback=_convolution(dense.fallback, x, y, strips, x_pitch, y_pitch))


@lru_cache(maxsize=32)
def _loaded(work: Repeat | Largest, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: plane_kernel(work, machine), repr(work), machine)
