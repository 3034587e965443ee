"""From the sums along an image's rows to responses: what happens down the columns, in registers.

A kernel walks down a strip of a vector's width. Whatever is needed of the rows above stays in registers, in
the way that takes the fewest additions:

    binomial     1 2 1 is 1 1 after 1 1: sums of two neighbours, as often as there are rows less one
    running      1 1 1 ...: the last sum, plus the new row, minus the one that leaves
    pending      anything: a sum for each response that is not complete; every row is added to all of them

Responses that have more than 16 bits are made of all their rows at once (`Tall`): sums of rows are kept, and
two rows at a time multiplied by their two factors, added in 32 bits.
"""

from __future__ import annotations

from collections import deque
from itertools import zip_longest
from math import comb
from typing import TYPE_CHECKING, Protocol

from regweave.kernels.photographs.structure import LOWERED, ByteFilter

if TYPE_CHECKING:
    from regweave.assembly.variables import Variable
    from regweave.kernels.photographs.words import WordMath, Words

#: Vectors of responses in 32 bits that are being made.
_AT_WORK = 6

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


class Tall:
    """Responses in 32 bits, from the sums of all rows, which are kept."""

    def __init__(self, math: WordMath, filter: ByteFilter) -> None:
        self.math, self.filter = math, filter
        [self.uses] = filter.uses
        self.rows: deque[dict[int, Words]] = deque(maxlen=filter.height)

    @staticmethod
    def registers(filter: ByteFilter) -> int:
        """Vectors that are held: rows of sums, what is being multiplied and added."""
        return 2 * filter.height * len(filter.rows) + _AT_WORK

    def step(self, row: RowSums) -> list[Variable] | None:
        """One row further down: the four vectors of the response that is complete with it."""
        sums = {}
        for index in range(len(self.filter.rows)):
            sums[index] = row.sum(index)
            if self.filter.lowered(index):
                sums[index] = self.math.both("xor", sums[index], self.math.word(LOWERED))
        self.rows.append(sums)
        return self._response() if len(self.rows) == self.filter.height else None

    def _response(self) -> list[Variable]:
        math = self.math
        taps = [
            (sums[use[0]], use[1]) for sums, use in zip(self.rows, self.uses, strict=True) if use is not None
        ]
        totals: list[Variable] = []
        for first, second in zip_longest(taps[::2], taps[1::2]):
            factors = math.words(first[1], 0 if second is None else second[1])
            products = []
            for half in (0, 1):
                other = math.zero() if second is None else second[0][half]
                for name in ("unpack_low_words", "unpack_high_words"):
                    pairs = math.made(name, first[0][half], other)
                    products.append(math.made("products", pairs, factors))
            totals = (
                [math.made("add_double", *both) for both in zip(totals, products, strict=True)]
                if totals
                else products
            )
        return totals


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
