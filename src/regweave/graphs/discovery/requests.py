"""What a caller asks for: chains that must be exactly these products, and products to keep apart.

Every name is checked, and a chain that was asked for but is none is an error that says why, not a chain
that is silently left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from regweave.errors import InputError, nearest_names
from regweave.graphs.discovery.convolutions import recognise_window
from regweave.graphs.discovery.walks import Scout, Walk, describe, trimmed
from regweave.graphs.pieces.pieces import Link
from regweave.graphs.pieces.products import PRODUCTS, Product, Refusal

ON_REQUEST = "kept apart on request"


def requests_of(fuse: Iterable[str | Sequence[str]] | None) -> list[tuple[str, ...]]:
    """The names of each chain: "NODE,NODE" is split and stripped, a sequence is taken as it is."""
    return [
        tuple(name.strip() for name in request.split(",") if name.strip())
        if isinstance(request, str)
        else listed(request, "fuse")
        for request in listed(fuse, "fuse")
    ]


def listed(names: Any, where: str) -> tuple[Any, ...]:
    """Names that were given as one name, any iterable of names, or None for none."""
    if names is None or isinstance(names, str):
        return (names,) if names else ()
    if not isinstance(names, Iterable):
        raise InputError(f"{names!r} is not a list of node names", where=where)
    return tuple(names)


def _known(scout: Scout, name: str, where: str) -> int:
    """The index of a node by name; InputError with the nearest names of products."""
    index = scout.model.positions.get(name) if isinstance(name, str) else None
    if index is None:
        products = [node.name for node in scout.model.nodes if node.op_type in PRODUCTS]
        near = nearest_names(name, products) or nearest_names(name, scout.model.positions)
        raise InputError(f"the model has no node '{name}'", where=where, nearest=near)
    return index


def checked_apart(scout: Scout, apart: Iterable[str] | None) -> frozenset[str]:
    names = listed(apart, "apart")
    for name in names:
        _known(scout, name, "apart")
    return frozenset(names)


def check_apart(scout: Scout, kept: frozenset[str], ends: dict[str, Walk]) -> None:
    """Every name in `apart` must keep something apart, or be a product or a convolution."""
    opened = {
        name for walk in ends.values() if walk.reason == ON_REQUEST for s in walk.steps for name in s.nodes
    }
    for name in sorted(kept):
        node = scout.model.nodes[scout.model.positions[name]]
        product = scout.product(scout.model.positions[name])
        if name not in opened and product is None and recognise_window(scout.model, node) is None:
            raise InputError(
                f"{describe(node)} is neither a product nor between two that could be fused",
                where="apart",
                expected="a product, a convolution, or a node between two products of a chain",
            )


def requested(scout: Scout, names: Sequence[str], kept: frozenset[str], taken: set[str]) -> list[Link]:
    """Exactly the chain that was asked for, or an InputError that says why it is none."""
    where = f"fuse '{','.join(map(str, names))}'"
    if len(names) < 2:
        raise InputError(
            "a chain of one layer is not a cascade", where=where, expected="two or more products"
        )
    products: list[Product] = []
    for name in names:
        index = _known(scout, name, where)
        product = scout.product(index)
        node = scout.model.nodes[index]
        if isinstance(product, Refusal):
            raise InputError(f"{describe(node)}: {product.reason}", where=where)
        if product is None:
            near = nearest_names(name, [n.name for n in scout.model.nodes if n.op_type in PRODUCTS])
            raise InputError(f"{describe(node)} is not a product", where=where, nearest=near)
        if name in taken or name in names[: len(products)]:
            raise InputError(f"{describe(node)} is asked for twice", where=where)
        products.append(product)
    links: list[Link] = []
    for product, following in zip(products, [*products[1:], None], strict=True):
        walk = scout.behind(product, taken, products[0])
        if following is None:
            links.append(Link(product, (*product.steps, *trimmed(scout.model, walk.steps))))
            break
        if walk.product is not following:
            raise InputError(_not_next(scout, product, following, walk), where=where)
        if keeps_apart(product, walk, kept):
            raise InputError(
                f"'{product.node}' and '{following.node}' are also to be kept apart", where=where
            )
        links.append(Link(product, (*product.steps, *walk.steps)))
    return links


def _not_next(scout: Scout, product: Product, wanted: Product, walk: Walk) -> str:
    """Why `wanted` does not follow `product`."""
    positions = scout.model.positions
    if positions[wanted.node] < positions[product.node]:
        return f"'{wanted.node}' runs before '{product.node}': name them in running order"
    if walk.product is not None:
        return f"'{wanted.node}' does not follow '{product.node}': '{walk.product.node}' does"
    return f"'{wanted.node}' cannot follow '{product.node}': {walk.reason}"


def keeps_apart(product: Product, walk: Walk, kept: frozenset[str]) -> bool:
    """Whether the seam between a product and the one that its walk leads to is kept open."""
    if walk.product is None:
        return False
    touched = {product.node, walk.product.node, *(name for step in walk.steps for name in step.nodes)}
    return bool(touched & kept)
