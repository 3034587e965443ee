"""Results that are stored some blocks later than they are computed, by way of a ring on the stack.

Where rows of image and result start a multiple of 4096 bytes apart, loads and stores that follow each other
may differ in the upper bits of their addresses only. Processors compare the lower twelve first, take such a
load for one that reads what was just stored, and let it wait: a 5 x 5 kernel on 4096 x 4096 then takes 12 ms
instead of 8. With a ring the store is 384 bytes behind:

    block t:  for each row:  result -> ring[t];  ring[t - 6] -> memory

For the first blocks there is nothing to be stored yet; what is in the ring then goes to where the right
results follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.variables import Variable
from regweave.kernels.common.workspace import Workspace

#: Vectors from computing to storing.
_LAG = 6


class LateStores:
    """The stores of a run of blocks of `vectors` vectors, which begins `across` bytes along the rows.

    `rows`: slots that say where each row of results is. Made before the run; `store` for each vector of a
    block, then `step`; after the run `rest`.
    """

    def __init__(self, w: Workspace, rows: Sequence[str], vectors: int, across: Variable) -> None:
        self.w, self.rows, self.vectors, self.across = w, rows, vectors, across
        b, names = w.b, ("ring", "fresh", "stale", "behind")
        self.ring, self.fresh, self.stale, self.behind = (b.general(name) for name in names)
        lag = -(-_LAG // vectors)
        self.slot = w.geometry.vector_bytes * (1 << (len(rows) * vectors - 1).bit_length())
        self.size = self.slot << lag.bit_length()
        b.emit("lea", self.ring, w.kept_memory("ring", self.slot * 8))
        b.emit("zero", self.fresh)
        b.emit("mov", self.stale, self.size - lag * self.slot)
        b.emit("mov", self.behind, across)
        b.emit("mov", w.slot("lag"), lag)

    def store(self, to: Variable, row: int, v: int, result: Variable) -> None:
        """Vector v of the row of that number, whose results are at `to`."""
        b, place = self.w.b, self._place(row, v)
        b.emit("store", b.at(self.ring, place, index=self.fresh), result)
        self._store_old(to, row, v)

    def step(self) -> None:
        """On to the next block, where `across` has moved already."""
        b, w = self.w.b, self.w
        value, waiting = b.general("value"), b.fresh_label("waiting")
        self._next(self.fresh)
        self._next(self.stale)
        b.emit("mov", value, w.slot("lag"))
        b.emit("dec", value)
        b.emit("mov", w.slot("lag"), value)
        b.emit("jump_not_negative", waiting)
        b.emit("add", self.behind, self.vectors * w.geometry.vector_bytes)
        b.label(waiting)

    def rest(self) -> None:
        """What is still in the ring."""
        b, w = self.w.b, self.w
        left, skip, filled, top = b.general("left"), *(b.fresh_label(s) for s in ("skip", "filled", "rest"))
        b.emit("mov", left, w.slot("lag"))  # positive where the run was shorter: so many were never filled
        b.label(skip)
        b.emit("cmp", left, 0)
        b.emit("jump_less_equal", filled)
        self._next(self.stale)
        b.emit("dec", left)
        b.emit("jump", skip)
        b.label(filled)
        b.label(top)
        for row, slot in enumerate(self.rows):
            to = b.general("to")
            b.emit("mov", to, w.slot(slot))
            for v in range(self.vectors):
                self._store_old(to, row, v)
        self._next(self.stale)
        b.emit("add", self.behind, self.vectors * w.geometry.vector_bytes)
        b.emit("cmp", self.behind, self.across)
        b.emit("jump_not_equal", top)

    def _store_old(self, to: Variable, row: int, v: int) -> None:
        b, old = self.w.b, self.w.b.vector("old")
        b.emit("load", old, b.at(self.ring, self._place(row, v), index=self.stale))
        place = b.at(to, v * self.w.geometry.vector_bytes, index=self.behind)
        b.emit("store_stream", place, old)

    def _place(self, row: int, v: int) -> int:
        return (row * self.vectors + v) * self.w.geometry.vector_bytes

    def _next(self, place: Variable) -> None:
        self.w.b.emit("add", place, self.slot)
        self.w.b.emit("and", place, self.size - 1)
