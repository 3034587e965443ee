"""From a piece of a model to the native operator that runs it inside onnxruntime.

A piece of an image model comes in two variants that compute the same: *plain* ([batch, C, P], as the model
says) and *blocked* (as onnxruntime keeps images between convolutions). Which one is wanted is known only
after the layout pass, so a variant is built when it is asked for, and kept:

    natives = Natives(threads=1, block=16)
    natives.operator(piece, "Region0", blocked=True)
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from regweave.assembly import Listing
from regweave.cascades.native import NativeChain, NativeRun
from regweave.devices import cpu
from regweave.devices.onnxruntime import (
    OUTPUT_PLACE,
    Extra,
    NativeOperator,
    Pitch,
    Place,
    Prepared,
    SizedOperator,
    Step,
)
from regweave.engine.depthwise import can_run_depthwise, depthwise_operator
from regweave.engine.enlarged import Enlarged, enlarging_operator
from regweave.engine.preparing import convolution_layer
from regweave.engine.regional import convolution_operator, region_operator
from regweave.errors import UnsupportedError
from regweave.graphs import Piece
from regweave.kernels import ChainPlan
from regweave.kernels.blocks.joins import join_arguments, join_kernel
from regweave.kernels.blocks.means import mean_arguments, mean_kernel
from regweave.kernels.common.arguments import field_offset
from regweave.kernels.sweeps import RunStructure, run_arguments
from regweave.machines.x86 import VectorMachine
from regweave.operators import Chain, Operand, OutputDim, Same, TensorMul

PLACES = {
    "x": "x", "y": "y", "x_pitch": "x_pitch", "y_pitch": "y_pitch", "count": "rows", "batch": "batch",
    "parts": "parts", "scratch": "scratch",
}  # fmt: skip

PART_FLOPS = 1 << 21
"""Work below which a part is not worth waking a thread for; about 20 microseconds."""

PART_ELEMENTS = 1 << 14
"""The same for a pass over memory."""


@dataclass(frozen=True, eq=False)
class Native:
    """A built operator with its kernel and, for chains, its plan."""

    operator: NativeOperator | SizedOperator
    kernel: cpu.Function
    plan: ChainPlan | None = None

    @property
    def listing(self) -> Listing:
        """The kernel's assembly with its register map."""
        return self.kernel.listing


