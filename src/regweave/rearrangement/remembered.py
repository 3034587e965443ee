"""Searches whose results are remembered, by the tables that they are about.

Many catalogued pairs have the same tables: the fragments of e4m3 and e5m2, of signed and unsigned bytes, and
those of one instruction on several machines. What is found for one of them holds for all:

    >>> passages = Remembered[Passage | None](64)
    >>> passages.found((table_key(source), table_key(destination), machine), lambda: search())
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import sha256
from typing import Generic, TypeVar

import numpy as np

from regweave.layouts import Layout

T = TypeVar("T")


class Remembered(Generic[T]):
    """The last `most` results of a search."""

    def __init__(self, most: int) -> None:
        self._most, self._results = most, dict[Hashable, T]()

    def found(self, key: Hashable, search: Callable[[], T]) -> T:
        """The result for `key`, searched for unless it is remembered."""
        try:
            return self._results[key]
        except KeyError:
            result = search()
        for oldest in list(self._results)[: max(len(self._results) + 1 - self._most, 0)]:
            self._results.pop(oldest, None)
        self._results[key] = result
        return result


def table_key(layout: Layout) -> Hashable:
    """What layouts of the same table, tile and number of bits have in common."""
    table = layout.table
    told = (table[0], table[:, 0]) if layout.uniform else (table,)  # one row and what moves it tell all
    content = sha256(usedforsecurity=False)
    for part in told:
        content.update(np.ascontiguousarray(part).data)
    return content.digest(), len(told), table.shape, layout.shape, layout.element_type.bits
