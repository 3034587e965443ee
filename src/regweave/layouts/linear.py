"""Layouts that are linear over bits: every bit of the slot's number flips fixed bits of the element.

The C fragment of `mma.m16n8k8` puts (8, 0) under item bit 1 and (0, 2) under lane bit 0, so the
element of lane 1, item 2 is (8, 0) xor (0, 2) = (8, 2). A basis of 7 such pairs replaces a table of
128 entries, and the relation of two bases is a 7 x 7 bit matrix, on which schedules can be searched
for by algebra. Xor, not plus, because swizzled layouts overlap their bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Basis:
    """What each bit of the lane and of the item number flips in (row, column), lowest bit first."""

    lane: tuple[tuple[int, int], ...]
    item: tuple[tuple[int, int], ...]


def table_of(basis: Basis, columns: int) -> NDArray[np.int64]:
    """`[lanes, items]` element numbers (row * columns + column) of a basis."""
    lane = _span(basis.lane)
    item = _span(basis.item)
    rows_columns = lane[:, None, :] ^ item[None, :, :]
    return rows_columns[..., 0] * columns + rows_columns[..., 1]


def find_basis(table: NDArray[np.int64], shape: tuple[int, int]) -> Basis | None:
    """The basis whose table this is, or None: a size is no power of two, or some slot disagrees."""
    lanes, items = table.shape
    if any(size & (size - 1) for size in (lanes, items)) or table[0, 0] != 0:
        return None

    def pair(number: int) -> tuple[int, int]:
        row, column = divmod(int(number), shape[1])
        return row, column

    basis = Basis(
        tuple(pair(table[1 << bit, 0]) for bit in range(lanes.bit_length() - 1)),
        tuple(pair(table[0, 1 << bit]) for bit in range(items.bit_length() - 1)),
    )
    return basis if np.array_equal(table_of(basis, shape[1]), table) else None


def _span(vectors: tuple[tuple[int, int], ...]) -> NDArray[np.int64]:
    span = np.zeros((1, 2), dtype=np.int64)
    for vector in vectors:
        span = np.concatenate([span, span ^ np.asarray(vector)])
    return span
