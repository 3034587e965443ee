"""How many instructions a passage of linear layouts takes, known before its tables are.

An arrangement gives every bit of a lane's and of an item's number the directions that it adds to an address.
From these few numbers follow the accesses, what they move, and the value that each side's addresses share:

    store  lane bits add 4, 8, 16, 32, 64; item bits 128, 256      `lane << 2`, offsets 0 to 384
    load   lane bits add 128, 256, 4, 8, 16; items flip 128 as lanes do: one xor more

So of many arrangements those are looked at that can be the best, the most hopeful first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regweave.layouts.elements import REGISTER_BITS
from regweave.rearrangement.shared.addressing import MOST_LANES, linear_operations
from regweave.rearrangement.shared.swizzles import Arrangement, addresses_of
from regweave.rearrangement.subspaces import combined, spanned
from regweave.rearrangement.tuples import row_moves

if TYPE_CHECKING:
    from numpy.typing import NDArray

# layers of nodes that choose among so many words
_DEPTHS = np.array([max(count - 1, 0).bit_length() for count in range(REGISTER_BITS + 1)])


class Estimate(NamedTuple):
    """What a passage takes at least; of equal instructions that with fewer bytes is better.

    Of the instructions `repeated` are those that each of several copies takes.
    """

    instructions: int
    bytes: int = 0
    repeated: int = 0


@dataclass(frozen=True, eq=False)
class Moved:
    """What one side moves: the vectors of its lanes and items, and which items.

    `tuples` is the size of register tuples that the words stand in, None where putting words together takes
    nothing.
    """

    lanes: Sequence[int]
    items: Sequence[int]
    wanted: Sequence[int] | None
    tuples: int | None


def estimate(
    way: Arrangement, stored: Moved, loaded: Moved, unit: int, threads: int, *, packed: bool
) -> Estimate | None:
    """Of the passage of an arrangement, None where there are no accesses of such widths.

    It is exact for up to 64 threads but for a side that overlaps itself.
    """
    count, repeated, values = 0, 0, _Values(way, threads)
    for side, bits in ((stored, way.store_bits), (loaded, way.load_bits)):
        together = bits // unit
        found = _accesses(way, side, together)
        if found is None:
            return None
        begins, rows = found
        count += len(rows)
        repeated += len(rows)
        if side is stored and packed:
            count += conversions(len(rows), bits, unit)
        elif side.tuples is not None:
            work = part_work(rows, bits, unit, side.tuples)
            count += work
            repeated += work if side is loaded else 0  # words of other copies are stored from anywhere
        values.add(side.lanes, begins)
    taken = -(-(sum(way.weights) + unit) // (8 * 16)) * 16
    return Estimate(count + values.operations, taken, repeated)


def _accesses(
    way: Arrangement, side: Moved, together: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Where accesses begin, as masks of directions, and their items; None where they do not fit together."""
    if any(combined(way.units, vector) & together - 1 for vector in side.lanes):
        return None  # lanes would begin at other places within what is moved at once
    masks = spanned([combined(way.units, vector) for vector in side.items])
    if side.wanted is not None and len(side.wanted) < len(masks):
        masks = masks[side.wanted]
    different, first = np.unique(masks, return_index=True)
    if len(different) % together:
        return None
    begun = different.reshape(-1, together)
    if (begun != (begun[:, :1] | np.arange(together))).any():
        return None
    items = first if side.wanted is None else np.asarray(side.wanted)[first]
    return begun[:, 0], items.reshape(-1, together)


class _Values:
    """The values that addresses are made of, as far as they are known."""

    def __init__(self, way: Arrangement, threads: int) -> None:
        self.way, self.bits = way, (threads - 1).bit_length()
        self.known = threads == 1 << self.bits and threads <= MOST_LANES
        # what lanes add -> its operations and the constants that are xored to it
        self.found: dict[tuple[int, ...], tuple[int, set[int]]] = {}

    def add(self, lanes: Sequence[int], begins: NDArray[np.int64]) -> None:
        """The value of the accesses of a side."""
        if not self.known:
            return
        way, swizzled = self.way, self.way.kind == "xor"
        inside = (1 << len(way.weights)) - 1
        masks = [combined(way.units, vector) & inside for vector in lanes]
        ones = [sum([w for bit, w in enumerate(way.weights) if mask >> bit & 1]) // 8 for mask in masks]
        apart = _apart(ones)
        adds = apart if swizzled else _apart(masks)
        if not (swizzled or adds):
            return
        key = *ones, *[0] * (self.bits - len(ones))
        if key not in self.found:
            self.found[key] = linear_operations(key, adds=adds, flips=swizzled or apart), set()
        if swizzled:
            support = reduce(or_, ones, 0)
            starts = addresses_of(begins & inside, way.weights) // 8
            self.found[key][1].update((starts & support).tolist())

    @property
    def operations(self) -> int:
        """Instructions for all of them."""
        return sum([operations + len(constants - {0}) for operations, constants in self.found.values()])


def _apart(numbers: Sequence[int]) -> bool:
    """Whether no two of these have a bit in common."""
    seen = 0
    for number in numbers:
        if seen & number:
            return False
        seen |= number
    return True


def conversions(accesses: int, bits: int, unit: int) -> int:
    """Instructions that convert what so many stores of so many bits move: two elements of a word at once."""
    words = accesses * max(bits // REGISTER_BITS, 1)
    return words * -(-min(bits, REGISTER_BITS) // (2 * unit))


def part_work(items: NDArray[np.int64], bits: int, unit: int, size: int) -> int:
    """About how many instructions put the words of accesses together from registers, or take them apart.

    `items[access]` are moved by an access of `bits` bits. Whole registers are copied where those in tuples of
    `size` do not stand as the access has them.
    """
    per_word = REGISTER_BITS // unit
    together = bits // unit
    if not len(items) or (per_word == 1 and (size == 1 or together == 1)):
        return 0  # whole registers, as they stand
    # [accesses, words, parts of a word]
    words = items.reshape(len(items), -1, min(per_word, together))
    registers, places = np.divmod(words, per_word)
    straight = (places == np.arange(words.shape[2])).all(axis=2)
    ordered = np.sort(registers, axis=2)
    different = 1 + np.count_nonzero(ordered[:, :, 1:] != ordered[:, :, :-1], axis=2)
    work = int(np.where(different > 1, _DEPTHS[different], ~straight).sum())
    if size > 1 and words.shape[1] > 1:
        whole = np.where(straight & (different == 1), registers[:, :, 0], -1).tolist()
        work += sum(row_moves([None if at < 0 else at for at in row], size) for row in whole)
    return work
