"""Networks of permutes and selects of two words, which put words together from the pieces of others.

>>> network.nodes[0].picks          # byte 0 and 1 of the low word, byte 0 and 1 of the high one
array([[0, 1, 4, 5]])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# a piece that does not matter
ANY = -1


@dataclass(frozen=True, eq=False)
class Node:
    """A word made of the words `low` and `high`, which number inputs or earlier nodes.

    `picks[lane, i]` says which piece of low, counted from 0, or of high, counted on from there, becomes
    piece i; -1 if that does not matter.
    """

    low: int
    high: int
    picks: NDArray[np.int64]

    @cached_property
    def selects(self) -> NDArray[np.bool_] | None:
        """For each lane whether it takes all of `high`, if every lane takes a whole word; else None."""
        size = self.picks.shape[1]
        cares = self.picks >= 0
        of_high = self.picks >= size
        whole = ~cares | (self.picks % size == np.arange(size))
        mixed = (of_high & cares).any(axis=1) & (~of_high & cares).any(axis=1)
        return of_high.any(axis=1) if bool(whole.all()) and not mixed.any() else None

    @cached_property
    def settled(self) -> NDArray[np.int64]:
        """`picks` with those that do not matter chosen as in the lane where they do whose number differs in
        the fewest bits; 0 where they matter in no lane."""
        lanes, size = self.picks.shape
        highest, found = self.picks.max(axis=0), self.picks
        if bool(((found < 0) | (found == highest)).all()):
            return np.broadcast_to(np.maximum(highest, 0), found.shape)
        for others in _by_distance(lanes):
            if bool((found >= 0).all()):
                return found
            # of the lanes that are so far away and care the first
            cares = self.picks[others % lanes] >= 0
            first = np.where(cares & (others < lanes)[:, :, None], others[:, :, None], lanes).min(axis=1)
            there = self.picks[np.minimum(first, lanes - 1), range(size)]
            found = np.where((found < 0) & (first < lanes), there, found)
        return np.maximum(found, 0)


@dataclass(frozen=True, eq=False)
class Network:
    """Inputs 0 to `inputs` - 1, then one number per node; `outputs` name inputs or nodes."""

    inputs: int
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    @cached_property
    def weight(self) -> tuple[int, int]:
        """Nodes, and an estimate of what telling the lanes apart takes, in half instructions.

        A choice of whole words shares its predicate; a table of 2^k rows is put together from k choices, and
        one that differs from an earlier one by a constant follows from it.
        """
        tables: dict[bytes, bytes] = {}
        slots, selects = 0, set[bytes]()
        for node in self.nodes:
            varying = node.picks ^ node.picks[0]
            key = varying.tobytes()
            if not varying.any():
                continue
            if node.selects is not None:
                selects.add(key)
            elif (exact := node.picks.tobytes()) not in tables:
                rows = len(np.unique(varying, axis=0))
                known = any(key == other for other in tables.values())
                slots += 2 if known else 4 * (rows - 1).bit_length() - 2
                tables[exact] = key
        return len(self.nodes), slots + len(selects)


@lru_cache(maxsize=16)
def _by_distance(lanes: int) -> tuple[NDArray[np.int64], ...]:
    """For each lane the numbers that differ from its own in one bit, those that do in two, and so on."""
    numbers = np.arange(1 << max(lanes - 1, 0).bit_length())
    bits = np.bitwise_count(numbers)
    return tuple(
        np.arange(lanes)[:, None] ^ numbers[bits == count] for count in range(1, int(bits.max()) + 1)
    )
