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
from regweave.programs.numbers import decode, encode
from regweave.rearrangement.proof import run_on_all_lanes
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.slots import items_of, registers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DIGIT = 16
# what numbers of a type are in NumPy; of the others, f32
_IN_NUMPY: dict[str, type[np.generic]] = {
    "f16": np.float16,
    "s16": np.int16,
    "u16": np.uint16,
    "s8": np.int8,
    "u8": np.uint8,
    "s4": np.int8,
    "u4": np.uint8,
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
    destination = relation.destination
    found = _run(program, _words(values, source), source, destination)
    numbers = decode(found.astype(np.uint32), destination.dtype)
    return numbers.astype(_IN_NUMPY.get(destination.dtype, np.float32))


def _words(values: NDArray[Any], source: Layout) -> NDArray[np.uint32]:
    """The values' bit patterns in the source's type; InputError if they are no such numbers."""
    whole = source.element_type.kind == "integer"
    if values.dtype.kind in ("biu" if whole else "biuf"):
        limits = np.iinfo(np.int32)
        if not whole or (values.min() >= limits.min and values.max() <= limits.max):
            return encode(values, source.dtype)
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
