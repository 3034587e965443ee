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
    first: dict[tuple[int, bytes], int] = {}
    same = {item: first.setdefault((times[item], columns[item].tobytes()), item) for item in wanted}
    tables, items = [], []
    for item in first.values():
        column = columns[item]
        if (column % bits).any():
            continue
        keys = ((times[item], (column + unit * place).tobytes()) for place in range(together))
        row = [first.get(key, -1) for key in keys]
        if -1 in row:
            return None
        tables.append(column // 8)
        items.append(tuple(row))
    if sum(len(row) for row in items) != len(first):
        return None
    return Accesses(bits, np.asarray(tables), tuple(items), tuple(times[row[0]] for row in items), same)
