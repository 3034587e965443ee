"""Native operators in the place of what onnxruntime does between native ones, where kernels do the same.

    Native -> ReorderInput -> Native -> GlobalAveragePool -> Native        becomes one operator (see joining)
    Native -> ToBlocks24   -> Native -> Mean96            -> Native

None of these is worth an operator of its own: they take as long as onnxruntime's. But each would end one.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from regweave.devices.onnxruntime import DOMAIN
from regweave.engine.blocking import MEAN
from regweave.engine.blocking.forms import NCHWC, channels_name
from regweave.engine.blocking.rewriting import blocked_name
from regweave.engine.blocking.view import REORDER_OUTPUT, REORDERS
from regweave.graphs.attributes import attribute

TO_BLOCKS, TO_PLANES = "ToBlocks", "ToPlanes"
"""Stems of the op types of native reorders; the true number of channels follows."""

_BLOCKED = blocked_name("")
_POOL = "GlobalAveragePool"

Channels = Callable[[str], int | None]


def with_stand_ins(model: onnx.ModelProto, channels: Channels, block: int) -> onnx.ModelProto:
    """`model` with native twins of nodes in it. `channels` gives those of a plain tensor, None where they are
    not known."""
    weights = {tensor.name: tensor.dims[0] for tensor in model.graph.initializer if tensor.dims}
    padded: dict[str, int] = {}  # of blocked tensors
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for node in result.graph.node:
        source = node.input[0] if node.input else ""
        if source.endswith(_BLOCKED):
            count = channels(source.removesuffix(_BLOCKED))
            if count is not None:
                padded.setdefault(source, -(-count // block) * block)
        name = None
        if node.domain == NCHWC and node.op_type == "Conv" and node.input[1] in weights:
            padded[node.output[0]] = weights[node.input[1]]
        elif (node.domain, node.op_type) in REORDERS and not attribute(node, "channels_last", 0):
            name = _reorder(node, channels(source))
        elif node.domain == NCHWC and source in padded:
            padded[node.output[0]] = padded[source]
            name = channels_name(MEAN, padded[source], block) if node.op_type == _POOL else None
        if name is not None:
            del node.attribute[:]
            node.domain, node.op_type = DOMAIN, name
    return result


def _reorder(node: onnx.NodeProto, plain: int | None) -> str | None:
    if node.op_type == REORDER_OUTPUT:
        return f"{TO_PLANES}{attribute(node, 'channels')}"
    return None if plain is None else f"{TO_BLOCKS}{plain}"
