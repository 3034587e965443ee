"""A table of what each lane needs, and the questions that synthesis asks of it.

>>> table = Table((0, 2, 1, 3), 3)
>>> table.affine_terms()        # no constant; a bit moves down by one, another up by one
(0, {1: 2, -1: 1})
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.rearrangement.alike import odd_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray


# as many lanes are looked at whole
_SAMPLES = 16


@dataclass(frozen=True)
class Table:
    """`values[lane]`, None where the lane does not care; only the bits of `mask` count."""

    values: tuple[int | None, ...]
    mask: int

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return len(self.values)

    @cached_property
    def cares(self) -> NDArray[np.bool_]:
        """Which lanes care."""
        return np.array([value is not None for value in self.values])

    @cached_property
    def _all_care(self) -> bool:
        return bool(self.cares.all())

    @cached_property
    def target(self) -> NDArray[np.uint32]:
        """The values, masked, 0 where nobody cares."""
        return np.array([(value or 0) & self.mask for value in self.values], dtype=np.uint32)

    @cached_property
    def varying(self) -> int:
        """The bits in which lanes that care differ."""
        relevant = self.target[self.cares]
        return int(np.bitwise_or.reduce(relevant ^ relevant[:1], initial=np.uint32(0)))

    @property
    def moved(self) -> int:
        """What every lane's number differs by from its value, on a run of low bits; 0 if by nothing alike."""
        if not self.mask or not self.counts_up or not self._all_care:
            return 0
        differ = (np.arange(self.lanes, dtype=np.uint32) & np.uint32(self.mask)) ^ self.target
        return int(differ[0]) if bool((differ == differ[0]).all()) else 0

    @property
    def counts_up(self) -> bool:
        """Whether the mask is a run of low bits, so that sums may be taken modulo it."""
        return self.mask & (self.mask + 1) == 0

    def keys(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """One number per row of values; rows that agree wherever it matters have the same."""
        return self._relevant(rows).astype(np.uint64) @ odd_weights(self.lanes)[self.cares]

    def fits(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows of values are right in every lane that cares, on every bit that counts."""
        return np.asarray(~self._relevant(rows ^ self.target).any(axis=-1))

    def uniform(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The first value that counts of each row, and whether all others equal it."""
        relevant = self._relevant(rows)
        if relevant.shape[-1] == 0:
            return np.zeros(len(rows), dtype=np.uint32), np.ones(len(rows), dtype=bool)
        return relevant[:, 0], (relevant == relevant[:, :1]).all(axis=-1)

    @cached_property
    def kept(self) -> int:
        """The bits that are set in any lane that cares."""
        return int(np.bitwise_or.reduce(self.target[self.cares], initial=np.uint32(0)))

    @cached_property
    def shared(self) -> int:
        """The bits that are set in every lane that cares."""
        return int(np.bitwise_and.reduce(self.target[self.cares], initial=np.uint32(self.mask)))

    @cached_property
    def period(self) -> int:
        """The smallest power of two such that lanes that far apart agree where both care."""
        period = 1 << max(self.lanes - 1, 0).bit_length()
        while period > 1 and self._repeats(period // 2):
            period //= 2
        return period

    def _repeats(self, period: int) -> bool:
        largest, cares = self._folded(self.target, period), self._folded(self.cares, period)
        different = np.where(cares, largest, largest.max(axis=0)) != largest.max(axis=0)
        return not different.any()

    def _folded(self, row: NDArray[Any], period: int) -> NDArray[Any]:
        """`row` with lanes `period` apart under one another, 0 (or False) where there is no lane."""
        rows = -(-self.lanes // period)
        padded = np.zeros(rows * period, dtype=row.dtype)
        padded[: self.lanes] = row
        return padded.reshape(rows, period)

    def samples(self) -> NDArray[np.int64]:
        """A few lanes that care, among them those of single bits: what is wrong often is wrong there."""
        lanes = np.flatnonzero(self.cares)
        if lanes.size <= _SAMPLES:
            return lanes
        places = np.unique([0, 1, 2, 4, 8, 16, 32, 3, 7, 21, 27, 43, 61, lanes.size - 1])
        return lanes[places[places < lanes.size]]

    def at(self, lanes: NDArray[np.int64]) -> Table:
        """The table of these lanes alone."""
        return Table(tuple(self.values[lane] for lane in lanes.tolist()), self.mask)

    def _relevant(self, rows: NDArray[Any]) -> NDArray[Any]:
        relevant = rows & np.uint32(self.mask)
        return relevant if self._all_care else relevant[..., self.cares]

    def images(self) -> tuple[int, dict[int, int]] | None:
        """(constant, {lane bit: result bits that it flips}) if every result bit is a xor of lane bits.

        None otherwise, and where some lanes do not care.
        """
        if self.lanes & (self.lanes - 1) or not self._all_care:
            return None
        constant = int(self.target[0])
        flips = {bit: int(self.target[1 << bit]) ^ constant for bit in range(self.lanes.bit_length() - 1)}
        rebuilt = np.full(1, constant, dtype=np.uint32)
        for flipped in flips.values():
            rebuilt = np.concatenate([rebuilt, rebuilt ^ np.uint32(flipped)])
        if not np.array_equal(rebuilt, self.target):
            return None
        return constant, {bit: flipped for bit, flipped in flips.items() if flipped}

    def affine_terms(self) -> tuple[int, dict[int, int]] | None:
        """(constant, {distance: result bits}) if every result bit is a xor of lane bits; None otherwise.

        A lane bit that moves up by `distance` places contributes to the listed result bits.
        """
        images = self.images()
        if images is None:
            return None
        constant, flips = images
        moves: dict[int, int] = {}
        for bit, flipped in flips.items():
            for place in range(flipped.bit_length()):
                if flipped >> place & 1:
                    moves[place - bit] = moves.get(place - bit, 0) | 1 << place
        return constant, moves

    def fields(self, width: int, words: int) -> dict[int, tuple[int, ...]]:
        """{place: 32-bit words} of packed fields of `width` bits; the period must fit into `words` words.

        A lane's field lies at (lane * width) modulo 32 of word lane * width / 32 modulo `words`, and holds
        bits `place` to `place + width` of its value. Places without any bit are left out; there is always
        one.
        """
        period = 32 // width * words
        places = np.arange(0, max(self.mask.bit_length(), 1), width, dtype=np.uint32)
        answers = self._folded(self.target, period).max(axis=0)
        parts = answers >> places[:, None] & np.uint32((1 << width) - 1)
        at = np.arange(32 // width, dtype=np.uint64) * np.uint64(width)
        packed = (parts.reshape(len(places), words, -1).astype(np.uint64) << at).sum(axis=2)
        found = {
            int(place): tuple(row) for place, row in zip(places, packed.tolist(), strict=True) if any(row)
        }
        return found or {0: (0,) * words}
