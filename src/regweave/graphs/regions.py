"""Regions: convolutions and what stands between them, grown together until one tensor leaves.

    x -> Conv -> MaxPool ----------> Concat -> Conv -> y       one region, x in, y out
            \\-> Conv -> Conv ------/

A region keeps its images plain and has one plan for its memory: what is joined is written side by side from
the start, so a Concat costs nothing, and nothing between its parts is converted or copied. It grows around a
Concat: forwards to the next convolution, if that is all that reads what is joined; backwards as long as
nothing outside reads what it takes in. Convolutions that would not be run natively for their own sake are
taken where they end a region, or where they read an input of the model, which is plain as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx

from regweave.graphs.attributes import attribute
from regweave.graphs.dimensions import Dim
from regweave.graphs.enlarging import repetition
from regweave.graphs.members import JOIN, Member, Region
from regweave.graphs.model import Model
from regweave.graphs.pieces import Piece
from regweave.graphs.products import DEFAULT_DOMAINS
from regweave.operators import Largest, Repeat

_RANK = 4


def find_regions(
    model: Model, convolutions: Iterable[Piece], others: Iterable[Piece], most_inputs: int
) -> tuple[Piece, ...]:
    """Regions of these convolutions and the Concat, MaxPool and Resize nodes around them, as pieces.

    `others` are convolutions that only end a region or start the model. Each region reads at most
    `most_inputs` tensors, holds one of `convolutions`, and the last thing in it is a convolution.
    """
    ground = _Ground(model, convolutions, others)
    found: list[Piece] = []
    for member in ground.members:
        if member.work == JOIN and not any(set(member.nodes) & set(piece.nodes) for piece in found):
            region = ground.grown(member)
            if region is not None and len(region.inputs) <= most_inputs:
                found.append(_piece(model, region))
    return tuple(found)


def _piece(model: Model, region: Region) -> Piece:
    last = region.members[-1].work
    assert isinstance(last, Piece), "a region ends with a convolution"
    source = region.inputs[0]
    shape = model.shapes.get(source)
    return Piece(
        kind="region",
        nodes=tuple(name for member in region.members for name in member.nodes),
        gemm_nodes=tuple(
            name
            for member in region.members
            if isinstance(member.work, Piece)
            for name in member.work.gemm_nodes
        ),
        input=source,
        output=region.output,
        order="pixels",
        channel_axis=1,
        widths=(region.channels[0], last.widths[-1]),
        input_shape=shape,
        output_dims=None,
        region=region,
    )


def _number(dim: Dim) -> int:
    assert isinstance(dim, int), "images of unknown channels are no ground"
    return dim


class _Ground:
    """What regions can grow from: members by the tensors that they make, and who reads what."""

    def __init__(self, model: Model, convolutions: Iterable[Piece], others: Iterable[Piece]) -> None:
        self.model, self.wanted = model, tuple(convolutions)
        pieces = (*self.wanted, *others)
        found = [Member(piece.nodes, (piece.input,), piece.output, piece) for piece in pieces]
        taken = {name for member in found for name in member.nodes}
        for node in model.nodes:
            member = None if node.name in taken else _between(model, node)
            if member is not None:
                found.append(_with_names(model, member))
        self.members = sorted(found, key=lambda member: model.positions[member.nodes[-1]])
        self.makers = {member.output: member for member in self.members}
        self.owners = {name: member for member in self.members for name in member.nodes}

    def _readers(self, tensor: str) -> list[Member | None]:
        """The members that read a tensor, each once; None for everything else that does."""
        found = [
            self.owners.get(self.model.nodes[index].name) for index in self.model.readers.get(tensor, ())
        ]
        if tensor in self.model.outputs:
            found.append(None)
        return list(dict.fromkeys(found))

    def grown(self, start: Member) -> Region | None:
        """The largest region around a Concat; None where no convolution ends it."""
        inside, output = {start}, start
        while not isinstance(output.work, Piece):
            following = self._following(output)
            if following is None:
                return None
            inside.add(following)
            output = following
        before: set[Member] = set()
        while before != inside:
            before = set(inside)
            for member in before:
                for tensor in member.inputs:
                    maker = self.makers.get(tensor)
                    if maker is None or not self._joins(maker):
                        continue
                    if all(reader in inside for reader in self._readers(tensor)):
                        inside.add(maker)
        if not any(member.work in self.wanted for member in inside):
            return None
        members = tuple(member for member in self.members if member in inside)
        made = {member.output for member in members}
        inputs = dict.fromkeys(name for member in members for name in member.inputs if name not in made)
        channels = [self.model.symbols[name][1] for name in inputs]
        return Region(members, tuple(inputs), output.output, tuple(map(_number, channels)))

    def _joins(self, maker: Member) -> bool:
        """Whether a region may grow over a member backwards."""
        return (
            not isinstance(maker.work, Piece)
            or maker.work in self.wanted
            or maker.inputs[0] in self.model.inputs
        )

    def _following(self, member: Member) -> Member | None:
        """The one member that reads what another makes, where nothing else does."""
        readers = self._readers(member.output)
        return readers[0] if len(readers) == 1 else None


def _between(model: Model, node: onnx.NodeProto) -> Member | None:
    """A node between convolutions that a region can hold."""
    if node.domain not in DEFAULT_DOMAINS or len([name for name in node.output if name]) != 1:
        return None
    output = node.output[0]
    if node.op_type == "Concat":
        images = tuple(node.input)
        joins = attribute(node, "axis") in (1, 1 - _RANK) and len(images) > 1
        return (
            Member((node.name,), images, output, JOIN) if joins and _images(model, *images, output) else None
        )
    work: Repeat | Largest | None = None
    if node.op_type == "Resize" and len(node.input) == 3 and node.input[2] in model.constants:
        work = repetition(node, np.asarray(model.constants.value(node.input[2])))
    elif node.op_type == "MaxPool":
        work = _largest(node)
    if work is None or not _images(model, node.input[0], output):
        return None
    return Member((node.name,), (node.input[0],), output, work)


def _with_names(model: Model, member: Member) -> Member:
    """A member with the Identity nodes behind it, that only give its result another name."""
    nodes, output = list(member.nodes), member.output
    while output not in model.outputs and len(readers := model.readers.get(output, ())) == 1:
        node = model.nodes[readers[0]]
        if node.op_type != "Identity" or node.domain not in DEFAULT_DOMAINS:
            break
        nodes.append(node.name)
        output = node.output[0]
    return Member(tuple(nodes), member.inputs, output, member.work)


def _images(model: Model, *tensors: str) -> bool:
    """Whether all are float32 images with known channels that are computed when the model runs."""
    shapes = [model.symbols.get(name) for name in tensors]
    return all(
        shape is not None
        and len(shape) == _RANK
        and isinstance(shape[1], int)
        and shape[1] > 0
        and model.is_float32(name)
        and name not in model.constants
        for name, shape in zip(tensors, shapes, strict=True)
    )


def _largest(node: onnx.NodeProto) -> Largest | None:
    """A MaxPool at stride 1 as what it computes."""
    kernel = tuple(attribute(node, "kernel_shape") or ())
    if len(kernel) != 2 or attribute(node, "ceil_mode", 0):
        return None
    if any(step != 1 for name in ("strides", "dilations") for step in attribute(node, name) or ()):
        return None
    pads = _pads(attribute(node, "auto_pad", "NOTSET"), kernel, attribute(node, "pads"))
    return None if pads is None else Largest(kernel, pads)


def _pads(auto: str, kernel: Sequence[int], given: Sequence[int] | None) -> tuple[int, int, int, int] | None:
    if auto == "NOTSET":
        top, left, bottom, right = given or (0, 0, 0, 0)
        return top, left, bottom, right
    if auto == "VALID":
        return 0, 0, 0, 0
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return None
    less = [(size - 1) // 2 for size in kernel]
    more = [size // 2 for size in kernel]
    first, last = (less, more) if auto == "SAME_UPPER" else (more, less)
    return first[0], first[1], last[0], last[1]
