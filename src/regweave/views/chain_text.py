"""A chain's layouts as text, as a document and as what a notebook shows.

mma.m16n8k16.f16: 16x16 f16 x 16x8 f16 -> 16x8 f32
  | identity: the layouts agree
mma.m16n8k16.f16: ...
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from regweave.errors import UnsupportedError

if TYPE_CHECKING:
    from regweave.layouts import Layout
    from regweave.rearrangement.chains import ChainLayouts, ChainProduct, ChainSeam


def chain_text(chain: ChainLayouts) -> str:
    """Products and seams, one after the other."""
    lines = [f"{len(chain.products)} products on {chain.machine.name}, {chain.machine.title}", ""]
    for number, product in enumerate(chain.products):
        lines.append(_product_words(product))
        if number < len(chain.seams):
            lines.append(_seam_words(chain.seams[number]))
    return "\n".join(lines)


def chain_html(chain: ChainLayouts) -> str:
    """Products as text, and every seam's plan drawn between them."""
    parts = [f"<p>{len(chain.products)} products on {chain.machine.name}, {escape(chain.machine.title)}</p>"]
    for number, product in enumerate(chain.products):
        parts.append(f"<pre>{escape(_product_words(product))}</pre>")
        if number < len(chain.seams):
            seam = chain.seams[number]
            parts.append(f"<pre>{escape(_seam_words(seam))}</pre>")
            try:
                parts.append(f'<div style="overflow-x:auto">{seam.plan.to_svg()}</div>')
            except UnsupportedError as error:
                parts.append(f"<p>{escape(error.what)}</p>")
    return "\n".join(parts)


def chain_document(chain: ChainLayouts) -> dict[str, Any]:
    """The chain as a JSON-ready mapping."""
    return {
        "machine": chain.machine.name,
        "products": [
            {
                "instruction": product.instruction.name,
                "transposed": product.transposed,
                "previous": product.previous.name,
                "weights": None if product.weights is None else product.weights.name,
                "result": product.result.name,
            }
            for product in chain.products
        ],
        "seams": [
            {
                "source": seam.plan.source.name,
                "destination": seam.plan.destination.name,
                "strategy": seam.strategy,
                "reason": seam.reason,
                "tile": list(seam.plan.destination.shape),
                "instructions": seam.plan.cost.instructions,
                "exchanges": seam.plan.cost.exchanges,
                "fold": None if seam.plan.fold is None else list(seam.plan.fold),
            }
            for seam in chain.seams
        ],
    }


def _product_words(product: ChainProduct) -> str:
    weights = "shared memory" if product.weights is None else _operand(product.weights)
    factors = [_operand(product.previous), weights]
    if product.transposed:
        factors.reverse()
    words = " x ".join(factors)
    transposed = ", transposed: weights first" if product.transposed else ""
    return f"{product.instruction.name}: {words} -> {_operand(product.result)}{transposed}"


def _seam_words(seam: ChainSeam) -> str:
    rows, columns = seam.plan.destination.shape
    ends = f"{seam.plan.source.name} -> {seam.plan.destination.name}"
    per = f" per {rows} x {columns}" if seam.plan.cost.instructions else ""
    return f"  | {seam.strategy}: {seam.reason}\n  | {ends}: {seam.plan.cost}{per}"


def _operand(layout: Layout) -> str:
    rows, columns = layout.shape
    return f"{rows}x{columns} {layout.dtype}"
