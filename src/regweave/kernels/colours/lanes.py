"""Interleaved vectors to one vector per channel and back: any lanes of several vectors.

    three channels, 8 lanes     r0 g0 b0 r1 g1 b1 r2 g2 | b2 r3 ...    to    r0 r1 r2 r3 r4 r5 r6 r7

AVX-512 picks from two vectors at once, so K vectors take K - 1 picks for each channel. AVX2 permutes vectors
and blends them, and permutes as few as it can:

    lanes all differ      r0 of lane 0, r1 of lane 3, r2 of lane 6, of the next vector lanes 1, 4, 7, of the
                          third 2, 5: blended first, then permuted once
    the way back          each lane of a channel's vector is wanted in one place: permuted once for all blends
    anything else         each vector permuted for each result
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import VectorMachine

#: Index vectors that are held in registers.
MOST_HELD = 14
# any lanes of two vectors; lanes of one
_PICK = Pattern("d:v index:v|m a:v b:v", ("vmovaps %=0, %1", "vpermi2ps %+0, %2, %3"))
_PERMUTE = Pattern("d:v index:m a:v", ("vmovaps %=0, %1", "vpermps %+0, %+0, %2"))


def apart(count: int, lanes: int) -> list[np.ndarray]:
    """Where each channel's elements are in interleaved vectors."""
    return [np.arange(lanes) * count + k for k in range(count)]


def together(count: int, lanes: int) -> list[np.ndarray]:
    """Where the elements of each interleaved vector are in vectors of one channel."""
    elements = np.arange(count * lanes).reshape(count, lanes)
    return list(elements % count * lanes + elements // count)


class Lanes:
    """What moves lanes, emitted into a Builder."""

    def __init__(self, b: Builder, machine: VectorMachine) -> None:
        self.b, self.lanes, self.wide = b, machine.lanes, machine.name == "avx512"
        self.held: dict[tuple[int, ...], Variable] = {}

    def hold(self, orders: Iterable[Sequence[np.ndarray]]) -> None:
        """What picks of these orders are told, in registers as far as these go: loading it takes longer than
        the pick."""
        told = dict.fromkeys(
            index for some in orders for order in some for index in _picks(order, len(some), self.lanes)
        )
        for index in list(told)[:MOST_HELD]:
            self.held[index] = self.b.vector("told")
            self.b.emit("load", self.held[index], self._index(index))

    def each(self, sources: Sequence[Variable], orders: Sequence[np.ndarray]) -> Iterator[Variable]:
        """Vectors of the elements of each order, counted through all sources, one after the other."""
        if len(sources) == 1:
            yield sources[0]
            return
        places = None if self.wide else _places(orders, len(sources), self.lanes)
        if places is not None:
            sources = [self._permuted(source, place) for source, place in zip(sources, places, strict=True)]
        for order in orders:
            if self.wide:
                yield self._pick(sources, order)
            elif places is not None:
                yield self._blended(sources, order)
            elif len(set(order % self.lanes)) == self.lanes:
                yield self._blended_first(sources, order)
            else:
                yield self._blend(sources, order)

    def _pick(self, sources: Sequence[Variable], order: np.ndarray) -> Variable:
        """Of the first two vectors, then of what was taken and the next one."""
        taken = sources[0]
        for source, index in zip(sources[1:], _picks(order, len(sources), self.lanes), strict=True):
            former, taken = taken, self.b.vector("moved")
            self.b.emit_template(_PICK, taken, self.held.get(index) or self._index(index), former, source)
        return taken

    def _blend(self, sources: Sequence[Variable], order: np.ndarray) -> Variable:
        """Of every vector for itself, put together lane by lane."""
        place = order % self.lanes
        return self._blended([self._permuted(source, place) for source in sources], order)

    def _blended_first(self, sources: Sequence[Variable], order: np.ndarray) -> Variable:
        """Blended where the lanes lie, then brought to their places."""
        lanes = self.lanes
        lying = np.zeros(lanes, np.int64)
        lying[order % lanes] = order // lanes * lanes
        return self._permuted(self._blended(sources, lying), order % lanes)

    def _permuted(self, source: Variable, place: np.ndarray) -> Variable:
        moved = self.b.vector("moved")
        self.b.emit_template(_PERMUTE, moved, self._index(place), source)
        return moved

    def _blended(self, sources: Sequence[Variable], order: np.ndarray) -> Variable:
        """Each lane of the source that has its element."""
        taken = sources[0]
        for i, source in enumerate(sources[1:], 1):
            wanted = sum(1 << int(at) for at in np.flatnonzero(order // self.lanes == i))
            former, taken = taken, self.b.vector("both")
            self.b.emit("blend", taken, former, source, wanted)
        return taken

    def _index(self, order: Sequence[int] | np.ndarray) -> Memory:
        return self.b.data(np.asarray(order, np.uint32).tobytes())


def _places(orders: Sequence[np.ndarray], count: int, lanes: int) -> list[np.ndarray] | None:
    """For each source, which of its elements goes to each lane, if every lane is wanted of it once in all
    orders; else None."""
    found = np.full((count, lanes), -1)
    for order in orders:
        for lane, element in enumerate(order):
            source, at = divmod(int(element), lanes)
            if found[source, lane] not in (-1, at):
                return None
            found[source, lane] = at
    return list(np.maximum(found, 0))


def _picks(order: np.ndarray, count: int, lanes: int) -> list[tuple[int, ...]]:
    """What each pick of `ColourSteps._pick` is told: its lanes, then those of the next."""
    found = [np.where(order < 2 * lanes, order, 0)]
    for i in range(2, count):
        found.append(np.where(order // lanes == i, lanes + order % lanes, np.arange(lanes)))
    return [tuple(int(lane) for lane in index) for index in found]
