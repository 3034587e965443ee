"""Tiles of several copies side by side: a passage for one of them, and the same for the others further on.

A tile of 31 fragments is linear over none of its bits, but it is 31 copies of one map, and what is known of
linear layouts holds for each copy. The copies lie one after the other in memory, so that their addresses
differ by constants, for which instructions have room:

    1984 x 64 elements of wgmma.m64n248 in 128 lanes     31 copies of 64 x 64, 32 items of each lane

On the destination's side a copy is a run of items; on the source's side whatever items it comes from.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from regweave.layouts import Layout
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.shared.accesses import Accesses
from regweave.rearrangement.shared.passages import LinearCopies, Passage

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Copied:
    """The passage of all copies of a tile, looked for when it is asked for."""

    def __init__(
        self, one: Relation, items: NDArray[np.int64], machine: WarpMachine, tuples: tuple[int, int]
    ) -> None:
        self._items, self._one = items, LinearCopies(one, machine, tuples, len(items))

    @property
    def least(self) -> int | None:
        """Instructions that it takes at least; None where the copies are not linear."""
        return None if self._one.least is None else self._one.least * len(self._items)

    @cached_property
    def passage(self) -> Passage | None:
        """The passage; None where there is none."""
        passage, items = self._one.passage, self._items
        runs = np.arange(items.size).reshape(items.shape)
        if passage is None or (passage.stores.rows is not None and not np.array_equal(items, runs)):
            return None
        stores = _repeated(passage.stores, passage.bytes, items)
        loads = _repeated(passage.loads, passage.bytes, runs)
        return replace(passage, bytes=passage.bytes * len(items), stores=stores, loads=loads)


def find_copies(relation: Relation, machine: WarpMachine, tuples: tuple[int, int]) -> Copied | None:
    """A tile's copies; None where there are none."""
    found = _copies(relation)
    return None if found is None else Copied(*found, machine, tuples)


def _copies(relation: Relation) -> tuple[Relation, NDArray[np.int64]] | None:
    """The relation of the first of an odd number of copies, and `[copies, items]` of the source.

    None if there are no such copies.
    """
    source, destination, items = relation.source, relation.destination, relation.destination.items
    size = items & -items
    if size == items or source.items != items or not (source.bijective and destination.bijective):
        return None
    copies = items // size
    taken = relation.items.reshape(relation.lanes, copies, size)
    # an item of the first copy, and what is taken in its stead in every other
    first = np.unique(taken[:, 0])
    if len(first) != size:
        return None
    places = np.searchsorted(first, taken[:, 0])
    held = np.zeros((copies, size), dtype=np.int64)
    held[:, places] = np.moveaxis(taken, 1, 0)
    peers = relation.peers.reshape(taken.shape)
    if (peers != peers[:, :1]).any() or (np.moveaxis(held[:, places], 0, 1) != taken).any():
        return None
    together = destination.element_type.per_register
    if relation.packing is None and size % together:
        return None
    sides = _corner(source, held[0]), _corner(destination, np.arange(size))
    if sides[0] is None or sides[1] is None or sides[0].shape != sides[1].shape:
        return None
    return Relation(sides[0], sides[1], peers[:, 0], places, relation.packing), held


def _corner(layout: Layout, items: NDArray[np.int64]) -> Layout | None:
    """The layout of some items; None unless they hold a rectangle of the tile."""
    row, column = np.divmod(layout.table[:, items], layout.shape[1])
    row, column = row - row.min(), column - column.min()
    shape = int(row.max()) + 1, int(column.max()) + 1
    if shape[0] * shape[1] != row.size:
        return None
    return Layout(layout.name, shape, layout.dtype, row * shape[1] + column, layout.axes)


def _repeated(side: Accesses, size: int, items: NDArray[np.int64]) -> Accesses:
    """The accesses of all copies, `size` bytes apart; `items[copy]` are the items of each."""
    tables = side.tables + size * np.arange(len(items))[:, None, None]
    numbers = items.tolist()
    return replace(
        side,
        tables=tables.reshape(-1, side.tables.shape[1]),
        items=tuple(tuple(held[item] for item in row) for held in numbers for row in side.items),
        steps=side.steps * len(items),
        same={held[item]: held[first] for held in numbers for item, first in side.same.items()},
        alike=np.tile(side.alike, len(items)),
    )
