"""Rows of a table that are alike, found by one number for each.

    >>> first_alike(np.array([[5, 6], [7, 8], [5, 6]]))
    array([0, 1, 0])

A row's number is a sum of its entries with odd weights without structure, modulo 2^64. Equal rows have equal
numbers; rows that share a number are compared, so that the answer is right even where different rows do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def first_alike(rows: NDArray[Any]) -> NDArray[np.int64]:
    """For each row of whole numbers the place of the first that equals it."""
    whole = rows.flags.c_contiguous and rows.shape[1] * rows.itemsize % 8 == 0
    words = rows.view(np.uint64) if whole else rows.astype(np.uint64)  # several numbers at once
    keys = words @ odd_weights(words.shape[1])
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    found = first[which]
    if (rows == rows[found]).all():
        return found
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(row.tobytes(), at) for at, row in enumerate(rows)], dtype=np.int64)


@lru_cache(maxsize=8)
def odd_weights(count: int) -> NDArray[np.uint64]:
    """Odd numbers without structure, so that different rows have different sums."""
    numbers = np.arange(1, count + 1, dtype=np.uint64)
    for shift, factor in ((30, 0x9E3779B97F4A7C15), (27, 0xBF58476D1CE4E5B9), (31, 0x94D049BB133111EB)):
        numbers = numbers * np.uint64(factor)
        numbers ^= numbers >> np.uint64(shift)
    return numbers | np.uint64(1)
