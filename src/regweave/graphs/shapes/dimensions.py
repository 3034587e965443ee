"""Dimensions that may be numbers or symbols, and what can be proved about products of them.

A model's shapes are only partly known before it runs: `["batch", 96, 12, "width"]`. Whether a residual has
the shape of what it is added to, or a Reshape keeps the rows, must hold for *every* size that may come, so
it is decided on symbols: two dimensions are equal when they are the same number or the same symbol, and a
product is a number times a multiset of symbols.

    product((2, "batch", 3)) == Product(6, ("batch",))

A symbol written `a*b` (what a Reshape makes of two) counts as its factors, so folding and unfolding meet.
Unknown dimensions get a symbol of their own, which equals nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Dim = int | str
Shape = tuple[Dim, ...]


class Product(NamedTuple):
    """`factor` times every symbol of `symbols` (sorted, repeats allowed)."""

    factor: int
    symbols: tuple[str, ...]


def product(dims: Iterable[Dim]) -> Product:
    """The product of dimensions in normal form; 1 for none."""
    factor = 1
    symbols: list[str] = []
    for dim in dims:
        if isinstance(dim, int):
            factor *= dim
            continue
        for part in dim.split("*"):
            if part.isdigit():
                factor *= int(part)
            else:
                symbols.append(part)
    return Product(factor, tuple(sorted(symbols)))


def quotient(whole: Product, part: Product) -> Dim | None:
    """`whole / part` as one dimension, or None where it cannot be known to be whole."""
    rest = list(whole.symbols)
    for symbol in part.symbols:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    if part.factor == 0 or whole.factor % part.factor:
        return None
    return dimension(Product(whole.factor // part.factor, tuple(rest)))


def dimension(total: Product) -> Dim:
    """A product as one dimension: a number, or a symbol written `3*a*b`."""
    if not total.symbols or total.factor == 0:
        return total.factor
    return "*".join((*([str(total.factor)] if total.factor != 1 else []), *total.symbols))


def number(dim: Dim | None) -> int | None:
    """The dimension if it is a number."""
    return dim if isinstance(dim, int) else None


def show(shape: Sequence[Dim | None] | None) -> str:
    """A shape for a person: `[batch, 96, 12, ?]`; symbols made up for unknown dimensions print as `?`."""
    if shape is None:
        return "[unknown rank]"
    return "[" + ", ".join(_show_dim(dim) for dim in shape) + "]"


def _show_dim(dim: Dim | None) -> str:
    if dim is None or (isinstance(dim, str) and ("?" in dim or "(" in dim)):
        return "?"
    return str(dim)
