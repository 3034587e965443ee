"""Picks: instructions that put a vector together from positions of two others, as data.

A pick's table has one entry per piece of the result: pieces of the first vector are counted from 0, those of
the second on from there. `unpcklps` on eight lanes, for example, is the table

    0, 8, 1, 9, 4, 12, 5, 13

Some machines pick anything by one instruction (`vpermt2ps`), which needs an index vector; the fixed ones need
none, and are all that others have. A planner asks which instruction does a table:

    >>> AVX2_PICKS.find((0, 8, 1, 9, 4, 12, 5, -1)).entry
    'unpack_low'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regweave.errors import InputError


@dataclass(frozen=True)
class FixedPick:
    """One instruction: an entry of the machine's table, its immediate if it takes one, and what it picks."""

    entry: str
    immediate: int | None
    table: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Picks:
    """What a machine picks by one instruction, from vectors of `lanes` lanes of 32 bits.

    `fixed` take no index. `any_one` says that any lanes of one vector can be taken, `any_two` that any of two
    can, in pieces of 32 / n bits for the n in `any_two`. Raises InputError for a table of another length or
    with an entry outside the two vectors.
    """

    lanes: int
    fixed: tuple[FixedPick, ...]
    any_one: bool
    any_two: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for pick in self.fixed:
            if len(pick.table) != self.lanes or not all(0 <= at < 2 * self.lanes for at in pick.table):
                raise InputError(
                    f"{pick.entry} picks {pick.table}",
                    expected=f"{self.lanes} numbers of 0 to {2 * self.lanes - 1}",
                )

    @property
    def entries(self) -> frozenset[str]:
        """The table entries of the fixed picks."""
        return frozenset(pick.entry for pick in self.fixed)

    @cached_property
    def _tables(self) -> np.ndarray:
        return np.array([pick.table for pick in self.fixed]).reshape(-1, self.lanes)

    def find(self, table: Sequence[int], *, one: bool = False) -> FixedPick | None:
        """The fixed pick that does `table`, where -1 may be anything; `one`: both vectors are the same."""
        wanted = np.asarray(table)
        if wanted.size != self.lanes or not self.fixed:
            return None
        found = self._tables
        if one:
            wanted, found = np.where(wanted < 0, -1, wanted % self.lanes), found % self.lanes
        fits = ((found == wanted) | (wanted < 0)).all(axis=1)
        return self.fixed[int(fits.argmax())] if fits.any() else None

    def possible(self, table: Sequence[int], *, one: bool = False) -> bool:
        """Whether one instruction does `table`."""
        parts = len(table) // self.lanes
        return (
            parts in self.any_two or (one and parts == 1 and self.any_one) or bool(self.find(table, one=one))
        )