@dataclass(eq=False)
class Natives:
    """Builds and keeps native operators for one number of threads; `block` is onnxruntime's, 0 for none."""

    machine: VectorMachine
    threads: int
    block: int
    _built: dict[tuple[str, bool, Enlarged | None], Native] = field(default_factory=dict)
    _by_eight: set[str] = field(default_factory=set)

    def can_block(self, piece: Piece) -> bool:
        """Whether a piece has a blocked variant: images in, images of the same size out; or a depthwise
        convolution."""
        if not self.block or self.block % self.machine.lanes:
            return False
        if piece.kind == "convolution":
            return self.block == self.machine.lanes and can_run_depthwise(piece, self.machine)
        if not piece.keeps_image or piece.kind == "region":
            return False
        if piece.kind == "elementwise":
            return _is_flat(piece) or (piece.channel_axis == 1 and self.block == self.machine.lanes)
        # One pixel per image: pieces say rows then, and a block of channels is a part of a row.
        return piece.channel_axis == 1 or _is_one_pixel(piece)

    def build(
        self, piece: Piece, name: str, *, blocked: bool = False, enlarged: Enlarged | None = None
    ) -> Native:
        """The operator of op type `name` for a piece, with an input that it enlarges if it is said which.
        UnsupportedError where no kernel can be made."""
        key = (piece.name, blocked, enlarged)
        if key not in self._built:
            self._built[key] = (
                self._made(piece, blocked)
                if enlarged is None
                else Native(*enlarging_operator(piece, enlarged, self.machine, self.threads))
            )
        native = self._built[key]
        return replace(native, operator=replace(native.operator, name=name))

    def by_eight(self, piece: Piece, *, blocked: bool) -> bool:
        """Multiply a chain by eight from now on (see `chains.seven`); False if that changes nothing."""
        native = self._built.get((piece.name, blocked, None))
        if native is None or native.plan is None or not any(native.plan.seven):
            return False
        self._by_eight.add(piece.name)
        del self._built[piece.name, blocked, None]
        return True

    def _made(self, piece: Piece, blocked: bool) -> Native:
        if piece.kind == "elementwise":
            return self._run(piece, blocked)
        if piece.kind == "region":
            return self._region(piece)
        if piece.kind == "convolution":
            if blocked:
                return Native(*depthwise_operator(piece, self.machine, self.threads))
            return self._convolution(piece)
        return self._chain(piece, blocked)

    def _convolution(self, piece: Piece) -> Native:
        """On plain images; the tables of each size are made when onnxruntime first meets it."""
        layer = convolution_layer(piece, self.machine, self.threads)
        shape = piece.input_shape
        assert shape is not None, "their sizes are known"
        sizes = tuple(1 if size is None else size for size in shape)
        operator = convolution_operator(piece, layer, self.machine, self.threads)
        return Native(operator, layer.dense(sizes).kernel)

    def _region(self, piece: Piece) -> Native:
        """Several pieces on plain images; shown as the kernel of the last one."""
        region = piece.region
        assert region is not None, "the caller asks for regions only"
        last = next(m.work for m in reversed(region.members) if isinstance(m.work, Piece))
        operator = region_operator(piece, self.machine, self.threads)
        return Native(operator, self._made(last, blocked=False).kernel)

    def gate(self, channels: int, name: str) -> Native:
        """x [batch, C, ...] times a gate [batch, C, 1, 1], both blocked; `channels` counts padded ones."""
        structure = RunStructure((TensorMul(),), (0,), "blocks", channels, frozenset({0}))
        output = (Same(0), channels, Same(2), Same(3))
        extras = (_extra(run_arguments(structure), 0, 0, channels),)
        native = self._element_operator(structure, 1, channels, output, extras, ())
        return replace(native, operator=replace(native.operator, name=name))

    def mean(self, channels: int, name: str) -> Native:
        """The mean of each plane of a blocked image; `channels` counts padded ones."""
        function, kind = _loaded_mean(channels // self.machine.lanes, self.machine), mean_arguments()

        def prepare(shape: tuple[int, ...]) -> Prepared:
            batch, _, height, width = shape
            elements = batch * channels * height * width
            parts = max(1, min(self.threads, elements // PART_ELEMENTS))
            arguments = kind(rows=height * width, batch=batch, parts=parts)
            places = {"x": Place(0), "y": Place(OUTPUT_PLACE)}
            step = Step(function.address, arguments, places, parts, keep=(function,))
            return Prepared((batch, channels, 1, 1), (step,) if batch else (), 0)

        operator = SizedOperator(name, (channels,), ctypes.sizeof(kind), prepare, keep=(function,))
        return Native(operator, function)

    def join(self, channels: tuple[int, ...], name: str) -> Native:
        """Blocked images of these numbers of channels joined along them."""
        function, kind = _loaded_join(channels, self.machine), join_arguments(len(channels))
        padded = [_padded(count, self.block) for count in channels]
        total = _padded(sum(channels), self.block)
        operator = NativeOperator(
            name,
            kernel=function.address,
            arguments=kind(),
            axis=1,
            channels_in=padded[0],
            channels_out=total,
            x_pitch=Pitch(),
            y_pitch=Pitch(),
            places=PLACES,
            output=(Same(0), total, Same(2), Same(3)),
            extras=tuple(_extra(kind, index, width, 0) for index, width in enumerate(padded[1:])),
            parts=self._parts(),
            unit=max(1, PART_ELEMENTS // total),
            keep=(function,),
        )
        return Native(operator, function)

    def _chain(self, piece: Piece, blocked: bool) -> Native:
        chain = piece.chain
        assert chain is not None, "only pieces that can be built come here"
        seven = piece.name not in self._by_eight
        if blocked:
            chain = Chain(chain.stages, "blocked", self.block, seven)
        elif chain.order == "rows":
            chain = replace(chain, seven=seven)
        built = NativeChain(chain, self.machine)
        arguments = built.arguments()

        def width(channels: int) -> int:
            return _padded(channels, self.block) if blocked else channels

        first, last = width(chain.widths[0]), width(chain.widths[-1])
        flops = 2 * sum(stage.k * stage.n for stage in chain.stages)
        operator = NativeOperator(
            piece.name,
            kernel=built.entry,
            arguments=arguments,
            axis=None if chain.order == "rows" else 1 if blocked else _axis(piece),
            channels_in=first,
            channels_out=last,
            x_pitch=self._pitch(chain.order, first),
            y_pitch=self._pitch(chain.order, last),
            places=PLACES,
            output=_output(piece, last if blocked else None),
            extras=tuple(
                _extra(type(arguments), index, width(channels), 0)
                for index, channels in enumerate(chain.extra_widths)
            ),
            parts=self._parts(),
            unit=max(1, PART_FLOPS // flops),
            scratch=built.scratch_bytes(),
            keep=(built,),
        )
        return Native(operator, built.kernel, built.plan)

    def _pitch(self, order: str, width: int) -> Pitch:
        if order == "rows":
            return Pitch(fixed=4 * width)
        return Pitch(per_position=4 * (self.block if order == "blocked" else 1))

    def _run(self, piece: Piece, blocked: bool) -> Native:
        run = piece.run
        assert run is not None, "an element-wise piece has a run"
        images = run.axis == "first"
        gates = piece.gates
        channels = run.channels or (piece.widths[0] if gates else 0)
        if not channels:
            form, axis, width = "flat", None, 1
        elif blocked:
            form, axis, width = "blocks", 1, _padded(channels, self.block)
        else:
            form, axis, width = ("planes", _axis(piece), channels) if images else ("rows", None, channels)
        structure = RunStructure(run.ops, run.signature.extras, form, width if channels else 0, gates)
        kind = run_arguments(structure)
        extras = tuple(
            _extra(kind, index, 0, width) if index in gates else _extra(kind, index, width, 0)
            for index in range(run.extra_inputs)
        )
        out = (
            width if channels else _padded(piece.widths[0], self.block) if blocked and piece.widths else None
        )
        return self._element_operator(structure, axis, width, _output(piece, out), extras, run.operands)

    def _element_operator(
        self,
        structure: RunStructure,
        axis: int | None,
        width: int,
        output: tuple[OutputDim, ...],
        extras: tuple[Extra, ...],
        operands: Sequence[Operand],
    ) -> Native:
        built = NativeRun(structure, operands, self.machine)
        operator = NativeOperator(
            "run",
            kernel=built.entry,
            arguments=built.arguments(),
            axis=axis,
            channels_in=width,
            channels_out=width,
            x_pitch=Pitch(),
            y_pitch=Pitch(),
            places=PLACES,
            output=output,
            extras=extras,
            parts=self._parts(),
            unit=max(1, PART_ELEMENTS // width),
            keep=(built,),
        )
        return Native(operator, built.kernel)

    def _parts(self) -> int:
        """As many as threads: kernels balance blocks inside a part, and more parts measured slower."""
        return self.threads


def _is_flat(piece: Piece) -> bool:
    return piece.run is not None and not piece.run.channels and not piece.gates


def _is_one_pixel(piece: Piece) -> bool:
    shape = piece.input_shape
    return shape is not None and len(shape) == 4 and shape[2:] == (1, 1) and shape[1] == piece.widths[0]


def _axis(piece: Piece) -> int:
    shape = piece.input_shape
    assert shape is not None, "a piece of images has a shape"
    return piece.channel_axis % len(shape)


def _output(piece: Piece, channels: int | None) -> tuple[OutputDim, ...]:
    """The rule for the output's shape; `channels` replaces the channels of an image where they are padded."""
    dims, shape = piece.output_dims, piece.input_shape
    if dims is None:
        if shape is None:
            raise UnsupportedError(f"the rank of '{piece.input}' is not known", where=piece.name)
        same = tuple(Same(axis) for axis in range(len(shape)))
        return same if piece.kind == "elementwise" else (*same[:-1], piece.widths[-1])
    return dims if channels is None else (dims[0], channels, *dims[2:])


def _extra(kind: type[ctypes.Structure], index: int, per_position: int, per_image: int) -> Extra:
    return Extra(field_offset(kind, "extras", index), per_position, per_image)


def _padded(width: int, block: int) -> int:
    return -(-width // block) * block


@lru_cache(maxsize=32)
def _loaded_join(channels: tuple[int, ...], machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: join_kernel(channels, machine), f"join {channels!r}", machine)


@lru_cache(maxsize=32)
def _loaded_mean(blocks: int, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: mean_kernel(blocks, machine), f"mean {blocks}", machine)
