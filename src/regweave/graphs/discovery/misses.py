"""Refused candidates: products that follow one another, with something in the way.

The answer to "why not these two?" for every product that has another one not far behind it, and for products
that cannot be built at all: unsupported types, weights computed at run time, bodies of control flow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from regweave.graphs.attributes import subgraphs
from regweave.graphs.discovery.walks import Scout, Walk, describe
from regweave.graphs.pieces.pieces import Piece
from regweave.graphs.pieces.products import PRODUCTS, QUANTIZED, Product, Refusal
from regweave.graphs.reading.model import Model

NEAR = 12


def near_misses(scout: Scout, ends: dict[str, Walk]) -> list[Piece]:
    """Refused candidates: a product, the nearest product behind it, and what is in the way."""
    found: list[Piece] = []
    for index, node in enumerate(scout.model.nodes):
        product = scout.product(index)
        if isinstance(product, Refusal):
            following = _nearest(scout, list(node.output))
            found.append(_refused(scout, index, following, f"{describe(node)}: {product.reason}"))
        elif node.name in ends:
            walk = ends[node.name]
            following = _nearest(scout, [walk.cursor.tensor])
            if following is not None:
                found.append(_refused(scout, index, following, walk.reason))
    return found


def _nearest(scout: Scout, tensors: Sequence[str]) -> int | None:
    """The first product, by running order, within a few nodes of `tensors`."""
    queue = deque((name, 0) for name in tensors)
    seen: set[int] = set()
    hits: list[int] = []
    while queue:
        name, distance = queue.popleft()
        for index in scout.model.readers.get(name, ()):
            if index in seen or distance >= NEAR:
                continue
            seen.add(index)
            if scout.product(index) is not None:
                hits.append(index)
            else:
                queue.extend((output, distance + 1) for output in scout.model.nodes[index].output)
    return min(hits, default=None)


def _refused(scout: Scout, first: int, second: int | None, reason: str) -> Piece:
    model = scout.model
    indices = [first] if second is None else [first, second]
    products = [scout.product(index) for index in indices]
    names = tuple(model.nodes[index].name for index in indices)
    widths: tuple[int, ...] = ()
    if isinstance(products[0], Product):
        widths = (products[0].k, products[0].n)
        if isinstance(products[-1], Product) and len(products) > 1 and products[-1].k == widths[-1]:
            widths = (*widths, products[-1].n)
    node, last = model.nodes[indices[0]], model.nodes[indices[-1]]
    lead = products[0]
    return Piece(
        kind="chain",
        nodes=names,
        gemm_nodes=names,
        input=lead.input if isinstance(lead, Product) else next(iter(node.input), ""),
        output=next(iter(last.output), ""),
        order=lead.order if isinstance(lead, Product) else "rows",
        channel_axis=lead.axis if isinstance(lead, Product) else -1,
        widths=widths,
        input_shape=model.shapes.get(lead.input) if isinstance(lead, Product) else None,
        output_dims=None,
        refusal=reason,
    )


def hidden_products(model: Model) -> list[Piece]:
    """Products inside the branches and bodies of control flow: left alone, with the reason."""
    found: list[Piece] = []
    for node in model.nodes:
        inner = [
            entry
            for graph in subgraphs(node)
            for entry in graph.node
            if entry.op_type in PRODUCTS | QUANTIZED
        ]
        if inner:
            names = ", ".join(f"'{entry.name or entry.op_type}'" for entry in inner[:3])
            found.append(
                Piece(
                    kind="chain",
                    nodes=(node.name,),
                    gemm_nodes=(node.name,),
                    input=next(iter(node.input), ""),
                    output=next(iter(node.output), ""),
                    order="rows",
                    channel_axis=-1,
                    widths=(),
                    input_shape=None,
                    output_dims=None,
                    refusal=f"{len(inner)} product(s) ({names}) inside the subgraphs of {describe(node)}: "
                    "left to onnxruntime",
                )
            )
    return found
