"""Enlargements in front of element-wise runs on blocked images go into the run: no large image is made.

    z -> Upsample 2 -> t --\\
    x, gate, x --------------> run -> y            becomes  x, gate, x, z -> run with z twice as large -> y
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import onnx

from regweave.devices import cpu
from regweave.devices.onnxruntime import OUTPUT_PLACE, Place, Prepared, SizedOperator, Step
from regweave.devices.onnxruntime.sized import Field
from regweave.errors import InputError
from regweave.graphs import Piece
from regweave.graphs.attributes import attribute
from regweave.kernels.blocks.enlarging import EnlargingArguments, EnlargingRun, can_enlarge, enlarging_kernel
from regweave.kernels.sweeps import RunStructure
from regweave.machines.x86 import VectorMachine

NCHWC = "com.microsoft.nchwc"
PART_ROWS = 4
"""Rows of results that are worth waking a thread for."""


@dataclass(frozen=True)
class Enlarged:
    """Extra input `index` of a run is given `scale` times smaller in both directions."""

    index: int
    scale: int


def fold_enlargements(
    model: onnx.ModelProto, runs: Mapping[str, Piece], block: int
) -> tuple[onnx.ModelProto, dict[str, Enlarged]]:
    """The model without the enlargements that only one of the blocked `runs` (by op type) reads, and which
    input of each run takes what they enlarged."""
    makers = {name: node for node in model.graph.node for name in node.output}
    counts: dict[str, int] = {}
    for name in [n for node in model.graph.node for n in node.input] + [o.name for o in model.graph.output]:
        counts[name] = counts.get(name, 0) + 1
    found: dict[str, Enlarged] = {}
    moved: dict[str, tuple[str, str]] = {}
    for node in model.graph.node:
        piece = runs.get(node.op_type) if node.domain == "regweave" else None
        for position, name in enumerate(node.input):
            maker = makers.get(name)
            if piece is None or maker is None or position == 0 or counts[name] != 1 or node.op_type in found:
                continue
            scale = _scale(maker)
            if scale and can_enlarge(EnlargingRun(run_structure(piece, block), position - 1, scale)):
                found[node.op_type] = Enlarged(position - 1, scale)
                moved[node.op_type] = name, maker.input[0]
    if not found:
        return model, {}
    result = onnx.ModelProto()
    result.CopyFrom(model)
    gone = {large for large, _ in moved.values()}
    kept = [node for node in result.graph.node if not gone.intersection(node.output)]
    for node in kept:
        if node.domain == "regweave" and node.op_type in moved:
            large, small = moved[node.op_type]
            node.input[:] = [small if name == large else name for name in node.input]
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del result.graph.node[:]
    result.graph.node.extend(kept)
    return result, found


def run_structure(piece: Piece, block: int) -> RunStructure:
    """A piece's element-wise work on blocked images."""
    run = piece.run
    assert run is not None, "the caller asks for runs only"
    channels = -(-(run.channels or piece.widths[0]) // block) * block if piece.widths else 0
    return RunStructure(run.ops, run.signature.extras, "blocks", max(channels, block), piece.gates)


def enlarging_operator(
    piece: Piece, enlarged: Enlarged, machine: VectorMachine, threads: int
) -> tuple[SizedOperator, cpu.Function]:
    """The operator of a run, one of whose inputs is enlarged, and its kernel."""
    structure = run_structure(piece, machine.lanes)
    kernel = _loaded(EnlargingRun(structure, enlarged.index, enlarged.scale), machine)
    blocks, scale = structure.channels // machine.lanes, enlarged.scale

    def prepare(*given: tuple[int, ...]) -> Prepared:
        (images, channels, height, width), *extras = given
        small = (images, channels, height // scale, width // scale)
        for index, shape in enumerate(extras):
            expected = small if index == enlarged.index else given[0]
            expected = (*given[0][:2], 1, 1) if index in structure.gates else expected
            if shape != expected or (height % scale or width % scale):
                raise InputError(
                    f"images of shapes {[list(shape) for shape in given]} cannot be combined",
                    where=piece.name,
                )
        parts = max(1, min(threads, images * blocks * height // PART_ROWS))
        arguments = EnlargingArguments(
            images=images, blocks=blocks, rows=small[2], columns=small[3], parts=parts
        )
        places: dict[Field, Place] = {"x": Place(0), "y": Place(OUTPUT_PLACE)}
        places |= {("extras", index): Place(1 + index) for index in range(len(extras))}
        step = Step(kernel.address, arguments, places, parts, keep=(kernel,))
        return Prepared(given[0], () if 0 in given[0] else (step,), 0)

    channels = (structure.channels,) * (1 + structure.extra_inputs)
    operator = SizedOperator(piece.name, channels, ctypes.sizeof(EnlargingArguments), prepare, keep=(kernel,))
    return operator, kernel


def _scale(node: onnx.NodeProto) -> int:
    """By how much a node enlarges blocked images by nearest neighbours, alike in both directions; else 0."""
    scales = attribute(node, "scales") if (node.domain, node.op_type) == (NCHWC, "Upsample") else None
    if not scales or attribute(node, "mode") not in ("nearest", b"nearest") or scales[2] != scales[3]:
        return 0
    return int(scales[2])


@lru_cache(maxsize=32)
def _loaded(work: EnlargingRun, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: enlarging_kernel(work, machine), repr(work), machine)
