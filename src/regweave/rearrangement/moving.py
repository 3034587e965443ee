"""Move values of any kind as a program moves its words.

A program knows words of 32 bits, a person has an array of numbers. So the program is run on the numbers of
the source's slots, digit by digit as in its proof, and what comes out tells where each value goes:

    >>> plan.apply(np.arange(32 * 4).reshape(32, 4))[0]
    array([ 0,  2,  8, 10])

Where elements change their type on the way, it is run on the values themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import InputError
from regweave.layouts import Layout
from regweave.programs import Program
from regweave.rearrangement.proof import run_on_all_lanes
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.slots import items_of, registers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DIGIT = 16
# what the bits of the results of conversions are in NumPy
_VIEWS: dict[str, tuple[type[np.generic], type[np.generic]]] = {
    "f16": (np.uint16, np.float16),
    "s8": (np.uint8, np.int8),
    "u8": (np.uint8, np.uint8),
}
# mantissa bits and exponent bias of types that NumPy lacks, and which patterns are special: "ieee" those with
# the largest exponent, "ones" those with all bits set, "zero" that of the negative zero
_FLOATS = {
    "bf16": (7, 127, "ieee"),
    "e4m3": (3, 7, "ones"),
    "e5m2": (2, 15, "ieee"),
    "e4m3fnuz": (3, 8, "zero"),
    "e5m2fnuz": (2, 16, "zero"),
}


def moved(program: Program, relation: Relation, array: NDArray[Any]) -> NDArray[Any]:
    """`[lanes, items]` of the destination from `[lanes, items]` of the source.

    Raises InputError if `array` has another shape.
    """
    source = relation.source
    try:
        values = np.asarray(array)
    except ValueError:
        raise InputError("rows of different lengths", where=source.name, expected="an array") from None
    if values.shape != source.table.shape:
        raise InputError(
            f"an array of shape {values.shape}",
            where=source.name,
            expected=f"{source.table.shape}: lanes, items",
        )
    if relation.packing is None:
        return values.ravel()[came_from(program, relation)]
    bits = _words(values, source).view(np.uint32)
    destination = relation.destination
    found = _run(program, bits, source, destination)
    if destination.dtype in _VIEWS:
        whole, view = _VIEWS[destination.dtype]
        return found.astype(whole).view(view)
    return _decoded(found.astype(np.int64), *_FLOATS[destination.dtype], destination.element_type.bits)


def _words(values: NDArray[Any], source: Layout) -> NDArray[Any]:
    """The values as numbers of the source's type, s32 or f32; InputError if they are no such numbers."""
    kind, words = ("biu", np.int32) if source.dtype == "s32" else ("biuf", np.float32)
    if values.dtype.kind in kind:
        limits = np.iinfo(np.int32)
        if kind == "biuf" or (values.min() >= limits.min and values.max() <= limits.max):
            with np.errstate(over="ignore"):  # beyond f32 is infinite
                return values.astype(words)
    raise InputError(f"an array of {values.dtype}", where=source.name, expected=f"numbers of {source.dtype}")


def came_from(program: Program, relation: Relation) -> NDArray[np.int64]:
    """`[lanes, items]` of the destination: the slot, lane * items + item, that the program filled each from.

    Of slots that hold one element it is the first. The program must not convert anything.
    """
    source, destination = relation.source, relation.destination
    # several slots of one element hold one value: shared memory may be written by any of them
    first = np.unique(source.table, return_index=True)[1]
    numbers = first[source.table]
    step = min(source.element_type.bits, _DIGIT)
    found = np.zeros(destination.table.shape, dtype=np.int64)
    for shift in range(0, max(int(numbers.max()).bit_length(), 1), step):
        digits = numbers >> shift & (1 << step) - 1
        found |= _run(program, digits, source, destination).astype(np.int64) << shift
    return found


def _run(program: Program, bits: NDArray[Any], source: Layout, destination: Layout) -> NDArray[np.uint64]:
    words = run_on_all_lanes(program, registers_of(bits, source.element_type)[None])
    return items_of(words[0], destination.element_type, destination.items)


def _decoded(
    pattern: NDArray[np.int64], mantissa: int, bias: int, special: str, width: int
) -> NDArray[np.float32]:
    """The numbers that these patterns of a float type stand for."""
    negative, low = pattern >> (width - 1) & 1, pattern & (1 << (width - 1)) - 1
    exponent, fraction = low >> mantissa, low & (1 << mantissa) - 1
    whole = fraction + np.where(exponent > 0, 1 << mantissa, 0.0)
    size = np.ldexp(whole, np.maximum(exponent, 1) - bias - mantissa)
    if special == "ieee":
        top = exponent == (1 << (width - 1 - mantissa)) - 1
        size = np.where(top, np.where(fraction == 0, np.inf, np.nan), size)
    elif special == "ones":
        size = np.where(low == (1 << (width - 1)) - 1, np.nan, size)
    else:
        size = np.where(pattern == 1 << (width - 1), np.nan, size)
    return np.where(negative, -size, size).astype(np.float32)
