"""The rest of a model that could run natively: single products, and runs of element-wise work.

Once the chains are chosen, `find_pieces` divides what is left, so that no node is in two pieces. Whether any
of these pays is for the engine to decide: it knows what a call costs.
"""

from __future__ import annotations

from collections.abc import Iterable

from regweave.graphs.discovery.walks import OLDEST_OPSET, Scout, trimmed
from regweave.graphs.elementwise.cursor import Cursor
from regweave.graphs.elementwise.folding import has_work
from regweave.graphs.elementwise.gates import find_gate
from regweave.graphs.elementwise.steps import Step, element_step
from regweave.graphs.pieces.formation import make_piece
from regweave.graphs.pieces.pieces import Link, Piece
from regweave.graphs.pieces.products import Product
from regweave.graphs.reading.model import FLOAT, Model
from regweave.operators import Same


def find_pieces(model: Model, chosen: Iterable[Piece] = ()) -> tuple[Piece, ...]:
    """Single products with the work behind them, and element-wise runs, in nodes that `chosen` leaves free.

    Refused pieces in `chosen` take no nodes. In the order of the model.
    """
    scout = Scout(model)
    taken = {name for piece in chosen if piece.refusal is None for name in piece.nodes}
    found: list[Piece] = []
    for index in range(len(model.nodes)):
        product = scout.product(index)
        if isinstance(product, Product) and product.node not in taken:
            found.append(_single(scout, product, taken))
            taken.update(found[-1].nodes)
    if model.opset >= OLDEST_OPSET:
        for index, node in enumerate(model.nodes):
            run = None if node.name in taken else _run(scout, index, taken)
            if run is not None:
                found.append(run)
                taken.update(run.nodes)
    return tuple(sorted(found, key=lambda piece: model.positions[piece.nodes[0]]))


def _single(scout: Scout, product: Product, taken: set[str]) -> Piece:
    walk = scout.behind(product, taken, product)
    steps = (*product.steps, *trimmed(scout.model, walk.steps))
    return make_piece(scout.model, "single", [Link(product, steps)])


def _run(scout: Scout, index: int, taken: set[str]) -> Piece | None:
    """The run of element-wise work that starts with node `index`, or None if none does."""
    start = _first_step(scout.model, index, taken)
    if start is None:
        return None
    tensor, step, cursor = start
    origin = scout.model.symbols.get(tensor)
    walk = scout.follow(cursor, taken, None, gates=True)
    steps = (step, *walk.steps)
    if not has_work(steps):
        return None
    model, axis = scout.model, walk.cursor.axis
    channels = walk.cursor.channels
    last = axis is None or axis == -1 or (origin is not None and axis == len(origin) - 1)
    return Piece(
        kind="elementwise",
        nodes=tuple(name for step in steps for name in step.nodes),
        gemm_nodes=(),
        input=tensor,
        output=steps[-1].output,
        order="rows" if last else "pixels",
        channel_axis=-1 if last or axis is None else axis,
        widths=(channels,) if isinstance(channels, int) else (),
        input_shape=model.shapes.get(tensor),
        output_dims=None if origin is None else tuple(Same(i) for i in range(len(origin))),
        steps=steps,
    )


def _first_step(model: Model, index: int, taken: set[str]) -> tuple[str, Step, Cursor] | None:
    """The input tensor, the step and the cursor behind it, for a run that starts with a node."""
    node = model.nodes[index]
    if all(model.types.get(name) not in (None, FLOAT) for name in node.output[:1]):
        return None
    sources = [name for name in dict.fromkeys(node.input) if name and name not in model.constants]
    sources.sort(key=lambda name: model.makers.get(name, -1), reverse=True)
    for tensor in sources:
        if not model.is_float32(tensor):
            continue
        cursor = Cursor(tensor, model.symbols.get(tensor), None, None)
        gate = find_gate(model, tensor, first=index)
        if gate is not None and not taken.intersection(gate.nodes):
            return tensor, gate, cursor.at(gate.output)
        found = element_step(model, node, cursor, gates=True)
        if not isinstance(found, str) and found[1].shape == cursor.shape:
            return tensor, *found
    return None
