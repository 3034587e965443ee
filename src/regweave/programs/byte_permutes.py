"""What `byte_permute` does to rows of words, by less work where selectors are known.

    >>> byte_permute(np.uint32([0x33221100]), np.uint32([0x77665544]), np.uint32([0x5140]))
    array([0x55114400])

Any selector takes its four bytes one by one. Most programs know theirs, a few for thousands of steps: then
bytes that go equally far move together, here byte 0 of the first word as it stands and byte 1 by one place,
and rows are taken so many at a time that they stay in a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# words for each selector from which it is worth its own operations
_WORTH_PARTING = 1 << 12
# words of one operand that a core's cache holds besides the other's and the result's
_CACHED_WORDS = 1 << 15


def byte_permute(low: NDArray[Any], high: NDArray[Any], selector: NDArray[Any]) -> NDArray[Any]:
    """Byte i of the result is byte (selector >> 4 i) & 7 of the eight bytes of `low` and then `high`.

    Words of threads, or `[rows, threads]` of them; one row or one thread may stand for all.
    """
    if selector.ndim == 2 and (selector.shape[1] == 1 or selector.strides[1] == 0):
        shape = np.broadcast_shapes(low.shape, high.shape, selector.shape)
        kinds, number = np.unique(selector[:, 0], return_inverse=True)
        if shape[0] * shape[1] >= _WORTH_PARTING * len(kinds):
            given = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
            return _known_rows(given, kinds.tolist(), np.broadcast_to(number, shape[0]))
    result = _byte(low, high, selector)
    for place in range(1, 4):
        result |= _byte(low, high, selector >> np.uint32(4 * place)) << np.uint32(8 * place)
    return result


def _byte(low: NDArray[Any], high: NDArray[Any], place: NDArray[Any]) -> NDArray[Any]:
    """Byte place & 7 of two words."""
    byte = np.where(place & np.uint32(4), high, low)
    byte >>= (place & np.uint32(3)) << np.uint32(3)
    byte &= np.uint32(0xFF)
    return byte


def _known_rows(
    given: tuple[NDArray[Any], NDArray[Any]], kinds: Sequence[int], number: NDArray[np.int64]
) -> NDArray[Any]:
    """Rows of both words permuted by known selectors, `kinds[number[row]]`."""
    count, threads = given[0].shape
    result = np.empty((count, threads), dtype=np.uint32)
    size = max(_CACHED_WORDS // threads, 1)
    for kind, selector in enumerate(kinds):
        rows = np.flatnonzero(number == kind)
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            result[some] = _known(given, selector, some)
    return result


def _known(given: tuple[NDArray[Any], NDArray[Any]], selector: int, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Some rows, all by one selector."""
    # (word, bits to the left) -> the bytes that come so
    masks: dict[tuple[int, int], int] = {}
    for place in range(4):
        byte = selector >> 4 * place & 7
        way = byte // 4, 8 * (place - byte % 4)
        masks[way] = masks.get(way, 0) | 0xFF << 8 * place
    words = {word: given[word][rows] for word, _ in masks}
    parts = (_moved(words[word], left) & np.uint32(mask) for (word, left), mask in masks.items())
    return reduce(lambda one, other: np.bitwise_or(one, other, out=one), parts)


def _moved(word: NDArray[Any], left: int) -> NDArray[Any]:
    """Shifted to the left, or by less than nothing to the right."""
    if left == 0:
        return word
    return word << np.uint32(left) if left > 0 else word >> np.uint32(-left)
