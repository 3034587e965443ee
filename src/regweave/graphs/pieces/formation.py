"""Pieces from the links that a walk has found."""

from __future__ import annotations

from collections.abc import Sequence

from regweave.graphs.pieces.pieces import Kind, Link, Piece, output_dims
from regweave.graphs.reading.model import Model


def make_piece(model: Model, kind: Kind, links: Sequence[Link]) -> Piece:
    """A piece of the given links. The last link's steps must leave a shape that follows from the input's."""
    first = links[0].product
    symbols, shape = model.symbols.get(first.input), model.shapes.get(first.input)
    if first.transposed:
        symbols, shape = symbols and symbols[::-1], shape and shape[::-1]
    output = links[-1].output
    result = model.symbols.get(output)
    return Piece(
        kind=kind,
        nodes=tuple(dict.fromkeys(name for link in links for name in link.nodes)),
        gemm_nodes=tuple(link.product.node for link in links),
        input=first.input,
        output=output,
        order=first.order,
        channel_axis=first.axis,
        widths=(first.k, *(link.product.n for link in links)),
        input_shape=shape,
        output_dims=None if symbols is None or result is None else output_dims(symbols, result),
        transposed=first.transposed,
        links=tuple(links),
    )
