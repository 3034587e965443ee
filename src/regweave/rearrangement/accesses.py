"""One side's accesses to shared memory: which items each one moves, and where in every lane.

    >>> find_accesses(addresses, 128, 32).items[0]      # one access of 16 bytes moves these items
    (0, 1, 8, 9)

Addresses are in bits, `[threads, items]`. What one access moves must lie side by side in every thread, in the
same order; a side where that is not so for a width has no accesses of that width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.matrix_rows import RowSide

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Accesses:
    """`tables[access]` the byte address in every thread, `items[access]` what it moves, from low to high.

    `steps[access]` is the step in which it is made; `same[item]` names the item that stands for an item which
    lies at the same place in every thread. Where the accesses move rows of matrices, `rows` says which.
    """

    bits: int
    tables: NDArray[np.int64]
    items: tuple[tuple[int, ...], ...]
    steps: tuple[int, ...]
    same: dict[int, int]
    rows: RowSide | None = None

    @property
    def bytes(self) -> int:
        """Bytes per lane of one access."""
        return self.bits // 8


def find_accesses(
    addresses: NDArray[np.int64],
    bits: int,
    unit: int,
    wanted: Sequence[int] | None = None,
    steps: NDArray[np.int64] | None = None,
) -> Accesses | None:
    """The accesses of `bits` bits that move all `wanted` items, each `unit` bits; None if that is impossible.

    Items at the same place in every thread are moved once.
    """
    together = bits // unit
    columns = np.ascontiguousarray(addresses.T)
    wanted = range(len(columns)) if wanted is None else wanted
    times = [0] * len(columns) if steps is None else steps.tolist()
    # columns that differ by a constant have one shape
    starts, shapes = columns[:, 0].tolist(), dict[bytes, int]()
    moved = [shapes.setdefault(row.tobytes(), len(shapes)) for row in columns - columns[:, :1]]
    places = list(zip(times, moved, starts, strict=True))
    first: dict[tuple[int, int, int], int] = {}
    same = {item: first.setdefault(places[item], item) for item in wanted}
    aligned = (columns % bits == 0).all(axis=1).tolist()
    items = []
    for (time, shape, start), item in first.items():
        if aligned[item]:
            row = [first.get((time, shape, start + unit * place), -1) for place in range(together)]
            if -1 in row:
                return None
            items.append(tuple(row))
    if sum(len(row) for row in items) != len(first):
        return None
    begins = [row[0] for row in items]
    return Accesses(bits, columns[begins] // 8, tuple(items), tuple(times[item] for item in begins), same)
