"""The first fold, set by set, where every set of items can be read in one way only.

Items that hold one position of the contraction index, in whichever lanes, belong together, and so do those of
one register: what one of them reads decides what all read. For the tf32 seam, lane = 4 g + t, the sets are

    A: a0 (g, t)  and a1 (g+8, t);    a2 and a3        C: c0 (g, 2t)  and c2 (g+8, 2t);    c1 and c3

Two sets are alike if their items have the same rows in every lane, and if the same of their slots share a
column. A set of A can read any set of C that is like it, in one way where no two of its items have the same
rows. So no search is needed: positions in order each take the smallest column among the sets that are like
theirs, which gives the lexicographically smallest permutation.

    >>> smallest_assignment(c_sides, a_sides, size=1)
    (array([0, 2, 1, 3]), array([0, 2, 4, 6, 1, 3, 5, 7]))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regweave.rearrangement.alike import first_alike

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Sides(NamedTuple):
    """Of every slot, `[lanes, items]`: the index that is contracted, and the other one."""

    contracted: NDArray[np.int64]
    other: NDArray[np.int64]


class AmbiguousError(Exception):
    """Some set can be read in several ways: a search must try them."""


class _Set(NamedTuple):
    """Items in the order of their rows, and what they hold along the contraction index, lane after lane."""

    items: NDArray[np.int64]
    held: NDArray[np.int64]


def smallest_assignment(
    source: Sides, destination: Sides, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The source item of each destination item, and the true index at each position; None without a fold.

    Every element has one holder on each side. `size` items stay together, those of a register. Raises
    AmbiguousError where a set can be read in several ways.
    """
    lowest, mates = (_lowest_mates(side.contracted, size) for side in (source, destination))
    sizes = [np.sort(np.bincount(each, minlength=each.size)) for each in (lowest, mates)]
    if not np.array_equal(sizes[0], sizes[1]):
        return None  # sets that are alike have as many items
    rows: dict[bytes, int] = {}
    alike: dict[bytes, list[_Set]] = {}
    for kind, found in _sets(source, size, rows, lowest):
        alike.setdefault(kind, []).append(found)
    held = {kind: np.stack([each.held for each in sets]) for kind, sets in alike.items()}
    items = np.empty(destination.other.shape[1], dtype=np.int64)
    permutation = np.empty(int(destination.contracted.max()) + 1, dtype=np.int64)
    wanted = sorted(_sets(destination, size, rows, mates), key=lambda pair: int(pair[1].held.min()))
    for kind, each in wanted:
        if kind not in alike:
            return None
        columns = held[kind][:, each.held.argmin()]
        taken = int(columns.argmin())
        if columns[taken] > source.contracted.max():
            return None
        items[each.items] = alike[kind][taken].items
        permutation[each.held] = held[kind][taken]
        held[kind][taken] = np.iinfo(held[kind].dtype).max
    return items, permutation


def different_lanes(source: Sides, destination: Sides) -> tuple[Sides, Sides]:
    """Both sides with one lane for all that hold the same along the contraction index, on both sides."""
    alike = np.stack([first_alike(side.contracted) for side in (source, destination)], axis=1)
    lanes = np.unique(first_alike(alike))
    return Sides(source.contracted[lanes], source.other), Sides(
        destination.contracted[lanes], destination.other
    )


def _sets(
    sides: Sides, size: int, rows: dict[bytes, int], lowest: NDArray[np.int64]
) -> Iterator[tuple[bytes, _Set]]:
    """The sets of a side, with what all that are like them have in common; `rows` numbers columns of rows.

    `lowest[item]` is the lowest item of the set.
    """
    count = sides.other.shape[1]
    same = [rows.setdefault(column.tobytes(), len(rows)) for column in np.ascontiguousarray(sides.other.T)]
    ways = np.asarray(same) * size + np.arange(count) % size
    order = np.lexsort((ways, lowest))
    starts = np.flatnonzero(np.diff(lowest[order], prepend=-1))
    again = np.diff(ways[order], prepend=-1) == 0
    again[starts] = False
    if again.any():
        raise AmbiguousError
    sizes = np.diff(starts, append=count)
    first = np.empty(int(sides.contracted.max()) + 1, dtype=np.int64)
    for number in np.unique(sizes):
        items = order[starts[sizes == number, None] + np.arange(number)]
        held = sides.contracted[:, items].swapaxes(0, 1).reshape(len(items), -1)
        # the first of a set's slots that holds what a slot holds: later ones are overwritten
        first[held[:, ::-1]] = np.arange(held.shape[1])[::-1]
        shared = first[held]
        for row, kind in enumerate(zip(ways[items], shared, strict=True)):
            yield b"".join(part.tobytes() for part in kind), _Set(items[row], held[row])


def _lowest_mates(contracted: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """For each item the lowest of its set."""
    count = contracted.shape[1]
    order = np.argsort(contracted, axis=None, kind="stable")
    holders, starts = order % count, np.flatnonzero(np.diff(contracted.ravel()[order], prepend=-1))
    places = np.zeros(int(contracted.max()) + 1, dtype=np.int64)
    places[contracted.ravel()[order[starts]]] = np.arange(len(starts))
    at, registers = places[contracted], np.arange(0, count, size)
    lowest, before = np.arange(count), None
    while before is None or not np.array_equal(lowest, before):
        before = lowest
        lowest = np.repeat(np.minimum.reduceat(lowest, registers), size)[:count]
        lowest = np.minimum.reduceat(lowest[holders], starts)[at].min(axis=0)
    return lowest
