"""Sums along an image's row: pixels of one row times the rows of weights of a filter.

Two pixels and two weights are one instruction (`vpmaddubsw`), once their bytes lie side by side. For 1 2 1:

    left   l0 l1 ..     unpacked    l0 r0 l1 r1 ..     times 1 1    l0 + r0, l1 + r1, ..
    right  r0 r1 ..     middle      m0  0 m1  0 ..     shifted      2 m0, 2 m1, ..
"""

from __future__ import annotations

from regweave.assembly.variables import Variable
from regweave.kernels.photographs.structure import ByteFilter, pairs_of
from regweave.kernels.photographs.words import WordMath, Words

#: Rows of weights, and weights in them, whose pixels stay in registers until all of them were multiplied.
_FEW_ROWS, _FEW_WEIGHTS = 2, 5


class ByteRow:
    """One row at one place. Sums are calculated once; of few rows of weights, pixels are loaded once too."""

    def __init__(self, math: WordMath, filter: ByteFilter, base: Variable, at: Variable) -> None:
        self.math, self.filter, self.base, self.at = math, filter, base, at
        self.loaded: dict[int, Variable] = {}
        self.unpacked: dict[tuple[int, ...], Words] = {}
        self.sums: dict[tuple[int, int], Words] = {}
        self.shares = len(filter.rows) <= _FEW_ROWS and filter.width <= _FEW_WEIGHTS

    def sum(self, index: int) -> Words:
        """The sum with the filter's row of weights of that index."""
        return self.times(index, 1)

    def times(self, index: int, factor: int) -> Words:
        """The sum times a whole number above zero."""
        key = index, factor
        if key not in self.sums:
            found = self._sum(index) if factor == 1 else self.math.scaled(self.sum(index), factor)
            self.sums[key] = found
        return self.sums[key]

    def _sum(self, index: int) -> Words:
        total = None
        for taps in pairs_of(self.filter.rows[index]):
            weights = [weight for _, weight in taps]
            words = self._words(tuple(place for place, _ in taps))
            if len(taps) == 1:
                value = self.math.scaled(words, abs(weights[0]))
                total = self.math.more(total, value, positive=weights[0] > 0)
            else:
                content = bytes(weight & 0xFF for weight in weights)
                value = self.math.both("pair", words, self.math.repeated(content))
                total = self.math.more(total, value, positive=True)
        assert total is not None, "a row of weights has some that are not zero"
        return total

    def _words(self, places: tuple[int, ...]) -> Words:
        """The bytes of a place as words, or of two places side by side."""
        if places not in self.unpacked or not self.shares:
            self.unpacked[places] = self.math.widened(*map(self._bytes, places))
        return self.unpacked[places]

    def _bytes(self, place: int) -> Variable:
        if place not in self.loaded or not self.shares:
            b, vector = self.math.b, self.math.b.vector("bytes")
            offset = place * self.filter.channels * self.filter.element - self.filter.left
            b.emit("load", vector, b.at(self.base, offset, index=self.at))
            self.loaded[place] = vector
        return self.loaded[place]


class DeepRow(ByteRow):
    """One row of 16-bit pixels. Weights of one magnitude are multiplied once, with their pixels' sum."""

    def _sum(self, index: int) -> Words:
        groups: dict[int, list[tuple[int, int]]] = {}
        for place, weight in enumerate(self.filter.rows[index]):
            if weight:
                groups.setdefault(abs(weight), []).append((place, weight))
        total = None
        for magnitude, taps in groups.items():
            first, value = taps[0][1], None
            for place, weight in taps:
                value = self.math.more(value, self._words((place,)), positive=weight * first > 0)
            assert value is not None, "a group has a weight"
            total = self.math.more(total, self.math.scaled(value, magnitude), positive=first > 0)
        assert total is not None, "a row of weights has some that are not zero"
        return total
