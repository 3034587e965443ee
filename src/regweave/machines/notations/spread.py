"""How compilers build a layout: spread registers, lanes and warps over the tile, one power of two at a time.

    >>> Spread().along("register", 1, 2).along("lane", 1, 4).along("lane", 0, 8).along("register", 0, 2)

is the 16 x 8 accumulator: two registers side by side, four lanes beyond them, eight lanes down, and the
registers once more below. Each step continues where the tile ends so far. `fit` repeats or clips the result
to the tile that is wanted: what is too small goes on in further registers, what is too large holds elements
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

Pair = tuple[int, int]


@dataclass(frozen=True)
class Spread:
    """What each bit of register, lane and warp number adds to (row, column); `sizes` is the tile so far."""

    sizes: Pair = (1, 1)
    register: tuple[Pair, ...] = ()
    lane: tuple[Pair, ...] = ()
    warp: tuple[Pair, ...] = ()

    def along(self, kind: str, axis: int, count: int) -> Spread:
        """`count` registers, lanes or warps (a power of two) next to each other along `axis`."""
        added = [self.sizes[axis] << bit for bit in range(count.bit_length() - 1)]
        pairs = tuple((step, 0) if axis == 0 else (0, step) for step in added)
        sizes = tuple(size * count if at == axis else size for at, size in enumerate(self.sizes))
        return replace(self, sizes=sizes, **{kind: (*getattr(self, kind), *pairs)})

    def still(self, kind: str, count: int) -> Spread:
        """`count` registers, lanes or warps that hold the same elements."""
        return replace(self, **{kind: (*getattr(self, kind), *[(0, 0)] * (count.bit_length() - 1))})

    def over(
        self, kind: str, counts: Sequence[int], order: Sequence[int], fixed: int | None = None
    ) -> Spread:
        """Along both axes in `order`; along the axis `fixed` all hold the same."""
        spread = self
        for axis in order:
            if axis == fixed:
                spread = spread.still(kind, counts[axis])
            else:
                spread = spread.along(kind, axis, counts[axis])
        return spread

    def fit(self, shape: Pair, order: Sequence[int]) -> Spread:
        """The same for a tile of `shape`, growing along the axes in `order`."""
        spread = self
        for axis in order:
            if spread.sizes[axis] < shape[axis]:
                spread = spread.along("register", axis, shape[axis] // spread.sizes[axis])
        clipped = {
            kind: tuple((row % shape[0], column % shape[1]) for row, column in getattr(spread, kind))
            for kind in ("register", "lane", "warp")
        }
        return replace(spread, sizes=shape, **clipped)
