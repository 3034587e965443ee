"""Where the interpreter finds values: in which table of rows, and which row of it.

Steps that are taken at once define a table of `[steps, threads]` words, and what they take are rows of such
tables: all of one, every second of one, or some of several. That is found out once for a program, and used
whenever it runs.

    %3, %4 = shift_right of %1, %2       table 2, rows 0 and 1, of rows 0 and 1 of table 0
    %5 = xor %4, %3                      table 3, row 0, of row 1 and row 0 of table 2

A table of one word a row holds what is the same in all threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regweave.programs.byte_permutes import Rows, as_slice
from regweave.programs.program import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Column(NamedTuple):
    """`rows` rows, put together from parts: which of them, the table they come from, and its rows."""

    rows: int
    parts: tuple[tuple[Rows, int, Rows], ...]


class Places:
    """The table and row of each value, by its number."""

    def __init__(self) -> None:
        self.of: dict[int, tuple[int, int]] = {}
        self.tables = 0

    def define(self, values: Sequence[Value]) -> int:
        """The number of the table that holds these values, a row for each."""
        known = self.of.get(values[0].number)
        if known is not None:  # a body that runs again
            return known[0]
        table = self.tables
        self.tables += 1
        self.of.update([(value.number, (table, row)) for row, value in enumerate(values)])
        return table

    def column(self, values: Sequence[Value]) -> Column:
        """Where the rows of these values are; one row for all where they are but one value."""
        of = self.of
        places = [of[number] for number, _ in values]
        table, row = places[0]
        if places.count(places[0]) == len(places):
            return Column(1, ((slice(None), table, slice(row, row + 1)),))
        tables, rows = zip(*places, strict=True)
        if tables.count(table) == len(tables):
            return Column(len(places), ((slice(None), table, as_slice(rows)),))
        parts: dict[int, tuple[list[int], list[int]]] = {}
        for at, (table, row) in enumerate(places):
            here, there = parts.setdefault(table, ([], []))
            here.append(at)
            there.append(row)
        return Column(
            len(places),
            tuple((as_slice(here), table, as_slice(there)) for table, (here, there) in parts.items()),
        )


def take(column: Column, tables: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
    """The rows of a column, a view where that can be."""
    parts = [
        (here, words, there) for here, table, there in column.parts if (words := tables[table]) is not None
    ]
    _, words, there = parts[0]
    if len(parts) == 1:
        return words[there]
    width = max(words.shape[1] for _, words, _ in parts)
    result = np.empty((column.rows, width), dtype=words.dtype)
    for here, words, there in parts:
        result[here] = words[there]
    return result


def _held(words: NDArray[Any] | None) -> NDArray[Any]:
    assert words is not None, "a table that nothing has defined"
    return words
