"""Sums of an image's rows that are kept in memory, near, where registers are too few for them.

    here - slot    the row before       its sums, for each row of weights two vectors
    here           this row             and, where responses have 32 bits, its words between those of the
    here + slot    the row after        row before: two rows are then multiplied by one instruction

A kernel goes down the rows in a loop, and everything lies at a fixed distance from `here`.

    KeptBinomial     sums of two neighbours, as often as there are rows less one
    KeptRunning      all rows once: a total, to which a row comes and which a row leaves
    KeptGathered     anything: all rows times their factors, those of one magnitude multiplied once
    WideRunning, WideGathered     the same in 32 bits
"""

from __future__ import annotations

from typing import Protocol

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.photographs.columns import Binomial, RowSums, Running, Uses
from regweave.kernels.photographs.structure import LOWERED, ByteFilter
from regweave.kernels.photographs.words import KeptWords, WordMath, Words

_UNPACKS = ("unpack_low_words", "unpack_high_words")
#: Vectors of a row's sums, and of what lies beside them where two rows are multiplied at once.
_WORDS, _PAIRS = 2, 4


class KeptRows:
    """The memory for `rows` rows, and for as many before them as the kernel has."""

    def __init__(self, math: WordMath, filter: ByteFilter, rows: int, *, pairs: bool) -> None:
        self.math, self.filter, self.pairs = math, filter, pairs
        self.line = math.b.machine.vector_bytes
        self.vectors = _WORDS + (_PAIRS if pairs else 0)
        self.slot = self.vectors * self.line * len(filter.rows)
        self.before = filter.height
        self.memory = math.b.stack(kept_bytes(filter, rows, self.line, pairs=pairs), align=64)
        self.here = math.b.general("here")
        self.newest: list[Words] = []

    def begin(self) -> None:
        """To the first row; those before it are zeros."""
        b = self.math.b
        b.emit("lea", self.here, self.memory)
        for index in range(len(self.filter.rows)):
            nought = b.vector("nought")
            b.emit("zero", nought)
            if self._lowered(index):
                nought = self.math.made("xor", nought, self.math.word(LOWERED))
            for back in range(self.before):
                for half in (0, 1):
                    b.emit("store", self._place(index, -back, half), nought)
        b.emit("add", self.here, self.slot * self.before)

    def keep(self, row: RowSums) -> None:
        """The sums of a row."""
        math, b = self.math, self.math.b
        self.newest = []
        for index in range(len(self.filter.rows)):
            sums = row.sum(index)
            if self._lowered(index):
                sums = math.both("xor", sums, math.word(LOWERED))
            for half in (0, 1):
                b.emit("store", self._place(index, 0, half), sums[half])
                for n, name in enumerate(_UNPACKS if self.pairs else ()):
                    pair = math.made(name, sums[half], self._place(index, 1, half))
                    b.emit("store", self._place(index, 0, _WORDS + 2 * half + n), pair)
            self.newest.append(sums)

    def advance(self) -> None:
        """To the next row."""
        self.math.b.emit("add", self.here, self.slot)

    def words(self, index: int, back: int) -> KeptWords:
        """The sums of the row that lies so many rows above."""
        return self._place(index, back, 0), self._place(index, back, 1)

    def between(self, index: int, back: int) -> list[Memory]:
        """Four vectors: the sums of that row between those of the row above it."""
        return [self._place(index, back, _WORDS + n) for n in range(_PAIRS)]

    def _lowered(self, index: int) -> bool:
        return self.filter.wide and self.filter.lowered(index)

    def _place(self, index: int, back: int, vector: int) -> Memory:
        return self.math.b.at(self.here, (index * self.vectors + vector) * self.line - back * self.slot)


class KeptColumn(Protocol):
    """One response; it lacks `offset` because sums were lowered."""

    offset: int

    def begin(self) -> None:
        """Above the first row."""
        ...

    def take(self, row: RowSums) -> None:
        """One row further down."""
        ...

    def response(self) -> list[Variable]:
        """With the last row taken: two vectors, or four of 32 bits."""
        ...


class KeptBinomial:
    """Sums of two rows, of two of these, and so on."""

    def __init__(self, kept: KeptRows, uses: Uses) -> None:
        self.math, self.offset = kept.math, 0
        math = kept.math
        self.index = _index(uses)
        line = math.b.machine.vector_bytes
        self.levels = [
            (math.b.stack(line, align=64), math.b.stack(line, align=64)) for _ in range(len(uses) - 1)
        ]
        self.last: Words | None = None

    def begin(self) -> None:
        b, nought = self.math.b, self.math.b.vector("nought")
        b.emit("zero", nought)
        for level in self.levels:
            for place in level:
                b.emit("store", place, nought)

    def take(self, row: RowSums) -> None:
        value = row.sum(self.index)
        for level in self.levels:
            found = self.math.both("add", value, level)
            for place, part in zip(level, value, strict=True):
                self.math.b.emit("store", place, part)
            value = found
        self.last = value

    def response(self) -> list[Variable]:
        assert self.last is not None, "a row was taken"
        return list(self.last)


