"""Who touched which cell of a shared memory since the last barrier.

>>> marks = Marks(cells=4)
>>> marks.add(np.array([[0]]), np.array([7]), store=True)       # lane 7 writes cell 0
>>> marks.hit(np.array([[0]]), np.array([8]), store=False)      # lane 8 may not read it
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# names that stand for no lane, for more than one, and for all of a warp
NOBODY, SEVERAL, ALL = -1, -2, -3


class Marks:
    """Who read and who wrote each cell since the last barrier of a scope.

    What is touched is written down when something else comes that it could stand against: between two
    barriers that is mostly never.
    """

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self.waiting: list[tuple[NDArray[np.int64], NDArray[Any], bool]] = []
        self.readers = self.writers = np.empty(0, dtype=np.int64)

    def forget(self) -> None:
        """A barrier."""
        self.waiting.clear()
        self.readers = self.writers = np.empty(0, dtype=np.int64)

    def spread(self, blocks: int, names: int) -> None:
        """What is known of the first block's cells holds for the cells of all `blocks`, `names` in each."""
        size = self.cells // blocks
        where, who = ((np.arange(blocks) * step)[:, None] for step in (size, names))
        self.waiting = [
            ((at[None] + where[:, :, None]).reshape(-1, at.shape[1]), (mine + who).ravel(), store)
            for at, mine, store in self.waiting
        ]
        if self.writers.size:
            for marks in (self.readers, self.writers):
                first = marks[:size]
                marks[:] = np.where(first >= 0, first + who, first).ravel()

    def add(self, at: NDArray[np.int64], names: NDArray[Any], *, store: bool) -> None:
        """Cells `at[access]` are touched by whom `names[access]` says."""
        self.waiting.append((at, names, store))

    def hit(self, at: NDArray[np.int64], names: NDArray[Any], *, store: bool) -> bool:
        """Whether somebody else has written one of these cells, or read it before a `store`."""
        before = self.waiting
        if not self.writers.size and not (before and (store or any(wrote for _, _, wrote in before))):
            return False
        if not self.writers.size:
            self.readers, self.writers = (np.full(self.cells, NOBODY) for _ in range(2))
        while before:
            self._write_down(*before.pop(0))
        mine = names[:, None]
        for marks in (self.writers, self.readers) if store else (self.writers,):
            found = marks[at]
            if bool(((found != NOBODY) & ((found != mine) | (mine == ALL))).any()):
                return True
        return False

    def _write_down(self, at: NDArray[np.int64], names: NDArray[Any], store: bool) -> None:
        mine = np.broadcast_to(names[:, None], at.shape)
        marks = self.writers if store else self.readers
        before = marks[at]
        marks[at] = np.where((before == NOBODY) | (before == mine), mine, SEVERAL)
        marks[at[marks[at] != mine]] = SEVERAL
