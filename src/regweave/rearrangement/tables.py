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

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    def target(self) -> NDArray[np.uint32]:
        """The values, masked, 0 where nobody cares."""
        return np.array([(value or 0) & self.mask for value in self.values], dtype=np.uint32)

    @property
    def counts_up(self) -> bool:
        """Whether the mask is a run of low bits, so that sums may be taken modulo it."""
        return self.mask & (self.mask + 1) == 0

    def keys(self, rows: NDArray[Any]) -> list[bytes]:
        """One key per row of values; rows that agree wherever it matters have the same."""
        return [row.tobytes() for row in self._relevant(rows)]

    def fits(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows of values are right in every lane that cares, on every bit that counts."""
        return np.asarray(~self._relevant(rows ^ self.target).any(axis=-1))

    def uniform(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The first value that counts of each row, and whether all others equal it."""
        relevant = self._relevant(rows)
        if relevant.shape[-1] == 0:
            return np.zeros(len(rows), dtype=np.uint32), np.ones(len(rows), dtype=bool)
        return relevant[:, 0], (relevant == relevant[:, :1]).all(axis=-1)

    def kept_bits(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The constant c, and for which rows row & c is right."""
        constant = np.bitwise_or.reduce(self.target[self.cares], initial=np.uint32(0))
        return np.full(len(rows), constant), self.fits(rows & constant)

    def set_bits(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The constant c, and for which rows row | c is right."""
        constant = np.bitwise_and.reduce(self.target[self.cares], initial=np.uint32(self.mask))
        return np.full(len(rows), constant), self.fits(rows | constant)

    def _relevant(self, rows: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray((rows & np.uint32(self.mask))[..., self.cares])

    def affine_terms(self) -> tuple[int, dict[int, int]] | None:
        """(constant, {distance: result bits}) if every result bit is a xor of lane bits; None otherwise.

        A lane bit that moves up by `distance` places contributes to the listed result bits.
        """
        if self.lanes & (self.lanes - 1) or not self.cares.all():
            return None
        constant = int(self.target[0])
        moves: dict[int, int] = {}
        rebuilt = np.full(self.lanes, constant, dtype=np.uint32)
        lanes = np.arange(self.lanes)
        for bit in range(self.lanes.bit_length() - 1):
            image = int(self.target[1 << bit]) ^ constant
            rebuilt ^= np.where(lanes >> bit & 1, np.uint32(image), np.uint32(0))
            for place in range(image.bit_length()):
                if image >> place & 1:
                    moves[place - bit] = moves.get(place - bit, 0) | 1 << place
        return (constant, moves) if np.array_equal(rebuilt, self.target) else None

    def fields(self, width: int) -> dict[int, int] | None:
        """{place: 32 bits} of packed fields of `width` bits, or None if the lanes need more than 32 bits.

        A lane's field lies at (lane * width) modulo 32 and holds bits `place` to `place + width` of its
        value, so lanes that share a field must agree. Places without any bit are left out; there is
        always one.
        """
        packed: dict[int, int] = {}
        taken: dict[tuple[int, int], int] = {}
        for lane, value in enumerate(self.values):
            if value is None:
                continue
            for place in range(0, max(self.mask.bit_length(), 1), width):
                field = (value & self.mask) >> place & ((1 << width) - 1)
                at = lane * width % 32
                if taken.setdefault((place, at), field) != field:
                    return None
                packed[place] = packed.get(place, 0) | field << at
        return {place: bits for place, bits in packed.items() if bits} or {0: 0}
