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

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from regweave.errors import InputError, nearest_names
from regweave.graphs.attributes import subgraphs
from regweave.graphs.model import Model
from regweave.graphs.pieces import Kind, Link, Piece, output_dims
from regweave.graphs.products import PRODUCTS, QUANTIZED, Product, Refusal
from regweave.graphs.walks import Scout, Walk, describe, trimmed

NEAR = 12
ON_REQUEST = "kept apart on request"


def find_candidates(
    model: Model, fuse: Iterable[str | Sequence[str]] = (), apart: Iterable[str] = ()
) -> tuple[Piece, ...]:
    """All chains of two or more products, then in place of each broken one a piece with its `refusal`.

    `fuse` names chains that must be exactly these products, each as "NODE,NODE,..." or a sequence of names.
    `apart` names products that stay out of every chain, or nodes between two products whose seam stays open.
    In the order of the model. Errors: InputError where the names are unknown or do not follow one another.
    """
    scout = Scout(model)
    kept = _checked_apart(scout, apart)
    requests = [_names(request) for request in fuse]
    taken: set[str] = set()
    found: list[Piece] = []
    ends: dict[str, Walk] = {}
    for names in requests:
        links = _requested(scout, names, kept, taken)
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
    _check_seams(scout, kept, ends)
    found.extend(_near_misses(scout, ends))
    found.extend(_hidden(model))
    return tuple(
        sorted(found, key=lambda piece: (model.positions[piece.nodes[0]], piece.refusal is not None))
    )


def _names(request: str | Sequence[str]) -> tuple[str, ...]:
    names = request.split(",") if isinstance(request, str) else request
    return tuple(name.strip() for name in names if name.strip())


def _known(scout: Scout, name: str, where: str) -> int:
    """The index of a node by name; InputError with the nearest names of products."""
    index = scout.model.positions.get(name)
    if index is None:
        products = [node.name for node in scout.model.nodes if node.op_type in PRODUCTS]
        near = nearest_names(name, products) or nearest_names(name, scout.model.positions)
        raise InputError(f"the model has no node '{name}'", where=where, nearest=near)
    return index


def _checked_apart(scout: Scout, apart: Iterable[str]) -> frozenset[str]:
    names = [apart] if isinstance(apart, str) else list(apart)
    for name in names:
        _known(scout, name, "apart")
    return frozenset(names)


def _check_seams(scout: Scout, kept: frozenset[str], ends: dict[str, Walk]) -> None:
    """Every name in `apart` must keep something apart, or be a product."""
    opened = {
        name for walk in ends.values() if walk.reason == ON_REQUEST for s in walk.steps for name in s.nodes
    }
    for name in sorted(kept):
        node = scout.model.nodes[scout.model.positions[name]]
        if name not in opened and scout.product(scout.model.positions[name]) is None:
            raise InputError(
                f"{describe(node)} is neither a product nor between two that could be fused",
                where="apart",
                expected="a product, or a node between two products of a chain",
            )


def _behind(scout: Scout, product: Product, taken: set[str], origin: Product) -> Walk:
    shape = scout.model.symbols.get(origin.input)
    if shape is not None and origin.transposed:
        shape = shape[::-1]
    return scout.follow(product.cursor(scout.model), taken, shape)


def _apart(product: Product, walk: Walk, kept: frozenset[str]) -> bool:
    """Whether the seam between a product and the one that its walk leads to is kept open."""
    if walk.product is None:
        return False
    touched = {product.node, walk.product.node, *(name for step in walk.steps for name in step.nodes)}
    return bool(touched & kept)


def _longest(scout: Scout, first: Product, kept: frozenset[str], taken: set[str]) -> tuple[list[Link], Walk]:
    """The longest chain that starts with `first`, and the walk behind its last product."""
    links: list[Link] = []
    product = first
    while True:
        walk = _behind(scout, product, taken, first)
        if _apart(product, walk, kept):
            walk = replace(walk, product=None, reason=ON_REQUEST)
        links.append(Link(product, (*product.steps, *walk.steps)))
        if walk.product is None:
            links[-1] = Link(product, (*product.steps, *trimmed(scout.model, walk.steps)))
            return links, walk
        product = walk.product


def _requested(scout: Scout, names: Sequence[str], kept: frozenset[str], taken: set[str]) -> list[Link]:
    """Exactly the chain that was asked for, or an InputError that says why it is none."""
    where = f"fuse '{','.join(names)}'"
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
        walk = _behind(scout, product, taken, products[0])
        if following is None:
            links.append(Link(product, (*product.steps, *trimmed(scout.model, walk.steps))))
            break
        if walk.product is not following:
            raise InputError(_not_next(scout, product, following, walk), where=where)
        if _apart(product, walk, kept):
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


def subchain(model: Model, piece: Piece, start: int, stop: int) -> Piece | None:
    """Products `start` up to `stop` (exclusive) of a chain as a piece of their own.

    None where its output's shape does not follow from its own input's (a Reshape whose sizes came in
    earlier).
    """
    links = list(piece.links[start:stop])
    last = links[-1]
    links[-1] = Link(
        last.product, (*last.product.steps, *trimmed(model, last.steps[len(last.product.steps) :]))
    )
    part = make_piece(model, "chain" if len(links) > 1 else "single", links)
    if part.output_dims is None and model.symbols.get(part.input) is not None:
        return None
    return replace(part, forced=piece.forced and len(links) == len(piece.links))


def _near_misses(scout: Scout, ends: dict[str, Walk]) -> list[Piece]:
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


def _hidden(model: Model) -> list[Piece]:
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
