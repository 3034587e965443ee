"""An optimised graph without its reorders: each tensor has one name, each node wants it in some layout.

onnxruntime's optimiser writes

    conv -> r1 (blocked) -> ReorderOutput -> t (plain) -> Add -> u (plain) -> ReorderInput -> r2 (blocked)

Here r1 and t are one tensor `t`, u and r2 one tensor `u`; the reorders are gone and will be put back where
the chosen layouts differ. The plain name is kept, because shapes are known by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx

from regweave.engine.building.blocking.forms import NCHWC, Facts, Form, blocked_form

REORDER_INPUT, REORDER_OUTPUT = "ReorderInput", "ReorderOutput"
REORDERS = frozenset(((NCHWC, REORDER_INPUT), (NCHWC, REORDER_OUTPUT)))
"""Domain and op type of the nodes that move an image from one layout to the other."""


@dataclass(frozen=True, eq=False)
class Place:
    """A node in the view. `form` is what it is on blocked tensors, None for one that cannot change.

    `blocked_inputs` and `blocked_outputs` are the positions that are blocked as the node stands.
    """

    node: onnx.NodeProto
    blocked_inputs: frozenset[int]
    blocked_outputs: frozenset[int]
    form: Form | None = None


@dataclass(frozen=True, eq=False)
class View:
    """Nodes in order, with inputs and outputs renamed to the tensors' one name.

    `channels` are the channels that a plain copy of the tensor has, where a reorder told.
    """

    places: tuple[Place, ...]
    channels: dict[str, int]
    outputs: frozenset[str]
    names: frozenset[str] = field(default_factory=frozenset)


def reorder_free(graph: onnx.GraphProto, facts: Facts) -> View:
    """The view of an optimised graph."""
    one_name: dict[str, str] = {}
    channels: dict[str, int] = {}
    for node in graph.node:
        if is_reorder(node, REORDER_OUTPUT) and _keeps_order(node):
            one_name[node.input[0]] = node.output[0]
            channels[node.output[0]] = _channels(node)
    for node in graph.node:
        if is_reorder(node, REORDER_INPUT) and _keeps_order(node):
            one_name[node.output[0]] = one_name.get(node.input[0], node.input[0])
    blocked = set(one_name)
    places = []
    for node in graph.node:
        if (is_reorder(node, REORDER_INPUT) or is_reorder(node, REORDER_OUTPUT)) and _keeps_order(node):
            continue
        inputs = frozenset(i for i, name in enumerate(node.input) if name in blocked)
        gives = _gives_blocked(node, inputs)
        outputs = frozenset(range(len(node.output))) if gives else frozenset()
        blocked.update(node.output[i] for i in outputs)
        twin = onnx.NodeProto()
        twin.CopyFrom(node)
        for names in (twin.input, twin.output):
            names[:] = [one_name.get(name, name) for name in names]
        form = None if node.domain == NCHWC else blocked_form(twin, facts)
        places.append(Place(twin, inputs, outputs, form))
    names = frozenset(name for node in graph.node for name in (*node.input, *node.output))
    return View(tuple(places), channels, frozenset(value.name for value in graph.output), names)


def _gives_blocked(node: onnx.NodeProto, blocked_inputs: frozenset[int]) -> bool:
    """Whether a node's results are blocked. What onnxruntime put among blocked tensors itself keeps them
    so."""
    if is_reorder(node, REORDER_OUTPUT):
        return False
    return node.domain == NCHWC or bool(blocked_inputs)


def is_reorder(node: onnx.NodeProto, kind: str) -> bool:
    """Whether a node is a reorder of this kind."""
    return node.domain == NCHWC and node.op_type == kind


def _keeps_order(node: onnx.NodeProto) -> bool:
    """Whether the plain side is NCHW; NHWC reorders are left alone."""
    return not any(a.name == "channels_last" and a.i for a in node.attribute)


def _channels(node: onnx.NodeProto) -> int:
    return next(a.i for a in node.attribute if a.name == "channels")
