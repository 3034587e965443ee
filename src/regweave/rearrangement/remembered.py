"""Searches whose results are remembered, by the tables that they are about.

Many catalogued pairs have the same tables: the fragments of e4m3 and e5m2, of signed and unsigned bytes, and
those of one instruction on several machines. What is found for one of them holds for all:

    >>> passages = Remembered[Passage | None](64)
    >>> passages.found((table_key(source), table_key(destination), machine), lambda: search())
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import sha256
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from regweave.layouts import Layout

T = TypeVar("T")


class Remembered(Generic[T]):
    """The last `most` results of a search, as far as their sizes have `room` together."""

    def __init__(self, most: int, size: Callable[[T], int] = lambda result: 0, room: int = 0) -> None:
        self._most, self._size, self._room, self._taken = most, size, room, 0
        self._results = dict[Hashable, tuple[T, int]]()
        self._one_at_a_time = Lock()

    def found(self, key: Hashable, search: Callable[[], T]) -> T:
        """The result for `key`, searched for unless it is remembered."""
        known = self._results.get(key)
        if known is not None:
            return known[0]
        result = search()
        size = self._size(result)
        with self._one_at_a_time:
            self._forget(key)
            self._results[key] = result, size
            self._taken += size
            while len(self._results) > self._most or self._taken > self._room:
                self._forget(next(iter(self._results)))
        return result

    def _forget(self, key: Hashable) -> None:
        known = self._results.pop(key, None)
        if known is not None:
            self._taken -= known[1]


def table_key(layout: Layout) -> Hashable:
    """What layouts of the same table, tile and number of bits have in common."""
    table = layout.table
    told = (table[0], table[:, 0]) if layout.uniform else (table,)  # one row and what moves it tell all
    content = sha256(usedforsecurity=False)
    for part in told:
        content.update(np.ascontiguousarray(part).data)
    return content.digest(), len(told), table.shape, layout.shape, layout.element_type.bits
