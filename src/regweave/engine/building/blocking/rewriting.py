"""The graph for a choice of layouts: nodes in their forms, and a reorder where a tensor is read in another
layout.

Names: a plain tensor keeps its name; its blocked copy is called `name/blocked`. Every reorder comes right
after the node that makes the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from regweave.engine.building.blocking.assignment import Problem, Tensor
from regweave.engine.building.blocking.forms import NCHWC
from regweave.engine.building.blocking.view import REORDER_INPUT, REORDER_OUTPUT, View


def rewritten(view: View, given: Problem, blocked: frozenset[int]) -> list[onnx.NodeProto]:
    """All nodes of the graph, in an order that can run."""
    nodes = list(_entry_reorders(given, blocked))
    for index, place in enumerate(view.places):
        node = onnx.NodeProto()
        node.CopyFrom(place.form.node if place.form and index in blocked else place.node)
        kept = len(node.input)
        node.input[:] = [
            _read_name(given, name, (index, position), blocked)
            for position, name in enumerate(place.node.input[:kept])
        ]
        node.output[:] = [
            _made_name(given, given.tensors[name], blocked) if name else "" for name in place.node.output
        ]
        nodes.append(node)
        for name in place.node.output:
            if name and given.needs_reorder(given.tensors[name], blocked):
                nodes.append(_reorder(view, given, given.tensors[name], blocked))
    return nodes


def blocked_name(tensor: str) -> str:
    """The name of a tensor's blocked copy."""
    return f"{tensor}/blocked"


def _made_name(given: Problem, tensor: Tensor, blocked: frozenset[int]) -> str:
    if tensor.free and not tensor.is_output:
        return tensor.name
    return blocked_name(tensor.name) if given.is_blocked(tensor, blocked) else tensor.name


def _read_name(given: Problem, name: str, reader: tuple[int, int], blocked: frozenset[int]) -> str:
    tensor = given.tensors.get(name)
    if tensor is None:
        return name
    if tensor.free:
        return _made_name(given, tensor, blocked)
    return blocked_name(name) if given.wants_blocked(reader, blocked) else name


def _reorder(view: View, given: Problem, tensor: Tensor, blocked: frozenset[int]) -> onnx.NodeProto:
    plain, other = tensor.name, blocked_name(tensor.name)
    if not given.is_blocked(tensor, blocked):
        return onnx.helper.make_node(
            REORDER_INPUT, [plain], [other], name=f"{plain}/to_blocked", domain=NCHWC, channels_last=0
        )
    channels = view.channels.get(plain)
    if channels is None:
        shape = given.facts.image(plain)
        assert shape is not None and isinstance(shape[1], int)  # noqa: PT018
        channels = shape[1]
    return onnx.helper.make_node(
        REORDER_OUTPUT, [other], [plain], name=f"{plain}/to_plain", domain=NCHWC,
        channels_last=0, channels=channels,
    )  # fmt: skip


def _entry_reorders(given: Problem, blocked: frozenset[int]) -> Iterator[onnx.NodeProto]:
    """Graph inputs that someone wants blocked."""
    for tensor in given.tensors.values():
        if tensor.maker is None and given.needs_reorder(tensor, blocked):
            yield onnx.helper.make_node(
                REORDER_INPUT, [tensor.name], [blocked_name(tensor.name)],
                name=f"{tensor.name}/to_blocked", domain=NCHWC, channels_last=0,
            )  # fmt: skip
