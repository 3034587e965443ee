"""Schedules by algebra, where the relation is linear over bits: rounds that differ by an xor.

Let lane i fill register r = j xor phi(i) in round j, with phi linear in the bits of i. The lane it then
asks, p(i, r), is linear too, so the round has no conflict as soon as i -> p(i, j xor phi(i)) is
invertible. phi = 0 is the preliminary matrix. For the tf32 seam

    p = (r1, t1)   q = (r0, t0)        (bits, high first; lane i = (t1, t0), register r = (r1, r0))

p forgets t0, and the simplest phi that brings it back is phi(i) = (t0, 0): lanes with t0 = 1 fill registers
2, 3, 0, 1 while the others fill 0, 1, 2, 3. That is the coordination matrix of the worked example.

What a schedule costs in selects also follows: a register is filled in as many different rounds as phi has
values, and every doubling costs one select per round; the same holds for the registers that lanes offer.
Among the cheapest, the phi that uses the fewest bits comes first, since each bit is one predicate.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, islice, product
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.group import Group
from regweave.rearrangement.schedule.edges import group_edges, matrix_of
from regweave.rearrangement.schedule.matrix import CoordinationMatrix
from regweave.rearrangement.subspaces import spanned
from regweave.rearrangement.words import Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_MAPS = 4096
_MOST_MAPS_OF_PARTS = 256
_FEW_BITS = 3


def linear_matrix(words: Words, group: Group) -> CoordinationMatrix | None:
    """The cheapest schedule of this kind; None if the relation is not linear or no phi tried works."""
    lanes, registers = len(group.lanes), len(group.registers)
    edges = group_edges(words, group)
    if len(edges) < lanes * registers:  # some slots need nothing
        return None
    peers = np.array([edge.peer for edge in edges]).reshape(lanes, registers)
    offered = np.array([edge.word for edge in edges]).reshape(lanes, registers)
    if not (is_linear(peers) and is_linear(offered)):
        return None
    maps = maps_to_try(lanes.bit_length() - 1, registers)
    shifts = apply_maps(maps)
    asked, words_asked = (table[np.arange(lanes), shifts] for table in (peers, offered))
    # counts of different values are powers of two, and their logarithms are selects per round
    selects = np.log2(_distinct(shifts)) + np.log2(_distinct(words_asked))
    # no lane is asked for two words; one round decides, for the others only add constants
    valid = np.flatnonzero(_distinct(asked) == _distinct(asked * registers + words_asked)).tolist()
    if not valid:
        return None
    bits = np.bitwise_count(maps).sum(axis=1)
    best = min(valid, key=lambda at: (selects[at], bits[at], tuple(maps[at])))
    return matrix_of(group, edges, [edge.keep ^ int(shifts[best, edge.taker]) for edge in edges])


@lru_cache(maxsize=64)
def maps_to_try(lane_bits: int, registers: int, forgotten: int | None = None) -> NDArray[np.int64]:
    """The images of the lane bits under the phis to try.

    All of them; if those are many, only single register bits; if those still are, of few lane bits. No more
    lane bits are needed than the asked lane's number forgets: `forgotten`, if it is known. `[maps, bits]`.
    """
    images = list(range(registers))
    if registers**lane_bits > _MOST_MAPS:
        images = [0, *(1 << bit for bit in range(registers.bit_length() - 1))]
    most = _MOST_MAPS if forgotten is None else _MOST_MAPS_OF_PARTS
    if len(images) ** lane_bits <= most:
        every = list(product(images, repeat=lane_bits))
        return np.array(every, dtype=np.int64).reshape(len(every), lane_bits)
    few: list[NDArray[np.int64]] = []
    left = 4 * most
    for count in range((_FEW_BITS if forgotten is None else forgotten) + 1):
        if left == 0:
            break
        chosen = list(islice(product(images[1:], repeat=count), left))
        places = np.array(chosen, dtype=np.int64).reshape(len(chosen), count)
        for bits in islice(combinations(range(lane_bits), count), -(-left // len(places))):
            some = np.zeros((min(len(places), left), lane_bits), dtype=np.int64)
            some[:, list(bits)] = places[:left]
            few.append(some)
            left -= len(some)
    return np.concatenate(few)


def apply_maps(images: NDArray[np.int64]) -> NDArray[np.int64]:
    """`[maps, lanes]` values of linear maps given by the images of the bits, `[maps, bits]`."""
    values = np.zeros((len(images), 1), dtype=np.int64)
    for bit in range(images.shape[1]):
        values = np.concatenate([values, values ^ images[:, bit : bit + 1]], axis=1)
    return values


def _distinct(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many different values each row has."""
    ordered = np.sort(rows, axis=1)
    return 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)


def is_linear(table: NDArray[np.int64]) -> bool:
    """Whether table[i, r] is linear over the bits of i and r, up to a constant."""
    if any(size & (size - 1) for size in table.shape):
        return False
    sizes = [size.bit_length() - 1 for size in table.shape]
    start = table[0, 0]
    rows = spanned([int(table[1 << bit, 0] ^ start) for bit in range(sizes[0])])
    columns = spanned([int(table[0, 1 << bit] ^ start) for bit in range(sizes[1])])
    return bool(np.array_equal(rows[:, None] ^ columns ^ start, table))
