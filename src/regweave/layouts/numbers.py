"""Whole numbers from whatever a caller gave: nothing is rounded, wrapped or parsed on the way.

    >>> whole_numbers([[0, 1.5]], "layout C")
    Traceback (most recent call last):
    InputError: numbers that are not whole (at layout C); ...

NumPy would make 1 of 1.5 and of "1", and -1 of 2**64 - 1: a table read like that is a wrong layout that looks
right.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Slots that a layout made from a few numbers may have; a table of any size can be given in full.
MOST_SLOTS = 1 << 24
_MOST_SHOWN = 60
_CACHED = 1 << 15


def whole_numbers(values: Any, where: str, expected: str = "whole numbers") -> NDArray[np.int64]:
    """A new int64 array of `values`; InputError if it is ragged, or a value is no whole number of 64 bits."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise InputError("rows of different lengths", where=where, expected=expected) from None
    if array.size and (array.dtype.kind not in "iu" or array.max() > np.iinfo(np.int64).max):
        raise InputError("numbers that are not whole, or beyond 64 bits", where=where, expected=expected)
    return array.astype(np.int64)


def divided(numbers: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Quotients and rests of numbers from 0 on: np.divmod in a tenth of the time."""
    quotients = numbers // size
    rests = quotients * size
    return quotients, np.subtract(numbers, rests, out=rests)


def row_blocks(table: NDArray[Any]) -> Iterator[slice]:
    """The rows of a table, so many at a time that what is made of them in between stays in a cache."""
    rows = max(_CACHED // max(table.shape[1], 1), 1)
    return (slice(first, first + rows) for first in range(0, len(table), rows))


def whole_pair(values: Any, where: str, expected: str) -> tuple[int, int]:
    """Two whole numbers under 2^62, in order; InputError for anything else."""
    if isinstance(values, Iterable) and not isinstance(values, (Set, Mapping)):  # those have no order
        try:
            first, second = (_whole(value) for value in values)
            return first, second
        except (TypeError, ValueError):
            pass
    raise InputError(
        f"{_shown(values)} is no pair of whole numbers under 2^62", where=where, expected=expected
    )


def whole_number(value: Any, where: str, expected: str) -> int:
    """One whole number under 2^62; InputError for anything else."""
    try:
        return _whole(value)
    except (TypeError, ValueError):
        raise InputError(
            f"{_shown(value)} is no whole number under 2^62", where=where, expected=expected
        ) from None


def _shown(value: Any) -> str:
    """What was given, as far as a person wants to read it; a number that is too large says so."""
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        text = "9" * (_MOST_SHOWN + 1)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... (too long to show)"


def _whole(value: Any) -> int:
    """The whole number; TypeError or ValueError for anything else, true and false too."""
    number = operator.index(value)
    if isinstance(value, bool) or abs(number) >> 62:
        raise ValueError
    return number


def check_slots(count: int, where: str) -> None:
    """InputError for a layout of more than `MOST_SLOTS` slots."""
    if count > MOST_SLOTS:
        raise InputError(f"a layout of {count} slots", where=where, expected=f"at most {MOST_SLOTS}")
