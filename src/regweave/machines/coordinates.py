"""Fragments written as coordinates: which bit of m, n, k or of the block's number every slot bit stands for.

The accumulators of a 32 x 32 MFMA, for example, are

    lane "n0-4 m2", item "m0-1 m3-4"

Lane bits 0 to 4 are the column's bits, lane bit 5 is bit 2 of the row, the item's bits are bits 0, 1, 3 and 4
of the row. `b0` is a bit of the block's number, `-` a bit that moves nothing: both lanes hold the same.
"""

from __future__ import annotations

import re

from regweave.errors import InputError
from regweave.layouts import Layout
from regweave.machines.gpu import OPERAND_AXES, operand_tile

_TOKEN = re.compile(r"-|([a-z])([0-9]{1,2})(?:-([0-9]{1,2}))?")


def fragment(
    name: str,
    operand: str,
    sizes: tuple[int, int, int],
    dtype: str,
    lane: str,
    item: str,
    blocks: int = 1,
) -> Layout:
    """The layout `name` of operand A, B, C or D of an instruction of `sizes` (m, n, k) and `blocks`.

    Raises InputError if a coordinate is not the operand's, or the bits do not cover the tile.
    """
    axes = OPERAND_AXES[operand]
    # a block further is a whole product further along m, or along n for B
    stacked = axes.index("n" if operand == "B" else "m")
    extent = sizes["mnk".index(axes[stacked])]
    pairs = {}
    for part, text in (("lane", lane), ("item", item)):
        pairs[part] = []
        for letter, bit in _bits(text, name):
            if letter == "-":
                axis, step = 0, 0
            elif letter == "b":
                axis, step = stacked, extent << bit
            elif letter in axes:
                axis, step = axes.index(letter), 1 << bit
            else:
                raise InputError(
                    f"{part} bit {letter}{bit}", where=f"layout {name}", expected=f"bits of {axes}"
                )
            pairs[part].append((step, 0) if axis == 0 else (0, step))
    shape = operand_tile(operand, sizes, blocks)
    return Layout.linear(name, shape, dtype, lane=pairs["lane"], item=pairs["item"], axes=axes)


def span(letter: str, low: int, high: int) -> str:
    """The text of bits `low` to `high` - 1 of a coordinate; empty if there are none."""
    return f"{letter}{low}-{high - 1}" if high > low else ""


def _bits(text: str, name: str) -> list[tuple[str, int]]:
    """`n0-2 m3` as (n, 0), (n, 1), (n, 2), (m, 3)."""
    bits = []
    for token in text.split():
        match = _TOKEN.fullmatch(token)
        if match is None or int(match[3] or match[2] or 0) < int(match[2] or 0):
            raise InputError(
                f"{token!r} is no coordinate", where=f"layout {name}", expected="like m2 or k0-3"
            )
        if token == "-":
            bits.append((token, 0))
        else:
            first = int(match[2])
            bits += [(match[1], bit) for bit in range(first, int(match[3] or first) + 1)]
    return bits
