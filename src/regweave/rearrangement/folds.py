"""Folds: let the contraction index be permuted instead of moving anything.

A product sums over k in any order. If the words that a lane already has are read as the A operand,
position t of the tf32 fragment holds true column 2t and position t + 4 true column 2t + 1, in all lanes
alike. So the product is right if the rows of the next B are permuted the same way, k = 0, 2, 4, 6, 1, 3,
5, 7, and no word leaves its lane:

    >>> find_fold(relate(c, a)).permutation
    (0, 2, 4, 6, 1, 3, 5, 7)

The search assigns a source item to each destination item, the same in all lanes, such that rows agree and
columns agree up to one permutation. Every element has one holder, so a settled position decides all items
that hold it in any lane, and those settle further positions: one choice decides a connected set of items.
Sets that can take one another's place are alike, so that the first fold is found without undoing a choice.
Positions are settled in order and small true columns are tried first: the first permutation is the
lexicographically smallest.
The identity is the fold that permutes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from regweave.layouts import Layout, compose
from regweave.layouts.numbers import divided, row_blocks
from regweave.rearrangement.fold_sets import AmbiguousError, Sides, different_lanes, smallest_assignment
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.remembered import Remembered
from regweave.rearrangement.spreading import pieces_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST = Remembered["tuple[NDArray[np.int64], NDArray[np.int64]] | None"](96)


@dataclass(frozen=True)
class Fold:
    """`items[d]`: the source item that is read as destination item d, in every lane.

    `permutation[position]` is the index of the producer's result along `axis` (0 rows, 1 columns) that a
    position then holds. If the product before computes its result in another order, `producer_order` is the
    true index at each index of it; None if it comes as it is.
    """

    items: tuple[int, ...]
    permutation: tuple[int, ...]
    axis: int
    producer_order: tuple[int, ...] | None = None

    @property
    def trivial(self) -> bool:
        """Whether it permutes nothing."""
        return self.permutation == tuple(range(len(self.permutation)))

    @property
    def k_order(self) -> tuple[int, ...]:
        """The true k at each position: the order in which the next product takes its other operand."""
        if self.producer_order is None:
            return self.permutation
        return tuple(self.producer_order[index] for index in self.permutation)

    def with_k_order(self, order: Sequence[int]) -> Fold:
        """The same registers with true k in this order, by reordering the product before.

        If row p of the next operand reads what lies at `permutation[p]`, then `order[p]` must be computed
        there. For k in its true order, a left fold, 0, 2, 4, 6, 1, 3, 5, 7 is undone by columns 0, 4, 1, 5,
        2, 6, 3, 7 of the producer's B, and of its bias, mask and residual.
        """
        computed = np.empty(len(self.permutation), dtype=np.int64)
        computed[list(self.permutation)] = order
        return replace(self, producer_order=tuple(computed.tolist()))

    def destination(self, layout: Layout) -> Layout:
        """What the destination's slots hold after the fold: `layout` with its axis permuted."""
        rows, columns = np.indices(layout.shape)
        true = np.asarray(self.permutation)
        if self.axis == 0:
            rows = true[rows]
        else:
            columns = true[columns]
        return compose(layout, (rows * layout.shape[1] + columns).ravel())


def find_identity(relation: Relation) -> Fold | None:
    """The renaming of items that makes the layouts agree; None if there is none for all lanes alike."""
    if relation.remote.any() or np.any(relation.items != relation.items[0]):
        return None
    axis = contraction_axis(relation.destination)
    axis = 1 if axis is None else axis
    return Fold(tuple(relation.items[0].tolist()), tuple(range(relation.destination.shape[axis])), axis)


def contraction_axis(layout: Layout) -> int | None:
    """Which axis of the tile is the contraction index k of a product; None if neither."""
    return layout.axes.index("k") if "k" in layout.axes else None


def find_fold(relation: Relation) -> Fold | None:
    """The fold with the lexicographically smallest permutation, or None where no permutation of k will do."""
    return next(find_folds(relation), None)


