"""What `byte_permute` does to rows of words, by less work where selectors are known.

    >>> byte_permute(np.uint32([0x33221100]), np.uint32([0x77665544]), np.uint32([0x5140]))
    array([0x55114400])

Any selector takes its four bytes one by one. Most programs know theirs, a few for thousands of steps: then
bytes that go equally far move together, here byte 0 of the first word as it stands and byte 1 by one place,
and rows are taken so many at a time that they stay in a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# words for each selector from which it is worth its own operations
_WORTH_PARTING = 1 << 10
# selectors of threads up to which each is worth its own operations on all
_FEW_SELECTORS = 6
# words of one operand that a core's cache holds besides the other's and the result's
_CACHED_WORDS = 1 << 15
_WORD = 0xFFFFFFFF

_Words: TypeAlias = "tuple[NDArray[Any], NDArray[Any]]"
Rows: TypeAlias = "slice | NDArray[np.int64]"


def byte_permute(low: NDArray[Any], high: NDArray[Any], selector: NDArray[Any]) -> NDArray[Any]:
    """Byte i of the result is byte (selector >> 4 i) & 7 of the eight bytes of `low` and then `high`.

    Words of threads, or `[rows, threads]` of them; one row or one thread may stand for all.
    """
    if selector.ndim == 2:
        shape = np.broadcast_shapes(low.shape, high.shape, selector.shape)
        given = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        bytes_of_two = np.uint32(0x3333 if low is high else 0x7777)
        if selector.shape[1] == 1 or selector.strides[1] == 0:
            kinds, number = np.unique(selector[:, 0] & bytes_of_two, return_inverse=True)
            if shape[0] * shape[1] >= _WORTH_PARTING * len(kinds):
                return _known_in_rows(given, kinds.tolist(), np.broadcast_to(number, shape[0]))
        elif len(selector) == 1 < shape[0]:
            kinds, number = np.unique(selector[0] & bytes_of_two, return_inverse=True)
            if len(kinds) <= _FEW_SELECTORS:
                return _known_in_threads(given, kinds.tolist(), number)
    result = _byte(low, high, selector)
    for place in range(1, 4):
        result |= _byte(low, high, selector >> np.uint32(4 * place)) << np.uint32(8 * place)
    return result


def as_slice(rows: Sequence[int] | NDArray[np.int64]) -> Rows:
    """Rows as a slice where they are equally far apart, for then nothing is copied."""
    numbers = rows.tolist() if isinstance(rows, np.ndarray) else list(rows)
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    if step > 0 and numbers == list(range(numbers[0], numbers[-1] + 1, step)):
        return slice(numbers[0], numbers[-1] + 1, step)
    return np.asarray(rows)


def _byte(low: NDArray[Any], high: NDArray[Any], place: NDArray[Any]) -> NDArray[Any]:
    """Byte place & 7 of two words."""
    byte = np.where(place & np.uint32(4), high, low)
    byte >>= (place & np.uint32(3)) << np.uint32(3)
    byte &= np.uint32(0xFF)
    return byte


def _known_in_rows(given: _Words, kinds: Sequence[int], number: NDArray[np.int64]) -> NDArray[Any]:
    """Rows of both words permuted by known selectors, `kinds[number[row]]`."""
    result = np.empty(given[0].shape, dtype=np.uint32)
    for kind, selector in enumerate(kinds):
        for some in _cached(np.flatnonzero(number == kind), given[0].shape[1]):
            words = given[0][some], given[1][some]
            if isinstance(some, slice):
                _permute(words, selector, result[some])
            else:
                made = np.empty(words[0].shape, dtype=np.uint32)
                _permute(words, selector, made)
                result[some] = made
    return result


def _known_in_threads(given: _Words, kinds: Sequence[int], number: NDArray[np.int64]) -> NDArray[Any]:
    """Rows of both words, each thread's permuted by a known selector, `kinds[number[thread]]`."""
    result = np.empty(given[0].shape, dtype=np.uint32)
    for some in _cached(np.arange(len(result)), given[0].shape[1]):
        words, made = (given[0][some], given[1][some]), result[some]
        _permute(words, kinds[0], made)
        for kind in range(1, len(kinds)):
            other = np.empty(made.shape, dtype=np.uint32)
            _permute(words, kinds[kind], other)
            np.copyto(made, other, where=number == kind)
    return result


def _cached(rows: NDArray[np.int64], threads: int) -> Iterator[Rows]:
    """So many of these rows at a time as stay in a cache."""
    size = max(_CACHED_WORDS // threads, 1)
    return (as_slice(rows[first : first + size]) for first in range(0, len(rows), size))


def _permute(words: _Words, selector: int, made: NDArray[Any]) -> None:
    """All by one selector."""
    part = made
    for word, left, mask in _ways(selector):
        _move(words[word], left, mask, part)
        if part is not made:
            np.bitwise_or(made, part, out=made)
        else:
            part = np.empty(made.shape, dtype=np.uint32)


@lru_cache(maxsize=256)
def _ways(selector: int) -> tuple[tuple[int, int, int | None], ...]:
    """Which word moves by how many bits to the left, and which of them count, if the move leaves others."""
    masks: dict[tuple[int, int], int] = {}
    for place in range(4):
        byte = selector >> 4 * place & 7
        way = byte // 4, 8 * (place - byte % 4)
        masks[way] = masks.get(way, 0) | 0xFF << 8 * place
    return tuple(
        (word, left, None if mask == (_WORD << left if left > 0 else _WORD >> -left) & _WORD else mask)
        for (word, left), mask in masks.items()
    )


def _move(word: NDArray[Any], left: int, mask: int | None, part: NDArray[Any]) -> None:
    """Shifted to the left, or by less than nothing to the right, and masked, into `part`."""
    if left:
        shift = np.left_shift if left > 0 else np.right_shift
        word = shift(word, np.uint32(abs(left)), out=part)
    if mask is not None:
        np.bitwise_and(word, np.uint32(mask), out=part)
    elif not left:
        part[...] = word
