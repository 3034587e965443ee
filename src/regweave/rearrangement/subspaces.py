"""Algebra over bits: vectors are numbers, adding is xor.

    >>> extend([1], [3, 2, 4])              # what each adds to the span before it
    [3, 4]
    >>> common([1, 2], [3, 4])
    [3]

Layouts that are linear over bits are a few vectors of element numbers, so questions about whole tables (which
elements does a lane hold on both sides? which address keeps lanes apart on both sides?) are answered on a
dozen numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Span:
    """A growing subspace, kept as vectors with distinct highest bits."""

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        self._by_top: dict[int, int] = {}
        for vector in vectors:
            self.add(vector)

    def __len__(self) -> int:
        return len(self._by_top)

    def __contains__(self, vector: int) -> bool:
        known = self._by_top
        while vector:
            row = known.get(vector.bit_length())
            if row is None:
                return False
            vector ^= row
        return True

    def reduce(self, vector: int) -> int:
        """What is left of a vector modulo this subspace, zero if it lies inside."""
        for bit in range(vector.bit_length(), 0, -1):
            if vector >> (bit - 1) & 1:
                vector ^= self._by_top.get(bit, 0)
        return vector

    def add(self, vector: int) -> bool:
        """Add a vector; whether it was new."""
        known = self._by_top
        while vector:
            top = vector.bit_length()
            row = known.get(top)
            if row is None:
                known[top] = vector
                return True
            vector ^= row
        return False


def extend(known: Iterable[int], vectors: Iterable[int]) -> list[int]:
    """Those of `vectors` that are independent of `known` and of those before them."""
    span = Span(known)
    return [vector for vector in vectors if span.add(vector)]


def reduced(vectors: Iterable[int]) -> tuple[int, ...]:
    """The reduced echelon basis of a span: the same for all that span it, with few bits set."""
    rows: list[int] = []
    for vector in vectors:
        for row in rows:
            vector = min(vector, vector ^ row)
        if vector:
            rows = sorted([*(min(row, row ^ vector) for row in rows), vector], reverse=True)
    return tuple(rows)


def bases(elements: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """A basis of each subspace of `count` bits, in order; `elements` are all of a space but zero, in order.

    It is the least basis, in which no element has the highest bit of another, so that none comes twice.
    """
    if count == 0:
        yield ()
        return
    for at, first in enumerate(elements):
        above = 1 << first.bit_length()
        further = [other for other in elements[at + 1 :] if other >= above and not other & above >> 1]
        for rest in bases(further, count - 1):
            yield first, *rest


def common(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """A basis of the intersection of two spans, vectors of `first` that lie in `second` coming first."""
    other = Span(second)
    found = extend((), [vector for vector in first if vector in other])
    # eliminate (a, a) and (b, 0): where the first part vanishes, the second is common
    pairs = [(vector, vector) for vector in extend((), first)] + [(v, 0) for v in extend((), second)]
    rows: dict[int, tuple[int, int]] = {}
    for left, right in pairs:
        while left and left.bit_length() in rows:
            held = rows[left.bit_length()]
            left, right = left ^ held[0], right ^ held[1]
        if left:
            rows[left.bit_length()] = left, right
        elif right:
            found += extend(found, [right])
    return found


def coordinates(basis: Sequence[int]) -> list[int]:
    """For each unit vector, the set of basis vectors (a bit mask) that it is the sum of.

    `basis` must be a basis of the whole space of len(basis) bits.
    """
    rows: dict[int, tuple[int, int]] = {}
    for number, vector in enumerate(basis):
        mask = 1 << number
        while vector and vector.bit_length() in rows:
            held = rows[vector.bit_length()]
            vector, mask = vector ^ held[0], mask ^ held[1]
        assert vector, basis
        rows[vector.bit_length()] = vector, mask
    found = []
    for bit in range(len(basis)):
        vector, mask = 1 << bit, 0
        while vector:
            held = rows[vector.bit_length()]
            vector, mask = vector ^ held[0], mask ^ held[1]
        found.append(mask)
    return found


def combined(values: Sequence[int], mask: int) -> int:
    """The xor of the values whose bits are set in a mask."""
    total = 0
    while mask:
        low = mask & -mask
        total ^= values[low.bit_length() - 1]
        mask ^= low
    return total


def spanned(values: Sequence[int]) -> NDArray[np.int64]:
    """The xor of every subset of `values`: entry number e has those whose bits are set in e."""
    found = np.zeros(1 << len(values), dtype=np.int64)
    for bit, value in enumerate(values):
        found[1 << bit : 2 << bit] = found[: 1 << bit] ^ value
    return found
