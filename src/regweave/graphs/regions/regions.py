"""Regions: convolutions, products and what stands between them, grown together until one tensor leaves.

    x -> Conv -> MaxPool ----------> Concat -> Conv -> y       one region, x in, y out
            \\-> Conv -> Conv ------/

    x -> depthwise -> Mul gate -> product -> Gelu -> product -> Add -> y

A region keeps its images plain and has one plan for its memory: what is joined is written side by side from
the start, so a Concat costs nothing, and nothing between its parts is converted or copied. It grows backwards
from what ends it as long as nothing outside reads what it takes in; the last thing in it is a convolution, a
product, a run of element-wise work, or pixels behind one that move apart or become fewer.

Where a convolution reads another one, both must be worth it for their own sake, or the first one reads an
input of the model, which is plain as well. Over images that do not fit a core's own cache it grows in any
case: from band to band they stay there. A mean over an image ends a region, since it needs all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np
import onnx

from regweave.graphs.attributes import attribute
from regweave.graphs.pieces.members import JOIN, Member, Region
from regweave.graphs.pieces.pieces import Piece
from regweave.graphs.pieces.products import DEFAULT_DOMAINS
from regweave.graphs.reading.model import Model
from regweave.graphs.regions.enlarging import repetition
from regweave.graphs.shapes.dimensions import Dim
from regweave.operators import Largest, PixelShuffle, PlaneWork

_RANK = 4


def find_regions(
    model: Model, pieces: Iterable[Piece], others: Iterable[Piece], most_inputs: int, large: int = 1 << 20
) -> tuple[Piece, ...]:
    """Regions of these pieces and the Concat, MaxPool, Resize and DepthToSpace nodes around them, as pieces.

    `others` only end a region, start the model, or make or enlarge to an image of `large` bytes or more. Each
    region reads at most `most_inputs` tensors and holds one of `pieces`.
    """
    ground = _Ground(model, pieces, others, large)
    found: list[Piece] = []
    taken: set[Member] = set()
    for member in reversed(ground.members):
        if _may_end(member) and member not in taken and ground.ends(member):
            region = ground.grown(member, taken)
            if region is not None and len(region.inputs) <= most_inputs:
                taken.update(region.members)
                found.append(_piece(model, region))
    return tuple(reversed(found))


def _piece(model: Model, region: Region) -> Piece:
    source = region.inputs[0]
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
        widths=(region.channels[0], _channels_out(model, region.members[-1])),
        input_shape=model.shapes.get(source),
        output_dims=None,
        region=region,
    )


def alone(piece: Piece) -> Region:
    """A region of nothing but a convolution."""
    return Region((_member(piece),), (piece.input,), piece.output, piece.widths[:1])


def _channels_out(model: Model, member: Member) -> int:
    if isinstance(member.work, PixelShuffle):
        return _number(model.symbols[member.inputs[0]][1]) // member.work.side**2
    return _number(model.symbols[member.output][1])


def _number(dim: Dim) -> int:
    assert isinstance(dim, int), "images of unknown channels are no ground"
    return dim


class _Ground:
    """What regions can grow from: members by the tensors that they make, and who reads what."""

    def __init__(self, model: Model, pieces: Iterable[Piece], others: Iterable[Piece], large: int) -> None:
        self.model, self.wanted, self.large = model, tuple(pieces), large
        found: list[Member] = []
        taken: set[str] = set()
        for piece in (*self.wanted, *others):
            if not taken.intersection(piece.nodes) and _is_ground(model, piece):
                found.append(_member(piece))
                taken.update(piece.nodes)
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

    def grown(self, end: Member, taken: set[Member]) -> Region | None:
        """The largest region that ends so.

        None where it is no more than one piece, holds no product that is wanted, or leaves more than they do.
        """
        inside: set[Member] = {end}
        before: set[Member] = set()
        while before != inside:
            before = set(inside)
            for member in before:
                for tensor in member.images:
                    maker = self.makers.get(tensor)
                    if maker is None or maker in taken or not self._joins(maker, member):
                        continue
                    if all(reader in inside for reader in self._readers(tensor)):
                        inside.add(maker)
        members = tuple(member for member in self.members if member in inside)
        wanted = [member for member in members if member.work in self.wanted]
        if len(inside) < 2 or not any(isinstance(m.work, Piece) and m.work.gemm_nodes for m in wanted):
            return None
        if self._bytes(end) > self._bytes(wanted[-1]):
            return None  # a larger image that leaves takes longer to convert than its maker gains
        made = {member.output for member in members}
        inputs = dict.fromkeys(name for member in members for name in member.inputs if name not in made)
        channels = [self.model.symbols[name][1] for name in inputs]
        return Region(members, tuple(inputs), end.output, tuple(map(_number, channels)))

    def ends(self, member: Member) -> bool:
        """Whether a region may end with a member: not where products or depthwise convolutions, which work on
        blocks as well, make a larger image of a smaller one, since that takes longer to convert."""
        size, maker = self._bytes(member), member
        while _works_on_blocks(maker) and maker.images[0] in self.makers:
            maker = self.makers[maker.images[0]]
            if self._bytes(maker) != size:
                return self._bytes(maker) > size
        return True

    def _joins(self, maker: Member, reader: Member) -> bool:
        """Whether a region may grow over a member backwards."""
        if not isinstance(maker.work, Piece) or self._is_large(maker) or self._is_large(reader, beside=True):
            return True
        if maker.work.kind != "convolution":
            return False
        return maker.work in self.wanted or maker.inputs[0] in self.model.inputs

    def _is_large(self, member: Member, beside: bool = False) -> bool:
        """Whether what a member makes does not fit the cache; `beside`: if it is more than work on planes."""
        if beside and isinstance(member.work, Piece):
            return False
        return self._bytes(member) >= self.large

    def _bytes(self, member: Member) -> int:
        """Of what a member makes; 0 where that is not known."""
        shape = self.model.shapes.get(member.output) or (0,)
        return 4 * prod(size or 0 for size in shape)


def _may_end(member: Member) -> bool:
    """Whether a region may end with a member: with a smaller image, too, since that is converted sooner."""
    work = member.work
    return isinstance(work, (Piece, PixelShuffle)) or (isinstance(work, Largest) and work.strides != (1, 1))


def _works_on_blocks(member: Member) -> bool:
    work = member.work
    if not isinstance(work, Piece):
        return False
    return bool(work.links) or (work.window is not None and work.window.shape[1] == 1)


def _member(piece: Piece) -> Member:
    gates = frozenset(name for index, name in enumerate(piece.extra_inputs) if index in piece.gates)
    return Member(piece.nodes, (piece.input, *piece.extra_inputs), piece.output, piece, gates)


def _is_ground(model: Model, piece: Piece) -> bool:
    """Whether a piece works on images, channels first, and on nothing else but gates."""
    member = _member(piece)
    if not _images(model, *member.inputs, piece.output) or piece.added:
        return False
    if piece.window is not None:
        return True
    planes = piece.order == "pixels" or not piece.widths
    return planes and piece.keeps_image and (piece.channel_axis == 1 or not piece.widths)


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
    work: PlaneWork | None = None
    if node.op_type == "Resize" and len(node.input) == 3 and node.input[2] in model.constants:
        work = repetition(node, np.asarray(model.constants.value(node.input[2])))
    elif node.op_type == "MaxPool":
        work = _largest(node)
    elif node.op_type == "DepthToSpace" and attribute(node, "mode") == "CRD":
        work = PixelShuffle(attribute(node, "blocksize"))
    if work is None or not _images(model, node.input[0]):
        return None
    # what pixels of a square become has symbols of its own
    known = isinstance(work, PixelShuffle) and model.is_float32(output)
    if not known and not _images(model, output):
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
    """A MaxPool as what it computes, if kernels are made for it."""
    kernel = tuple(attribute(node, "kernel_shape") or ())
    if len(kernel) != 2 or attribute(node, "ceil_mode", 0):
        return None
    down, across = attribute(node, "strides") or (1, 1)
    if any(step != 1 for step in attribute(node, "dilations") or ()):
        return None
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto.startswith("SAME") and (down, across) != (1, 1):
        return None  # padding would depend on the size of the image
    pads = _pads(auto, kernel, attribute(node, "pads"))
    work = None if pads is None else Largest(kernel, pads, (down, across))
    return work if work is not None and work.is_small else None


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