def find_folds(relation: Relation) -> Iterator[Fold]:
    """All folds, those of smaller permutations first."""
    axis = contraction_axis(relation.destination)
    if axis is None or not relation.source.bijective or not relation.destination.bijective:
        return
    layouts = relation.source, relation.destination
    first = [_sides(layout, axis, slice(1)) for layout in layouts]
    sizes = [size for size in _register_sizes(relation) if _same_rows(first, size)]
    if not sizes:  # mostly one lane tells
        return
    sides = [_sides(layout, axis, slice(None)) for layout in layouts]
    if not _same_rows(sides, 1):
        return
    different = cache(partial(different_lanes, *sides))

    def assigned(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        return smallest_assignment(*different(), size)

    for size in sizes:
        known = 0
        try:
            first = _FIRST.found((relation.key, axis, size), partial(assigned, size))
        except AmbiguousError:
            pass
        else:
            if first is None:
                continue
            known = 1
            yield Fold(tuple(first[0].tolist()), tuple(first[1].tolist()), axis)
        search = _Search(relation, axis, size)
        yield from islice(_folds(search, search.by_lowest_position()), known, None)


def _sides(layout: Layout, axis: int, lanes: slice) -> Sides:
    """What the slots of some lanes hold along the contraction index and across it."""
    table = layout.table[lanes]
    # what has 16 bits is sorted several times as fast
    short = np.int16 if max(layout.shape) < 1 << 15 else table.dtype
    held = np.empty(table.shape, dtype=short), np.empty(table.shape, dtype=short)
    for some in row_blocks(table):
        held[0][some], held[1][some] = divided(table[some], layout.shape[1])
    return Sides(held[axis], held[1 - axis])


def _same_rows(sides: Sequence[Sides], size: int) -> bool:
    """Whether lanes hold the same rows on both sides, at each place among `size` items."""
    if sides[0].other.shape[1] % size:
        size = 1
    rows = [np.sort(side.other.reshape(len(side.other), -1, size), axis=1) for side in sides]
    return np.array_equal(rows[0], rows[1])


def _register_sizes(relation: Relation) -> tuple[int, ...]:
    """Items that stay together: whole registers first, then bytes or more, which permutes put together."""
    kind = relation.destination.element_type
    if relation.packing is not None:
        return (1,)
    return tuple(dict.fromkeys((kind.per_register, pieces_of(kind.bits))))


def _folds(search: _Search, order: Sequence[int]) -> Iterator[Fold]:
    """The folds that complete a search, with the items open that stand in `order`."""
    for number, d in enumerate(order):
        if search.items[d] >= 0:
            continue
        for s in search.choices(d):
            further = copy(search)
            if further.take(d, s):
                made = _folds(further, order[number + 1 :])
                first = next(made, None)
                if first is None:  # another choice would not help
                    return
                yield first
                yield from made
        return
    yield Fold(tuple(search.items.tolist()), tuple(search.settled.tolist()), search.axis)


class _Search:
    """The assignment so far: `items[d]` a source item, `settled[position]` a true index; -1 where open.

    `size` items stay together: those of one register, or 1 where registers are put together anew.
    """

    def __init__(self, relation: Relation, axis: int, size: int) -> None:
        source, destination = relation.source, relation.destination
        here = divided(source.table, source.shape[1])
        there = divided(destination.table, destination.shape[1])
        self.trues, self.positions = here[axis], there[axis]
        self.source_others, self.others = here[1 - axis], there[1 - axis]
        self.size, self.axis = size, axis
        # the source slot of each element
        self.holders = np.argsort(source.table, axis=None).reshape(source.shape)
        self.items = np.full(destination.items, -1)
        self.settled = np.full(destination.shape[axis], -1)
        # the slots at each position
        ordered = np.argsort(self.positions, axis=None, kind="stable")
        ends = np.cumsum(np.bincount(self.positions.ravel(), minlength=len(self.settled)))
        self.slots_at = np.split(ordered, ends[:-1])

    def by_lowest_position(self) -> list[int]:
        """The destination items by the lowest position that each holds in any lane."""
        return np.argsort(self.positions.min(axis=0), kind="stable").tolist()

    def choices(self, d: int) -> list[int]:
        """The free source items for an open item, by the true index at its lowest position."""
        lane = int(self.positions[:, d].argmin())
        free = np.setdiff1d(np.arange(self.trues.shape[1]), self.items)
        free = free[(self.source_others[:, free] == self.others[:, d][:, None]).all(axis=0)]
        return free[np.argsort(self.trues[lane, free], kind="stable")].tolist()

    def take(self, d: int, s: int) -> bool:
        """Read source item s as destination item d, with all that follows from it; False changes nothing."""
        items, settled = self.items.copy(), self.settled.copy()
        todo = [(d, s)]
        while todo:
            d, s = todo.pop()
            if items[d] == s:
                continue
            positions, trues = self.positions[:, d], self.trues[:, s]
            if items[d] >= 0 or s in items or not np.array_equal(self.others[:, d], self.source_others[:, s]):
                return False
            fresh = np.unique(positions[settled[positions] < 0])
            items[d] = s
            taken = settled[settled >= 0]
            settled[positions] = np.where(settled[positions] < 0, trues, settled[positions])
            new = settled[fresh]
            twice = len({*new.tolist(), *taken.tolist()}) < len(new) + len(taken)
            if twice or np.any(settled[positions] != trues):
                return False
            (mates, part), (source_mates, source_part) = self._register(d), self._register(s)
            if part != source_part or len(mates) != len(source_mates):
                return False
            todo += zip(mates, source_mates, strict=True)
            if fresh.size:
                follow = self._readers(fresh.tolist(), items, settled)
                if follow is None:
                    return False
                todo += follow
        self.items, self.settled = items, settled
        return True

    def _readers(
        self, positions: list[int], items: NDArray[np.int64], settled: NDArray[np.int64]
    ) -> list[tuple[int, int]] | None:
        """The open items that hold one of these settled positions, and what each must then read.

        None if a lane lacks it. One lane decides for each item; `take` looks at the others.
        """
        slots = np.concatenate([self.slots_at[position] for position in positions])
        count = self.positions.shape[1]
        readers, first = np.unique(slots % count, return_index=True)
        unread = items[readers] < 0
        readers, lanes = readers[unread], slots[first[unread]] // count
        at = settled[self.positions[lanes, readers]], self.others[lanes, readers]
        found = self.holders[at if self.axis == 0 else at[::-1]]
        if bool((found // self.trues.shape[1] != lanes).any()):
            return None
        return list(zip(readers.tolist(), (found % self.trues.shape[1]).tolist(), strict=True))

    def _register(self, item: int) -> tuple[range, int]:
        """The items of an item's register, and which of them it is."""
        first = item - item % self.size
        return range(first, min(first + self.size, len(self.items))), item - first
