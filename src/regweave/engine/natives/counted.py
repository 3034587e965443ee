"""Operators of chains and of element-wise runs: the kernels that take any number of rows, or of pixels.

    piece [N, 96, H, W], channels at 1     plain: planes, vectors of pixels; blocked: vectors of channels
    piece [N, T, 320], channels last       rows

Kernels balance blocks inside a part, so there are as many parts as threads: more measured slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regweave.cascades.native import NativeChain, NativeRun
from regweave.devices.onnxruntime import Extra, NativeOperator, Pitch
from regweave.engine.natives.native import (
    PART_ELEMENTS,
    PART_FLOPS,
    PLACES,
    Native,
    axis_of,
    extra_input,
    output_rule,
    padded,
)
from regweave.graphs import Piece
from regweave.kernels.sweeps import RunStructure, run_arguments
from regweave.machines.x86 import VectorMachine
from regweave.operators import Chain, Operand, OutputDim, Same, TensorMul


def chain_native(piece: Piece, machine: VectorMachine, threads: int, block: int, *, seven: bool) -> Native:
    """A chain's operator; on images in blocks of `block` channels, or, with 0, on plain ones. `seven`: large
    products may be made of seven of their quarters."""
    chain = piece.chain
    assert chain is not None, "only pieces that can be built come here"
    if block:
        chain = Chain(chain.stages, "blocked", block, seven)
    elif chain.order == "rows":
        chain = replace(chain, seven=seven)
    built = NativeChain(chain, machine)
    arguments = built.arguments()

    def width(channels: int) -> int:
        return padded(channels, block) if block else channels

    first, last = width(chain.widths[0]), width(chain.widths[-1])
    flops = 2 * sum(stage.k * stage.n for stage in chain.stages)
    operator = NativeOperator(
        piece.name,
        kernel=built.entry,
        arguments=arguments,
        axis=None if chain.order == "rows" else 1 if block else axis_of(piece),
        channels_in=first,
        channels_out=last,
        x_pitch=_pitch(chain.order, first, block),
        y_pitch=_pitch(chain.order, last, block),
        places=PLACES,
        output=output_rule(piece, last if block else None),
        extras=tuple(
            extra_input(type(arguments), index, width(channels), 0)
            for index, channels in enumerate(chain.extra_widths)
        ),
        parts=threads,
        unit=max(1, PART_FLOPS // flops),
        scratch=built.scratch_bytes(),
        keep=(built,),
    )
    return Native(operator, built.kernel, built.plan)


def _pitch(order: str, width: int, block: int) -> Pitch:
    if order == "rows":
        return Pitch(fixed=4 * width)
    return Pitch(per_position=4 * (block if order == "blocked" else 1))


def run_native(piece: Piece, machine: VectorMachine, threads: int, block: int) -> Native:
    """An element-wise run's operator; `block` as above."""
    run = piece.run
    assert run is not None, "an element-wise piece has a run"
    images = run.axis == "first"
    gates = piece.gates
    channels = run.channels or (piece.widths[0] if gates else 0)
    if not channels:
        form, axis, width = "flat", None, 1
    elif block:
        form, axis, width = "blocks", 1, padded(channels, block)
    else:
        form, axis, width = ("planes", axis_of(piece), channels) if images else ("rows", None, channels)
    structure = RunStructure(run.ops, run.signature.extras, form, width if channels else 0, gates)
    kind = run_arguments(structure)
    extras = tuple(
        extra_input(kind, index, 0, width) if index in gates else extra_input(kind, index, width, 0)
        for index in range(run.extra_inputs)
    )
    out = None
    if block and (channels or piece.widths):
        out = width if channels else padded(piece.widths[0], block)
    output = output_rule(piece, out)
    return _element_native(structure, machine, threads, axis, width, output, extras, run.operands)


def gate_native(channels: int, machine: VectorMachine, threads: int) -> Native:
    """x [batch, C, ...] times a gate [batch, C, 1, 1], both blocked; `channels` counts padded ones."""
    structure = RunStructure((TensorMul(),), (0,), "blocks", channels, frozenset({0}))
    output = (Same(0), channels, Same(2), Same(3))
    extras = (extra_input(run_arguments(structure), 0, 0, channels),)
    return _element_native(structure, machine, threads, 1, channels, output, extras, ())


def _element_native(
    structure: RunStructure,
    machine: VectorMachine,
    threads: int,
    axis: int | None,
    width: int,
    output: tuple[OutputDim, ...],
    extras: tuple[Extra, ...],
    operands: Sequence[Operand],
) -> Native:
    built = NativeRun(structure, operands, machine)
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
        parts=threads,
        unit=max(1, PART_ELEMENTS // width),
        keep=(built,),
    )
    return Native(operator, built.kernel)
