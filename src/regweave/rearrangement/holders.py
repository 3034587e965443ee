"""Who holds what, where elements lie in several slots: which holder each slot takes its element from.

The A operand of WMMA on gfx11 is held twice, by lanes 0 to 15 and 16 to 31. A lane that needs an element
takes its own copy if it has one, and else that of the lane whose number differs in the lowest bits: lanes 0
to 15 then ask the first copy and lanes 16 to 31 the second, so nobody is asked twice as often as others, and
the relation of linear layouts stays linear over bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.layouts import Layout
from regweave.layouts.numbers import divided, row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regweave.rearrangement.parts import Contents

# (lane, word): one holder of a word
Holder = tuple[int, int]


def nearest_holders(source: Layout, destination: Layout) -> tuple[NDArray[Any], NDArray[Any]]:
    """The source lane and item that each destination slot takes its element from, `[lanes, items]` each.

    The smallest lane xor lane wins, then the lowest item.
    """
    if source.bijective:
        # lane * items + item of each element
        slots = np.empty(source.elements, dtype=source.table.dtype)
        for some in row_blocks(source.table):
            first, held = some.start * source.items, source.table[some].astype(np.intp).ravel()
            slots[held] = np.arange(first, first + held.size)
        lanes, items = np.empty_like(destination.table), np.empty_like(destination.table)
        for some in row_blocks(destination.table):
            lanes[some], items[some] = divided(slots.take(destination.table[some]), source.items)
        return lanes, items
    order = np.argsort(source.table, axis=None, kind="stable")
    counts = np.bincount(source.table.ravel(), minlength=source.elements)
    first = np.cumsum(counts) - counts
    takers = np.arange(destination.lanes)[:, None]
    best = order[first[destination.table]]
    for number in range(1, int(counts.max())):
        other = order[first[destination.table] + np.minimum(number, counts[destination.table] - 1)]
        nearer = (other // source.items ^ takers) < (best // source.items ^ takers)
        best = np.where(nearer, other, best)
    return best // source.items, best % source.items


def word_holders(source: Layout, contents: Contents, lanes: int) -> dict[Holder, tuple[Holder, ...]]:
    """For every word of every lane of a warp all (lane, word) that hold the same elements, itself included.

    `contents` says which source items make each word.
    """
    same: dict[tuple[int, ...], list[Holder]] = {}
    for lane, row in enumerate(source.table[:lanes].tolist()):
        for word, items in enumerate(contents):
            same.setdefault(tuple(row[item] for item in items), []).append((lane, word))
    return {holder: tuple(holders) for holders in same.values() for holder in holders}
