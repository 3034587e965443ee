"""What onnxruntime's optimiser leaves around blocked images, and nobody needs: views, and names of its own.

    a, b -> Reshape, Reshape -> Add -> Reshape -> c        [N, C, H, W] seen as [N, C / 16, H, W, 16]:
    a, b -> Add -> c                                       needless where shapes are equal

It calls a blocked convolution after the tensor that it made (`t_nchwc`), but not always what it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from regweave.engine.building.blocking.forms import NCHWC
from regweave.engine.measuring.attribution import stem
from regweave.graphs.attributes import outer_reads

_VIEW_RANK = 5


def former_names(graph: onnx.GraphProto) -> dict[str, str]:
    """The tensors that blocked convolutions were named after, by the names of what they make."""
    convolutions = (node for node in graph.node if node.domain == NCHWC and node.op_type == "Conv")
    return {node.output[0]: stem(node.name) for node in convolutions}


def join_views(
    graph: onnx.GraphProto,
    shape: Callable[[str], tuple[Any, ...] | None],
    constant: Callable[[str], np.ndarray | None],
    block: int,
) -> None:
    """Let sums of blocked images of one `shape` read and make them as they are, in `graph` itself."""
    makers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def seen(node: onnx.NodeProto | None, rank: int) -> bool:
        """Whether a node only shows an image with another rank."""
        if node is None or node.op_type != "Reshape" or node.domain not in ("", "ai.onnx"):
            return False
        to = constant(node.input[1])
        return to is not None and len(to) == rank and (rank != _VIEW_RANK or to[-1] == block)

    ends = {value.name for value in graph.output}
    for node in graph.node:
        after = readers.get(node.output[0], []) if node.op_type == "Add" else []
        if len(after) != 1 or node.output[0] in ends or not seen(after[0], _VIEW_RANK - 1):
            continue
        before = [makers.get(name) for name in node.input]
        images = [maker.input[0] for maker in before if maker is not None and seen(maker, _VIEW_RANK)]
        if (
            len(images) != len(before)
            or None in (shapes := {shape(name) for name in images})
            or len(shapes) > 1
        ):
            continue
        node.input[:] = images
        node.output[0], after[0].output[0] = after[0].output[0], f"{after[0].output[0]}/unread"


def drop_unread(graph: onnx.GraphProto) -> None:
    """Remove nodes whose results nobody reads, from `graph` itself."""
    read = {value.name for value in graph.output}.union(*(outer_reads(node) for node in graph.node))
    kept = [node for node in graph.node if not read.isdisjoint(node.output)]
    if len(kept) < len(graph.node):
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
        del graph.node[:]
        graph.node.extend(copies)
        drop_unread(graph)
