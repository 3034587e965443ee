"""Which nodes of an optimised graph stand for which piece, so that the piece can be charged with their time.

onnxruntime's optimiser fuses and renames, but keeps enough to trace: a node outside convolutions keeps its
name, a blocked convolution is named after the tensor that it once made, and what lies on a path between two
nodes of a piece belongs to it, however it is called:

    Add.17_nchwc -> Gelu_token_2 -> Add.21_nchwc -> ReorderOutput         Conv.8: all but maybe the last

A reorder at the edge of a piece is charged to the piece in both graphs: that is what the choice of running
the piece one way or the other costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx

from regweave.engine.building.blocking import REORDERS
from regweave.engine.measuring.profiling import Profile
from regweave.graphs import SPREAD, Model, Piece

_PRODUCTS = ("Conv", "FusedConv", "ConvTranspose", "Gemm", "FusedGemm", "MatMul", "FusedMatMul")
_SUFFIXES = re.compile(r"(_nchwc)?(_token_\d+)?(/[A-Za-z]+Fusion/)?$")


@dataclass(frozen=True)
class Names:
    """Names of the nodes of an optimised graph: as they are, and without what the optimiser appends."""

    whole: frozenset[str]
    stems: frozenset[str]


def node_names(graph: onnx.GraphProto) -> Names:
    """The names of a graph's nodes."""
    whole = frozenset(node.name for node in graph.node)
    return Names(whole, frozenset(map(stem, whole)))


def stem(name: str) -> str:
    """The name of an optimised node without what onnxruntime's optimiser appends."""
    return _SUFFIXES.sub("", name)


def replaced_time(
    model: Model, optimised: onnx.GraphProto, profile: Profile, pieces: Sequence[Piece]
) -> dict[str, float]:
    """Seconds that the nodes of each piece took in the optimised original, by the piece's name.

    Pieces of which nothing could be traced are missing.
    """
    owners = _traced(model, optimised, pieces)
    _fill_paths(optimised, owners)
    return _charged(optimised, profile, owners)


def native_time(graph: onnx.GraphProto, profile: Profile, op_types: Mapping[str, Piece]) -> dict[str, float]:
    """Seconds that each piece's native node took, and the one that spreads its pixels; by the piece's name.

    `op_types` maps op types to the pieces that they run.
    """
    owners = {
        node.name: op_types[node.op_type].name
        for node in graph.node
        if node.domain == "regweave" and node.op_type in op_types
    }
    spread = {name + SPREAD: piece.name for piece in op_types.values() for name in piece.nodes}
    owners |= {node.name: spread[node.name] for node in graph.node if node.name in spread}
    return _charged(graph, profile, owners)


def _traced(model: Model, optimised: onnx.GraphProto, pieces: Sequence[Piece]) -> dict[str, str]:
    """Node of the optimised graph -> piece, for those whose name tells."""
    by_node = {name: piece.name for piece in pieces for name in piece.nodes}
    products = {piece.name for piece in pieces if piece.gemm_nodes}
    by_tensor = {
        tensor: piece
        for name, piece in by_node.items()
        for tensor in model.nodes[model.positions[name]].output
    }
    owners = {}
    for node in optimised.node:
        if is_reorder(node):
            continue
        base = stem(node.name)
        names = (*(by_node.get(name) for name in (node.name, base)), by_tensor.get(base))
        made = (by_tensor.get(name) for name in node.output)
        owner = next((name for name in (*names, *made) if name is not None), None)
        # An activation that went into the product in front makes a run's tensor, but the product is not its.
        if owner is not None and (owner in products or node.op_type not in _PRODUCTS):
            owners[node.name] = owner
    return owners


def _fill_paths(graph: onnx.GraphProto, owners: dict[str, str]) -> None:
    """Give nodes between two nodes of one piece to it."""
    makers = {name: node for node in graph.node for name in node.output if name}
    behind: dict[str, set[str]] = {}
    for node in graph.node:
        sources = {makers[name].name for name in node.input if name in makers}
        found = {owners[name] for name in sources if name in owners}
        found |= {piece for name in sources if name not in owners for piece in behind.get(name, ())}
        behind[node.name] = found
    before: dict[str, set[str]] = {}
    readers: dict[str, list[str]] = {}
    for node in graph.node:
        for name in node.input:
            if name in makers:
                readers.setdefault(makers[name].name, []).append(node.name)
    for node in reversed(graph.node):
        targets = readers.get(node.name, ())
        found = {owners[name] for name in targets if name in owners}
        found |= {piece for name in targets if name not in owners for piece in before.get(name, ())}
        before[node.name] = found
    for node in graph.node:
        shared = behind[node.name] & before[node.name]
        if node.name not in owners and len(shared) == 1:
            owners[node.name] = shared.pop()


def _charged(graph: onnx.GraphProto, profile: Profile, owners: Mapping[str, str]) -> dict[str, float]:
    """Each piece's nodes and the reorders at its edges, in seconds."""
    total: dict[str, float] = {}
    for node in graph.node:
        if node.name in owners:
            total[owners[node.name]] = total.get(owners[node.name], 0.0) + profile.get(node.name, 0.0)
    makers = {name: node for node in graph.node for name in node.output if name}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for node in graph.node:
        if not is_reorder(node) or node.name in owners:
            continue
        ends: Iterable[onnx.NodeProto | None] = (makers.get(node.input[0]), *readers.get(node.output[0], ()))
        touching = {owners[end.name] for end in ends if end is not None and end.name in owners}
        for piece in touching:
            total[piece] += profile.get(node.name, 0.0) / len(touching)
    return total


def is_reorder(node: onnx.NodeProto) -> bool:
    """Whether a node only moves an image from one layout to the other."""
    return (node.domain, node.op_type) in REORDERS
