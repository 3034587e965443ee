"""Finding the chains of products in a model, and saying what broke those that are none.

    for candidate in find_candidates(read_model("recogniser.onnx")):
        print(candidate.gemm_nodes, candidate.widths, candidate.refusal or "can be fused")

Two products are a chain when the second reads the first's result and nothing else does, and all that
happens in between can be done in registers. Chains are as long as they can be; a caller may name one
(`fuse`), which is then exactly that long, or keep products apart (`apart`). A product that is followed by
another one, but across something that breaks the chain, is a candidate with a refusal: the answer to "why
not these two?".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from regweave.graphs.discovery.misses import hidden_products, near_misses
from regweave.graphs.discovery.requests import (
    ON_REQUEST,
    check_apart,
    checked_apart,
    keeps_apart,
    requested,
    requests_of,
)
from regweave.graphs.discovery.walks import Scout, Walk, trimmed
from regweave.graphs.pieces.formation import make_piece
from regweave.graphs.pieces.pieces import Link, Piece
from regweave.graphs.pieces.products import Product
from regweave.graphs.reading.model import Model


def find_candidates(
    model: Model, fuse: Iterable[str | Sequence[str]] = (), apart: Iterable[str] = ()
) -> tuple[Piece, ...]:
    """All chains of two or more products, then in place of each broken one a piece with its `refusal`.

    `fuse` names chains that must be exactly these products, each as "NODE,NODE,..." or a sequence of names.
    `apart` names products that stay out of every chain, or nodes between two products whose seam stays open.
    In the order of the model. Errors: InputError where the names are unknown or do not follow one another.
    """
    scout = Scout(model)
    kept = checked_apart(scout, apart)
    taken: set[str] = set()
    found: list[Piece] = []
    ends: dict[str, Walk] = {}
    for names in requests_of(fuse):
        links = requested(scout, names, kept, taken)
        taken.update(name for link in links for name in link.nodes)
        found.append(replace(make_piece(model, "chain", links), forced=True))
    for index in range(len(model.nodes)):
        product = scout.product(index)
        if isinstance(product, Product) and product.node not in taken:
            links, end = _longest(scout, product, kept, taken)
            ends[links[-1].product.node] = end
            if len(links) > 1:
                taken.update(name for link in links for name in link.nodes)
                found.append(make_piece(model, "chain", links))
    check_apart(scout, kept, ends)
    found.extend(near_misses(scout, ends))
    found.extend(hidden_products(model))
    return tuple(
        sorted(found, key=lambda piece: (model.positions[piece.nodes[0]], piece.refusal is not None))
    )


def _longest(scout: Scout, first: Product, kept: frozenset[str], taken: set[str]) -> tuple[list[Link], Walk]:
    """The longest chain that starts with `first`, and the walk behind its last product."""
    links: list[Link] = []
    product = first
    while True:
        walk = scout.behind(product, taken, first)
        if keeps_apart(product, walk, kept):
            walk = replace(walk, product=None, reason=ON_REQUEST)
        links.append(Link(product, (*product.steps, *walk.steps)))
        if walk.product is None:
            links[-1] = Link(product, (*product.steps, *trimmed(scout.model, walk.steps)))
            return links, walk
        product = walk.product
