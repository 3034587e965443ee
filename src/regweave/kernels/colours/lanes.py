"""Interleaved vectors to one vector per channel and back: any lanes of several vectors.

    three channels, 8 lanes     r0 g0 b0 r1 g1 b1 r2 g2 | b2 r3 ...    to    r0 r1 r2 r3 r4 r5 r6 r7

AVX-512 picks from two vectors at once, so K vectors take K - 1 picks for each channel. AVX2 permutes each
vector for itself and blends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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

    def take(self, sources: Sequence[Variable], order: np.ndarray) -> Variable:
        """A vector of the elements `order`, counted through all sources."""
        if len(sources) == 1:
            return sources[0]
        return self._pick(sources, order) if self.wide else self._blend(sources, order)

    def _pick(self, sources: Sequence[Variable], order: np.ndarray) -> Variable:
        """Of the first two vectors, then of what was taken and the next one."""
        taken = sources[0]
        for source, index in zip(sources[1:], _picks(order, len(sources), self.lanes), strict=True):
            former, taken = taken, self.b.vector("moved")
            self.b.emit_template(_PICK, taken, self.held.get(index) or self._index(index), former, source)
        return taken

    def _blend(self, sources: Sequence[Variable], order: np.ndarray) -> Variable:
        """Of every vector for itself, put together lane by lane."""
        b, lanes = self.b, self.lanes
        place = self._index(order % lanes)
        taken = b.vector("moved")
        b.emit_template(_PERMUTE, taken, place, sources[0])
        for i, source in enumerate(sources[1:], 1):
            former, moved, taken = taken, b.vector("moved"), b.vector("both")
            b.emit_template(_PERMUTE, moved, place, source)
            b.emit(
                "blend", taken, former, moved, sum(1 << int(at) for at in np.flatnonzero(order // lanes == i))
            )
        return taken

    def _index(self, order: Sequence[int] | np.ndarray) -> Memory:
        return self.b.data(np.asarray(order, np.uint32).tobytes())


def _picks(order: np.ndarray, count: int, lanes: int) -> list[tuple[int, ...]]:
    """What each pick of `ColourSteps._pick` is told: its lanes, then those of the next."""
    found = [np.where(order < 2 * lanes, order, 0)]
    for i in range(2, count):
        found.append(np.where(order // lanes == i, lanes + order % lanes, np.arange(lanes)))
    return [tuple(int(lane) for lane in index) for index in found]
