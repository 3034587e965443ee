"""Attributes of ONNX nodes as plain Python values, with the defaults that the operator sets define.

attribute(node, "alpha", 0.01)     the float of a LeakyRelu node, or 0.01 where it has none
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """The value of attribute `name` (strings decoded, tensors as TensorProto), or `default`."""
    for entry in node.attribute:
        if entry.name == name:
            value = helper.get_attribute_value(entry)
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return default


def words(text: str) -> frozenset[str]:
    """The words of a text as a set: tables of operator names read better as text."""
    return frozenset(text.split())


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a control-flow node carries: the branches of an If, the body of a Loop or Scan."""
    found: list[onnx.GraphProto] = []
    for entry in node.attribute:
        if entry.type == onnx.AttributeProto.GRAPH:
            found.append(entry.g)
        elif entry.type == onnx.AttributeProto.GRAPHS:
            found.extend(entry.graphs)
    return found


def outer_reads(node: onnx.NodeProto) -> set[str]:
    """Every tensor that `node` reads, those captured by its subgraphs from outside included."""
    reads = {name for name in node.input if name}
    for graph in subgraphs(node):
        reads |= free_names(graph)
    return reads


def free_names(graph: onnx.GraphProto) -> set[str]:
    """The names that `graph` reads but does not define: what it captures from the graph around it."""
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    known |= {tensor.values.name for tensor in graph.sparse_initializer}
    free: set[str] = set()
    for node in graph.node:
        free |= outer_reads(node) - known
        known.update(node.output)
    return free | ({value.name for value in graph.output} - known)
