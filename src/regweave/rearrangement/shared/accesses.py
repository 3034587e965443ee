"""One side's accesses to shared memory: which items each one moves, and where in every lane.

    >>> find_accesses(addresses, 128, 32).items[0]      # one access of 16 bytes moves these items
    (0, 1, 8, 9)

Addresses are in bits, `[threads, items]`. What one access moves must lie side by side in every thread, in the
same order; a side where that is not so for a width has no accesses of that width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from regweave.layouts.elements import REGISTER_BITS
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.shared.banks import conflict_free
from regweave.rearrangement.shared.matrix_rows import RowSide

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Accesses:
    """`tables[access]` the byte address in every thread, `items[access]` what it moves, from low to high.

    `steps[access]` is the step in which it is made; `same[item]` names the item that stands for an item which
    lies at the same place in every thread. Where the accesses move rows of matrices, `rows` says which.
    `shapes` numbers the first of all tables that differ by whole words, the same in every thread.
    """

    bits: int
    tables: NDArray[np.int64]
    items: tuple[tuple[int, ...], ...]
    steps: tuple[int, ...]
    same: dict[int, int]
    shapes: tuple[int, ...]
    rows: RowSide | None = None

    @property
    def bytes(self) -> int:
        """Bytes per lane of one access."""
        return self.bits // 8

    def conflict_free(self, machine: WarpMachine, access: str) -> bool:
        """Whether no access, `load` or `store`, has a bank conflict: what differs by whole words is alike."""
        return conflict_free(self.tables[list(self.shapes)], self.bytes, machine, access)


class Columns:
    """The addresses of a side, `[threads, items]` in bits, made ready to look for accesses in.

    Items of different `steps` have nothing to do with one another; `wanted` are those to be moved.
    """

    def __init__(
        self,
        addresses: NDArray[np.int64],
        wanted: Sequence[int] | None = None,
        steps: NDArray[np.int64] | None = None,
    ) -> None:
        self.table = np.ascontiguousarray(addresses.T)
        # the bits that are set in any thread say what the addresses are multiples of
        self.low = np.bitwise_or.reduce(self.table, axis=1)
        self.times = [0] * len(self.table) if steps is None else steps.tolist()
        self.wanted = range(len(self.table)) if wanted is None else wanted

    @cached_property
    def places(self) -> list[tuple[int, int, int]]:
        """Of each item the step, the shape of its column (columns that differ by a constant have one), and
        the address in thread 0."""
        starts, shapes = self.table[:, 0].tolist(), dict[bytes, int]()
        moved = [shapes.setdefault(row.tobytes(), len(shapes)) for row in self.table - self.table[:, :1]]
        return list(zip(self.times, moved, starts, strict=True))

    @cached_property
    def first(self) -> dict[tuple[int, int, int], int]:
        """The first item at each place."""
        found: dict[tuple[int, int, int], int] = {}
        for item in self.wanted:
            found.setdefault(self.places[item], item)
        return found

    @cached_property
    def same(self) -> dict[int, int]:
        """For each item the first at its place."""
        return {item: self.first[self.places[item]] for item in self.wanted}

    def accesses(self, bits: int, unit: int) -> Accesses | None:
        """The accesses of `bits` bits that move all items, each `unit` bits; None if that is impossible.

        Items at the same place in every thread are moved once.
        """
        together = bits // unit
        aligned = (self.low & (bits - 1) == 0).tolist()
        if not any(aligned):
            return None
        begins = [(place, item) for place, item in self.first.items() if aligned[item]]
        if len(begins) * together != len(self.first):
            return None
        rows = [
            tuple([self.first.get((time, shape, start + unit * place), -1) for place in range(together)])
            for (time, shape, start), _ in begins
        ]
        if any(-1 in row for row in rows):
            return None
        tables = self.table[[item for _, item in begins]] // 8
        shapes: dict[tuple[int, int], int] = {}
        for number, ((_, shape, start), _) in enumerate(begins):
            shapes.setdefault((shape, start % REGISTER_BITS), number)
        steps = tuple([time for (time, _, _), _ in begins])
        return Accesses(bits, tables, tuple(rows), steps, self.same, tuple(shapes.values()))


def find_accesses(
    addresses: NDArray[np.int64],
    bits: int,
    unit: int,
    wanted: Sequence[int] | None = None,
    steps: NDArray[np.int64] | None = None,
) -> Accesses | None:
    """The accesses of one width to `addresses`; None if there are none that move all `wanted` items."""
    return Columns(addresses, wanted, steps).accesses(bits, unit)
