"""From the sums along an image's rows to responses: what happens down the columns, in registers.

A kernel walks down a strip of a vector's width. Whatever is needed of the rows above stays in registers, in
the way that takes the fewest additions:

    binomial     1 2 1 is 1 1 after 1 1: sums of two neighbours, as often as there are rows less one
    running      1 1 1 ...: the last sum, plus the new row, minus the one that leaves
    pending      anything: a sum for each response that is not complete; every row is added to all of them
"""

from __future__ import annotations

from collections import deque
from math import comb
from typing import TYPE_CHECKING, Protocol

from regweave.kernels.photographs.structure import ByteFilter

if TYPE_CHECKING:
    from regweave.kernels.photographs.words import WordMath, Words

Uses = tuple[tuple[int, int] | None, ...]


class RowSums(Protocol):
    """What is known of an image's row: its sums."""

    def sum(self, index: int) -> Words:
        """The sum with the filter's row of weights of that index."""
        ...

    def times(self, index: int, factor: int) -> Words:
        """The sum times a whole number above zero."""
        ...


class Column(Protocol):
    """One response."""

    def step(self, row: RowSums, *, begins: bool) -> Words | None:
        """One row further down: the response that is complete with it. `begins`: one that starts here will be
        complete some time."""
        ...


class Binomial:
    """Sums of two rows, of two of these, and so on."""

    def __init__(self, math: WordMath, uses: Uses) -> None:
        self.math = math
        self.index = uses[0][0] if uses[0] is not None else 0
        self.before: list[Words | None] = [None] * (len(uses) - 1)

    @staticmethod
    def takes(uses: Uses) -> bool:
        """Whether these are the numbers of Pascal's triangle."""
        return _same(uses, tuple(comb(len(uses) - 1, n) for n in range(len(uses))))

    @staticmethod
    def registers(height: int) -> int:
        """Vectors that are held."""
        return 2 * (height - 1)

    def step(self, row: RowSums, *, begins: bool) -> Words | None:
        value = row.sum(self.index)
        for place, before in enumerate(self.before):
            self.before[place] = value
            if before is None:
                return None
            value = self.math.both("add", value, before)
        return value


class Running:
    """The sum of the last rows."""

    def __init__(self, math: WordMath, uses: Uses) -> None:
        self.math, self.height = math, len(uses)
        self.index = uses[0][0] if uses[0] is not None else 0
        self.kept: deque[Words] = deque()
        self.total: Words | None = None

    @staticmethod
    def takes(uses: Uses) -> bool:
        """Whether every row counts once, and they are enough to pay."""
        return len(uses) > 3 and _same(uses, (1,) * len(uses))

    @staticmethod
    def registers(height: int) -> int:
        """Vectors that are held."""
        return 2 * height

    def step(self, row: RowSums, *, begins: bool) -> Words | None:
        value = row.sum(self.index)
        if len(self.kept) == self.height:
            assert self.total is not None
            self.total = self.math.both("sub", self.total, self.kept.popleft())
        self.total = value if self.total is None else self.math.both("add", self.total, value)
        self.kept.append(value)
        return self.total if len(self.kept) == self.height else None


class Pending:
    """Sums of the rows so far, one for each response that has begun."""

    def __init__(self, math: WordMath, uses: Uses) -> None:
        self.math, self.uses = math, uses
        self.sums: deque[Words | None] = deque()
        self.seen = 0

    @staticmethod
    def takes(uses: Uses) -> bool:
        """Every column."""
        return True

    @staticmethod
    def registers(height: int) -> int:
        """Vectors that are held."""
        return 2 * (height - 1)

    def step(self, row: RowSums, *, begins: bool) -> Words | None:
        self.seen += 1
        if begins:
            self.sums.append(None)
        first = min(self.seen, len(self.uses))
        for place in range(len(self.sums)):
            use = self.uses[first - 1 - place]
            if use is not None:
                self.sums[place] = self._added(self.sums[place], row, use)
        return self.sums.popleft() if self.seen >= len(self.uses) else None

    def _added(self, total: Words | None, row: RowSums, use: tuple[int, int]) -> Words:
        index, factor = use
        value = row.times(index, abs(factor))
        return self.math.more(total, value, positive=factor > 0)


_WAYS = (Binomial, Running, Pending)


def way_of(uses: Uses) -> type[Binomial] | type[Running] | type[Pending]:
    """The way with the fewest additions."""
    return next(way for way in _WAYS if way.takes(uses))


def columns_of(filter: ByteFilter, math: WordMath) -> list[Column]:
    """One for each response."""
    return [way_of(uses)(math, uses) for uses in filter.uses]


def _same(uses: Uses, factors: tuple[int, ...]) -> bool:
    first = uses[0]
    return first is not None and uses == tuple((first[0], factor) for factor in factors)
