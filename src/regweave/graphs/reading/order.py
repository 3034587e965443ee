"""Nodes in an order that can run, with unique names: what every later pass takes for granted.

ONNX demands sorted nodes, but files exist that are not, and runtimes accept them. Sorting also finds what is
wrong with a graph in words that help: a tensor that nothing makes, one that two nodes make, a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import onnx

from regweave.errors import ModelError, nearest_names
from regweave.graphs.attributes import outer_reads


def name_nodes(graph: onnx.GraphProto) -> None:
    """Give every node of the main graph a unique name; names that are unique already stay."""
    taken = {node.name for node in graph.node}
    seen: set[str] = set()
    for index, node in enumerate(graph.node):
        if not node.name or node.name in seen:
            base = node.name or node.op_type
            name, again = f"{base}#{index}", 0
            while name in taken:
                again += 1
                name = f"{base}#{index}.{again}"
            node.name = name
            taken.add(name)
        seen.add(node.name)


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Put the nodes of a graph in an order that can run, changing as little as possible. ModelError."""
    order = running_order(list(graph.node), known_names(graph))
    if order != list(range(len(order))):
        nodes = [graph.node[index] for index in order]
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def known_names(graph: onnx.GraphProto) -> set[str]:
    """What a graph knows before any node runs: inputs and initializers."""
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return known | {tensor.values.name for tensor in graph.sparse_initializer}


def running_order(nodes: Sequence[onnx.NodeProto], known: set[str]) -> list[int]:
    """Indices of `nodes` in an order that can run, the given one where possible. ModelError if none can."""
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers or name in known:
                other = f"node '{nodes[makers[name]].name}'" if name in makers else "an input or initializer"
                raise ModelError(
                    f"'{name}' is made twice: by {other} and by this node", where=f"node '{node.name}'"
                )
            makers[name] = index
    waiting: list[set[int]] = []
    readers: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        sources: set[int] = set()
        for name in outer_reads(node) - known:
            if name not in makers:
                raise ModelError(
                    f"nothing makes '{name}'",
                    where=f"node '{node.name}'",
                    nearest=nearest_names(name, [*makers, *known]),
                    fix="the file is damaged or was cut out of a larger model",
                )
            sources.add(makers[name])
        waiting.append(sources)
        for source in sources:
            readers.setdefault(source, []).append(index)
    ready = [index for index, sources in enumerate(waiting) if not sources]
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for reader in readers.get(index, ()):
            waiting[reader].discard(index)
            if not waiting[reader]:
                heappush(ready, reader)
    if len(order) < len(nodes):
        raise ModelError("the graph has a cycle: " + " -> ".join(_cycle(nodes, waiting)))
    return order


def _cycle(nodes: Sequence[onnx.NodeProto], waiting: Sequence[set[int]]) -> list[str]:
    """The names along one cycle, first and last the same."""
    at = next(index for index, sources in enumerate(waiting) if sources)
    path: list[int] = []
    while at not in path:
        path.append(at)
        at = min(source for source in waiting[at] if waiting[source])
    loop = [*path[path.index(at) :], at]
    return [nodes[index].name for index in reversed(loop)]