class KeptRunning:
    """The sum of the last rows."""

    def __init__(self, kept: KeptRows, uses: Uses) -> None:
        self.kept, self.index, self.height, self.offset = kept, _index(uses), len(uses), 0
        self.total = kept.math.b.vectors("total", 2)

    def begin(self) -> None:
        for vector in self.total:
            self.kept.math.b.emit("zero", vector)

    def take(self, row: RowSums) -> None:
        math = self.kept.math
        new, old = row.sum(self.index), self.kept.words(self.index, self.height)
        for n, vector in enumerate(self.total):
            math.change("add", vector, new[n])
            math.change("sub", vector, old[n])

    def response(self) -> list[Variable]:
        return list(self.total)


class KeptGathered:
    """All rows times their factors."""

    def __init__(self, kept: KeptRows, uses: Uses) -> None:
        self.kept, self.offset = kept, 0
        self.groups: dict[int, list[tuple[int, int, bool]]] = {}
        for back, use in enumerate(reversed(uses)):
            if use is not None:
                index, factor = use
                self.groups.setdefault(abs(factor), []).append((back, index, factor > 0))

    def begin(self) -> None:
        """Nothing is held."""

    def take(self, row: RowSums) -> None:
        """The rows are kept."""

    def response(self) -> list[Variable]:
        math, total = self.kept.math, None
        for magnitude, taps in self.groups.items():
            value: Words | None = None
            first = taps[0][2]
            for back, index, positive in taps:
                words = self.kept.words(index, back)
                if value is None:
                    value = math.loaded(words)
                else:
                    value = math.both("add" if positive == first else "sub", value, words)
            assert value is not None, "a group has a row"
            total = math.more(total, math.scaled(value, magnitude), positive=first)
        assert total is not None, "a response has a row"
        return list(total)


class WideRunning:
    """The sum of the last rows in 32 bits: what comes less what leaves, by products with 1 and -1."""

    def __init__(self, kept: KeptRows, uses: Uses) -> None:
        self.kept, self.index, self.height, self.offset = kept, _index(uses), len(uses), 0
        self.total = kept.math.b.vectors("total", 4)

    def begin(self) -> None:
        for vector in self.total:
            self.kept.math.b.emit("zero", vector)

    def take(self, row: RowSums) -> None:
        math = self.kept.math
        new, old = self.kept.newest[self.index], self.kept.words(self.index, self.height)
        signs = math.words(1, -1)
        for n, vector in enumerate(self.total):
            both = math.made(_UNPACKS[n % 2], new[n // 2], old[n // 2])
            math.change("add_double", vector, math.made("products", both, signs))

    def response(self) -> list[Variable]:
        return list(self.total)


class WideGathered:
    """All rows times their factors in 32 bits, two neighbours at once."""

    def __init__(self, kept: KeptRows, uses: Uses) -> None:
        self.kept, self.offset = kept, kept.filter.offset
        self.pairs: list[tuple[int, int, int, int]] = []
        for index in range(len(kept.filter.rows)):
            factors = [use[1] if use is not None and use[0] == index else 0 for use in reversed(uses)]
            factors += [0] * (len(factors) % 2)
            for back in range(0, len(factors), 2):
                if any(factors[back : back + 2]):
                    self.pairs.append((index, back, factors[back], factors[back + 1]))

    def begin(self) -> None:
        """Nothing is held."""

    def take(self, row: RowSums) -> None:
        """The rows are kept."""

    def response(self) -> list[Variable]:
        math = self.kept.math
        totals: list[Variable] = []
        for index, back, factor, above in self.pairs:
            factors, places = math.words(factor, above), self.kept.between(index, back)
            for n, place in enumerate(places):
                found = math.product(place, factors)
                if len(totals) < len(places):
                    totals.append(found)
                else:
                    math.change("add_double", totals[n], found)
        return totals


def kept_bytes(filter: ByteFilter, rows: int, line: int, *, pairs: bool) -> int:
    """Bytes for the sums of so many rows and of those before them."""
    return (rows + filter.height) * (_WORDS + (_PAIRS if pairs else 0)) * line * len(filter.rows)


def needs_pairs(filter: ByteFilter) -> bool:
    """Whether rows are multiplied two at a time."""
    return filter.wide and not Running.takes(filter.uses[0])


def kept_columns(kept: KeptRows, filter: ByteFilter) -> list[KeptColumn]:
    """One for each response, in the way with the fewest additions."""
    if filter.wide:
        [uses] = filter.uses
        return [WideRunning(kept, uses) if Running.takes(uses) else WideGathered(kept, uses)]
    return [
        KeptBinomial(kept, uses)
        if Binomial.takes(uses)
        else KeptRunning(kept, uses)
        if Running.takes(uses)
        else KeptGathered(kept, uses)
        for uses in filter.uses
    ]


def _index(uses: Uses) -> int:
    first = uses[0]
    assert first is not None, "the first row has a weight"
    return first[0]
