"""The model with pieces replaced: one node of a custom operator for each, everything else untouched.

    x, residual -> Conv Add Div Erf Add Mul Mul Conv Add Add -> y
    x, residual -> Region                                    -> y

The new node reads the piece's input, then its extra inputs, and makes the piece's output under its old
name, so that nothing around it changes. What only the replaced nodes needed (weights, the arithmetic of
Reshape targets) is dropped. That the result can still be ordered is checked, not assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper, numpy_helper

from regweave.errors import InputError, ModelError, VerificationError
from regweave.graphs.attributes import outer_reads
from regweave.graphs.pieces.pieces import Piece
from regweave.graphs.reading.model import Model
from regweave.graphs.reading.order import running_order
from regweave.graphs.reading.reading import OVERRIDABLE_FROM

DOMAIN = "regweave"
OP_TYPE = "Region"


def replace_pieces(
    model: Model,
    pieces: Iterable[Piece],
    *,
    domain: str = DOMAIN,
    op_type: str = OP_TYPE,
    attributes: Callable[[Piece], Mapping[str, Any]] | None = None,
) -> onnx.ModelProto:
    """A new model in which each piece is one node `domain`::`op_type` named "regweave/" + its name.

    Inputs are the piece's input (behind a Transpose node if the piece is `transposed`) and its extra
    inputs; `attributes(piece)` gives the node's attributes. External data is still external, relative to
    `model.folder`. Errors: InputError (refused pieces, or two that share a node), VerificationError (no
    order exists).
    """
    chosen = list(pieces)
    owner = _owners(model, chosen)
    nodes = [node for node in model.nodes if node.name not in owner]
    _check_closed(model, owner, nodes)
    added: list[onnx.TensorProto] = []
    for piece in chosen:
        nodes.extend(_region(piece, domain, op_type, dict(attributes(piece)) if attributes else {}))
        added.extend(numpy_helper.from_array(value, name) for name, value in piece.added.items())
    source = model.proto.graph
    outputs = set(model.outputs)
    nodes = _alive(nodes, outputs)
    read = outputs.union(*(outer_reads(node) for node in nodes))
    result = _shell(model.proto, domain)
    graph = result.graph
    overridable = (
        {value.name for value in source.input} if model.proto.ir_version >= OVERRIDABLE_FROM else set()
    )
    kept = [tensor for tensor in source.initializer if tensor.name in read | overridable]
    graph.initializer.extend(kept)
    graph.initializer.extend(added)
    graph.sparse_initializer.extend(
        tensor for tensor in source.sparse_initializer if tensor.values.name in read
    )
    dropped = {tensor.name for tensor in source.initializer} - {tensor.name for tensor in kept}
    graph.input.extend(value for value in source.input if value.name not in dropped)
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    known |= {tensor.values.name for tensor in graph.sparse_initializer}
    try:
        order = running_order(nodes, known)
    except ModelError as error:
        raise VerificationError(f"the pieces cannot replace their nodes: {error.what}") from error
    graph.node.extend(nodes[index] for index in order)
    graph.output.extend(source.output)
    made = {name for node in graph.node for name in node.output}
    graph.value_info.extend(value for value in source.value_info if value.name in made)
    return result


def _owners(model: Model, pieces: Sequence[Piece]) -> dict[str, Piece]:
    owner: dict[str, Piece] = {}
    for piece in pieces:
        if piece.refusal is not None:
            raise InputError(f"a refused piece cannot replace nodes: {piece.refusal}", where=piece.name)
        for name in piece.nodes:
            if name not in model.positions:
                raise InputError(f"the model has no node '{name}'", where=f"piece {piece.name}")
            if name in owner:
                raise InputError(
                    f"node '{name}' is in two pieces", where=f"{owner[name].name} and {piece.name}"
                )
            owner[name] = piece
    return owner


def _check_closed(model: Model, owner: Mapping[str, Piece], kept: Sequence[onnx.NodeProto]) -> None:
    """Nothing outside a piece may read what is made inside it, except its output."""
    inner = {
        tensor: piece
        for name, piece in owner.items()
        for tensor in model.nodes[model.positions[name]].output
        if tensor != piece.output
    }
    reads = [(f"node '{node.name}'", name) for node in kept for name in outer_reads(node)]
    reads += [("the model", name) for name in model.outputs]
    reads += [
        (f"piece {piece.name}", name)
        for piece in set(owner.values())
        for name in (piece.input, *piece.extra_inputs)
    ]
    for reader, name in reads:
        if name in inner:
            raise VerificationError(f"{reader} reads '{name}', which is inside piece {inner[name].name}")


def _region(piece: Piece, domain: str, op_type: str, attributes: dict[str, Any]) -> list[onnx.NodeProto]:
    name = f"regweave/{piece.name}"
    source, front = piece.input, []
    if piece.transposed:
        source = f"{name}/transposed"
        front = [helper.make_node("Transpose", [piece.input], [source], f"{name}/transpose", perm=[1, 0])]
    inputs = [source, *piece.extra_inputs]
    return [*front, helper.make_node(op_type, inputs, [piece.output], name, domain=domain, **attributes)]


def _alive(nodes: list[onnx.NodeProto], outputs: set[str]) -> list[onnx.NodeProto]:
    """The nodes whose results somebody reads in the end."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    queue = [makers[name] for name in outputs if name in makers]
    alive = set(queue)
    while queue:
        for name in outer_reads(nodes[queue.pop()]):
            index = makers.get(name)
            if index is not None and index not in alive:
                alive.add(index)
                queue.append(index)
    return [node for index, node in enumerate(nodes) if index in alive]


def _shell(proto: onnx.ModelProto, domain: str) -> onnx.ModelProto:
    """A model without content that claims what `proto` claims, and imports `domain`."""
    result = onnx.ModelProto(ir_version=proto.ir_version)
    result.producer_name, result.producer_version = proto.producer_name, proto.producer_version
    result.model_version, result.domain, result.doc_string = (
        proto.model_version,
        proto.domain,
        proto.doc_string,
    )
    result.opset_import.extend(entry for entry in proto.opset_import if entry.domain != domain)
    result.opset_import.append(helper.make_opsetid(domain, 1))
    result.metadata_props.extend(proto.metadata_props)
    result.graph.name, result.graph.doc_string = proto.graph.name or "graph", proto.graph.doc_string
    return result
