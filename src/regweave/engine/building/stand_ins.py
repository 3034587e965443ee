"""Native operators in the place of what onnxruntime does between native ones, where kernels do the same.

    Native -> ReorderInput -> nchwc.Conv -> GlobalAveragePool -> Native     becomes one operator: see joining
    Native -> StandIn0     -> StandIn1   -> StandIn2          -> Native

None of these is worth an operator of its own: they take about as long as onnxruntime's. But each would end
one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from regweave.devices.onnxruntime import DOMAIN, MOST_IMAGES, RANK
from regweave.engine.building.blocked_convolutions import convolution_piece, elementwise_piece
from regweave.engine.building.blocking.forms import NCHWC
from regweave.engine.building.blocking.rewriting import blocked_name
from regweave.engine.building.blocking.view import REORDER_INPUT, REORDER_OUTPUT
from regweave.engine.building.views_between import drop_unread, former_names, join_views
from regweave.engine.natives.linewise import line_work, linewise_operator
from regweave.engine.natives.moving import move_operator, side_by_side
from regweave.engine.natives.native import Native
from regweave.engine.natives.natives import Natives
from regweave.engine.natives.plain import PlainTensors
from regweave.engine.natives.pooling import pool_of, pool_operator
from regweave.engine.natives.reordering import reorder_operator
from regweave.errors import ModelError, UnsupportedError
from regweave.graphs import Model
from regweave.graphs.attributes import attribute

STAND_IN = "StandIn"
"""What their op types begin with; a number follows."""

SIZE = (1, 32, 32)
"""Batch, height and width of images for which nothing else is known."""

_BLOCKED = blocked_name("")


@dataclass(frozen=True, eq=False)
class Known:
    """What there is to know of a model's tensors: `model` is the one that was optimised, `constant` gives
    the values of an initializer of the optimised one by its name, None for another name; `names` those
    that tensors had which the optimiser has renamed."""

    model: Model
    constant: Callable[[str], np.ndarray | None]
    names: Mapping[str, str] = field(default_factory=dict)

    def plain(self, tensor: str) -> str:
        """The name of a tensor in the model that was optimised."""
        return self.names.get(tensor, tensor.removesuffix(_BLOCKED))

    def shape(self, tensor: str) -> tuple[Any, ...] | None:
        """That of a float32 tensor, with symbols; of a blocked one, that of the plain one."""
        plain = self.plain(tensor)
        return self.model.symbols.get(plain) if self.model.is_float32(plain) else None

    def channels(self, tensor: str) -> int | None:
        """Of a float32 image, without padding."""
        shape = self.shape(tensor)
        count = shape[1] if shape is not None and len(shape) == RANK else None
        return count if isinstance(count, int) else None

    def size(self, tensor: str) -> tuple[int, int, int]:
        """Batch, height and width of an image, for the sizes that the model was read for."""
        shape = self.model.shapes.get(self.plain(tensor))
        if shape is None or len(shape) != RANK:
            return SIZE
        return shape[0] or SIZE[0], shape[2] or SIZE[1], shape[3] or SIZE[2]


def with_stand_ins(
    proto: onnx.ModelProto,
    known: Known,
    natives: Natives,
    *,
    products: bool = True,
    without: frozenset[str] = frozenset(),
) -> tuple[onnx.ModelProto, dict[str, Native]]:
    """The optimised model `proto` with native twins of nodes in it, and these by their op types.

    Nodes `without` one are given by what they make, since not all have names; convolutions have one only with
    `products`.
    """
    opset = next(entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))
    finder = _Finder(replace(known, names=former_names(proto.graph)), natives, products, opset)
    made: dict[str, Native] = {}
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    join_views(result.graph, finder.known.shape, known.constant, natives.block)
    nodes = []
    for node in result.graph.node:
        allowed = not without.intersection(node.output)
        parts = finder.plain.split(node) if node.op_type == "Split" and allowed else [node]
        for part in parts:
            name = f"{STAND_IN}{len(made)}"
            native, reads = finder.find(part, name)
            if native is not None and allowed:
                made[name] = native
                del part.attribute[:]
                part.input[:] = reads
                part.domain, part.op_type = DOMAIN, name
        nodes += parts
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del result.graph.node[:]
    result.graph.node.extend(copies)
    drop_unread(result.graph)
    return result, made


class _Finder:
    """Goes over the nodes in their order, and remembers how many channels blocked images have."""

    def __init__(self, known: Known, natives: Natives, products: bool, opset: int) -> None:
        self.known, self.natives, self.products, self.opset = known, natives, products, opset
        self.padded: dict[str, int] = {}
        self.blocked_of: dict[str, str] = {}  # what reorders made plain
        self.in_blocks: set[str] = set()
        self.plain = PlainTensors(known.model, known.shape, known.constant, opset)

    def find(self, node: onnx.NodeProto, name: str) -> tuple[Native | None, list[str]]:
        """The twin of a node under a name, if there is one, and what it reads."""
        blocks = self.natives.block == self.natives.machine.lanes
        if node.domain == NCHWC:
            if node.op_type != REORDER_OUTPUT:
                self.in_blocks.update(node.output)
            return self._blocked(node, name) if blocks else (None, [])
        if self._in_blocks(node):
            self.in_blocks.update(node.output)
            if node.op_type == "Concat":
                return self._whole_blocks(node, name)
            return self._elementwise(node, name)
        work = None
        if node.domain in ("", "ai.onnx"):
            work = line_work(node, self.plain, self.known.constant, self.opset)
        if work is None:
            return self.plain.find(node, name, self.natives)
        machine, threads = self.natives.machine, self.natives.threads
        rank = len(self.plain(node.input[0]) or ())
        operator = linewise_operator(name, machine=machine, threads=threads, rank=rank, **work)
        return Native(*operator), [node.input[0]]

    def _in_blocks(self, node: onnx.NodeProto) -> bool:
        """Whether a node reads or makes what is in blocks, and would be if it were plain."""
        for tensor in (*node.input, *node.output):
            if tensor in self.in_blocks or tensor.endswith(_BLOCKED):
                shape = self.known.shape(tensor)
                if (
                    shape is None
                    or len(shape) != RANK
                    or shape[2:] != (1, 1)
                    or shape[1] % self.natives.block
                ):
                    return True
        return False

    def _blocked(self, node: onnx.NodeProto, name: str) -> tuple[Native | None, list[str]]:
        source, block = node.input[0], self.natives.block
        channels = self.known.channels(source)
        if source.endswith(_BLOCKED) and channels is not None:
            self.padded.setdefault(source, -(-channels // block) * block)
        if node.op_type in (REORDER_INPUT, REORDER_OUTPUT):
            to_blocks = node.op_type == REORDER_INPUT
            count = channels if to_blocks else attribute(node, "channels")
            if count is None or attribute(node, "channels_last", 0):
                return None, []
            if not to_blocks:
                self.blocked_of[node.output[0]] = source
            machine, threads = self.natives.machine, self.natives.threads
            return Native(*reorder_operator(name, count, machine, threads, to_blocks)), [source]
        if node.op_type == "Conv":
            return self._convolution(node, name, channels)
        count = self.padded.get(source)
        if count is None:
            return None, []
        self.padded[node.output[0]] = count
        if node.op_type == "GlobalAveragePool":
            return self.natives.mean(count, name), [source]
        pool = pool_of(node)
        if pool is None:
            return None, []
        return Native(*pool_operator(name, pool, count, self.natives.machine, self.natives.threads)), [source]

    def _convolution(
        self, node: onnx.NodeProto, name: str, channels: int | None
    ) -> tuple[Native | None, list[str]]:
        weights = self.known.constant(node.input[1])
        biased = len(node.input) > 2 and node.input[2]
        bias = self.known.constant(node.input[2]) if biased else None
        if weights is None or (biased and bias is None):
            return None, []
        self.padded[node.output[0]] = len(weights)
        if not self.products:
            return None, []
        source, block = node.input[0], self.natives.block
        if (
            weights.shape[1] < block
            and source not in self.blocked_of
            and len(weights) != attribute(node, "group")
        ):
            return None, []  # of a plain image
        piece = convolution_piece(node, weights, bias, block, channels, self.known.size(source))
        with suppress(UnsupportedError):
            if piece is not None and self.natives.can_block(piece):
                reads = [self.blocked_of.get(source, source), *node.input[3:]]
                return self.natives.build(piece, name, blocked=True), reads
        return None, []

    def _whole_blocks(self, node: onnx.NodeProto, name: str) -> tuple[Native | None, list[str]]:
        """Blocked images joined along their channels, where each fills its blocks."""
        counts = [self.known.channels(source) for source in node.input]
        blocked = all(source.endswith(_BLOCKED) or source in self.in_blocks for source in node.input)
        whole = blocked and all(count and count % self.natives.block == 0 for count in counts)
        if not whole or attribute(node, "axis") not in (1, 1 - RANK) or len(node.input) > MOST_IMAGES:
            return None, []
        self.padded[node.output[0]] = sum(count for count in counts if count)
        machine, threads = self.natives.machine, self.natives.threads
        plan = side_by_side(1, node.name)
        return Native(*move_operator(name, plan, len(node.input), machine, threads)), list(node.input)

    def _elementwise(self, node: onnx.NodeProto, name: str) -> tuple[Native | None, list[str]]:
        """Work on blocked images of one shape. An image that is read twice is one input."""
        sources = set(node.input)
        shapes = {self.known.shape(source) for source in sources}
        shape = next(iter(shapes), None)
        if len(shapes) != 1 or shape is None or len(shape) != RANK or len(node.output) != 1:
            return None, []
        if not all(source.endswith(_BLOCKED) for source in (*sources, *node.output)):
            return None, []
        channels = self.known.channels(node.input[0])
        with suppress(UnsupportedError, ModelError):
            piece = channels and elementwise_piece(node, channels, self.known.size(node.input[0]))
            if piece and self.natives.can_block(piece):
                reads = [piece.input, *piece.extra_inputs]
                return self.natives.build(piece, name, blocked=True), reads
        return None, []
