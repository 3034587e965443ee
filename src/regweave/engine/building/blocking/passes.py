"""The pass over a whole model, and its verifier."""

from __future__ import annotations

import onnx

from regweave.engine.building.blocking.assignment import best_choice, problem
from regweave.engine.building.blocking.forms import NCHWC, Facts
from regweave.engine.building.blocking.rewriting import rewritten
from regweave.engine.building.blocking.view import REORDER_INPUT, REORDER_OUTPUT, reorder_free


def count_reorders(model: onnx.ModelProto) -> int:
    """How many nodes of the main graph only move an image from one layout to the other."""
    return sum(n.domain == NCHWC and n.op_type in (REORDER_INPUT, REORDER_OUTPUT) for n in model.graph.node)


def block_images(model: onnx.ModelProto, facts: Facts) -> onnx.ModelProto:
    """`model` (optimised by onnxruntime, with blocked convolutions) with as few reorders as possible.

    The model itself is returned where it has none.
    """
    if not count_reorders(model):
        return model
    view = reorder_free(model.graph, facts)
    given = problem(view, facts)
    nodes = rewritten(view, given, best_choice(given))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    _check(result)
    # Declared shapes are those of the old layouts; onnxruntime infers what it needs.
    del result.graph.value_info[:]
    return result


def _check(model: onnx.ModelProto) -> None:
    """Every tensor is made once, before it is read."""
    graph = model.graph
    known = {"", *(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)}
    known.update(tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        missing = [name for name in node.input if name not in known]
        assert not missing, f"{node.name} reads {missing} before anything makes it"
        made = [name for name in node.output if name]
        assert known.isdisjoint(made), f"{node.name} makes {made} again"
        known.update(made)
    missing = [value.name for value in graph.output if value.name not in known]
    assert not missing, f"nothing makes the outputs {missing}"
