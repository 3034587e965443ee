"""Folds: let the contraction index be permuted instead of moving anything.

A product sums over k in any order. If the words that a lane already has are read as the A operand,
position t of the tf32 fragment holds true column 2t and position t + 4 true column 2t + 1, in all lanes
alike. So the product is right if the rows of the next B are permuted the same way, k = 0, 2, 4, 6, 1, 3,
5, 7, and no word leaves its lane:

    >>> find_fold(relate(c, a)).permutation
    (0, 2, 4, 6, 1, 3, 5, 7)

The search assigns a source item to each destination item, the same in all lanes, such that rows agree and
columns agree up to one permutation. Positions are settled in order and small true columns are tried
first, so that the first permutation found is the lexicographically smallest. The identity is the fold
that permutes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regweave.layouts import Layout, compose
from regweave.rearrangement.relation import Relation


@dataclass(frozen=True)
class Fold:
    """`items[d]`: the source item that is read as destination item d, in every lane.

    `permutation[position]` is the true index along `axis` (0 rows, 1 columns) that a position then holds.
    """

    items: tuple[int, ...]
    permutation: tuple[int, ...]
    axis: int

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
    lanes = np.arange(relation.lanes)
    if np.any(relation.peers != lanes[:, None]) or np.any(relation.items != relation.items[0]):
        return None
    axis = contraction_axis(relation.destination)
    axis = 1 if axis is None else axis
    return Fold(tuple(relation.items[0].tolist()), tuple(range(relation.destination.shape[axis])), axis)


def contraction_axis(layout: Layout) -> int | None:
    """Which axis of the tile is the contraction index k of a product; None if neither."""
    return layout.axes.index("k") if "k" in layout.axes else None


def find_fold(relation: Relation) -> Fold | None:
    """The fold with the lexicographically smallest permutation, or None where no permutation of k will do."""
    axis = contraction_axis(relation.destination)
    if axis is None or not relation.source.bijective or not relation.destination.bijective:
        return None
    settled = np.full(relation.destination.shape[axis], -1)
    items: list[int] = [-1] * relation.destination.items
    if not _settle(_maps(relation, axis), _word_size(relation), settled, items):
        return None
    return Fold(tuple(items), tuple(settled.tolist()), axis)


def _word_size(relation: Relation) -> int:
    """Items that must stay together: those of one register, unless they are packed on the way."""
    return relation.destination.element_type.per_register if relation.packing is None else 1


# (destination item, source item) -> {position: true index}
Maps = dict[tuple[int, int], dict[int, int]]


def _maps(relation: Relation, axis: int) -> Maps:
    """For every pair of items whose other coordinate agrees in all lanes, how it would permute k."""
    source, destination = relation.source, relation.destination
    here = np.divmod(source.table, source.shape[1])
    there = np.divmod(destination.table, destination.shape[1])
    size = _word_size(relation)
    maps: Maps = {}
    for d in range(destination.items):
        for s in range(d % size, source.items, size):
            if not np.array_equal(there[1 - axis][:, d], here[1 - axis][:, s]):
                continue
            pairs = set(zip(there[axis][:, d].tolist(), here[axis][:, s].tolist(), strict=True))
            if len(pairs) == len({position for position, _ in pairs}) == len({true for _, true in pairs}):
                maps[d, s] = dict(pairs)
    return maps


def _settle(maps: Maps, size: int, settled: np.ndarray, items: list[int]) -> bool:
    """Settle the first open item of the lowest open position, and so on; undo and try on where stuck."""
    open_items = [d for d, s in enumerate(items) if s < 0]
    if not open_items:
        return True
    choices = [(d, s) for d, s in maps if d in set(open_items) and s not in items]
    lowest = min((min(maps[choice]) for choice in choices), default=None)
    if lowest is None:
        return False
    d = min(d for d, s in choices if lowest in maps[d, s])
    for _, s in sorted((c for c in choices if c[0] == d), key=lambda c: (maps[c].get(lowest, 0), c[1])):
        word = items[d // size * size : (d // size + 1) * size]
        if any(other >= 0 and other // size != s // size for other in word):
            continue
        image = maps[d, s]
        positions, trues = np.array(list(image)), np.array(list(image.values()))
        known = settled[positions]
        elsewhere = np.isin(trues, settled) & (known != trues)
        if np.any((known >= 0) & (known != trues)) or np.any(elsewhere):
            continue
        settled[positions] = trues
        items[d] = s
        if _settle(maps, size, settled, items):
            return True
        settled[positions] = known
        items[d] = -1
    return False
