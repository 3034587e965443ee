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
from regweave.rearrangement.alike import first_alike
from regweave.rearrangement.shared.banks import conflict_free
from regweave.rearrangement.shared.matrix_rows import RowSide

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WIDEST = 128  # bits of an access, at most


@dataclass(frozen=True, eq=False)
class Accesses:
    """`tables[access]` the byte address in every thread, `items[access]` what it moves, from low to high.

    `steps[access]` is the step in which it is made; `same[item]` names the item that stands for an item which
    lies at the same place in every thread. Where the accesses move rows of matrices, `rows` says which.
    `shapes` numbers the first of all tables that differ by whole words, the same in every thread; tables with
    one number in `alike` differ by a constant.
    """

    bits: int
    tables: NDArray[np.int64]
    items: tuple[tuple[int, ...], ...]
    steps: tuple[int, ...]
    same: dict[int, int]
    shapes: tuple[int, ...]
    alike: NDArray[np.int64]
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
        count = len(self.table)
        # the bits that are set in any thread say what the addresses are multiples of
        self.low = np.bitwise_or.reduce(self.table, axis=1)
        self.times = np.zeros(count, dtype=np.int64) if steps is None else steps
        self.wanted = np.arange(count) if wanted is None else np.asarray(wanted, dtype=np.int64)
        # columns that differ by a constant have one shape
        self.starts, self.shapes = self.table[:, 0], first_alike(self.table - self.table[:, :1])
        # one number says step, shape and the address in thread 0: addresses count on within it
        room = int(self.starts.max(initial=0)) + _WIDEST
        self.places = (self.times * count + self.shapes) * room + self.starts
        self.different, self.first, self.which = np.unique(
            self.places[self.wanted], return_index=True, return_inverse=True
        )

    @cached_property
    def same(self) -> dict[int, int]:
        """For each item the first at its place."""
        return dict(zip(self.wanted.tolist(), self.wanted[self.first[self.which]].tolist(), strict=True))

    def accesses(self, bits: int, unit: int) -> Accesses | None:
        """The accesses of `bits` bits that move all items, each `unit` bits; None if that is impossible.

        Items at the same place in every thread are moved once.
        """
        together = bits // unit
        begins = self.wanted[np.sort(self.first)]
        begins = begins[self.low[begins] & (bits - 1) == 0]
        if len(begins) * together != len(self.different) or not len(begins):
            return None
        moved = self.places[begins, None] + unit * np.arange(together)
        at = np.minimum(np.searchsorted(self.different, moved), len(self.different) - 1)
        if (self.different[at] != moved).any():
            return None
        rows = self.wanted[self.first[at]].tolist()
        kinds = self.shapes[begins] * REGISTER_BITS + self.starts[begins] % REGISTER_BITS
        shapes = np.sort(np.unique(kinds, return_index=True)[1])
        return Accesses(
            bits, self.table[begins] // 8, tuple(map(tuple, rows)), tuple(self.times[begins].tolist()),
            self.same, tuple(shapes.tolist()), self.shapes[begins],
        )  # fmt: skip


def find_accesses(
    addresses: NDArray[np.int64],
    bits: int,
    unit: int,
    wanted: Sequence[int] | None = None,
    steps: NDArray[np.int64] | None = None,
) -> Accesses | None:
    """The accesses of one width to `addresses`; None if there are none that move all `wanted` items."""
    return Columns(addresses, wanted, steps).accesses(bits, unit)
