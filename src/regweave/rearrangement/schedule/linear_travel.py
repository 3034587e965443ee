"""Travel words by algebra, where the relation of parts is linear over bits.

A destination part is a number u, register bits and place bits together. The lane that it comes from is
linear in the taker's number i and in u, so the u that do not change it form a space K, and any space B
inside K of as many bits as a word has place bits makes travel words with one sender each. What is left of u
numbers the rounds: as with whole words (linear_schedule), lane i takes number j xor phi(i) in round j, with
phi linear and such that no two lanes ask the same lane.

In the f16 C -> B seam the lane depends on the place bit alone, so K is the block bits, B may be any one of
them, and phi(i) brings back the bit of i that the asked lane's number forgets.

Which B and phi are best is a matter of permutes. A travel word that is made of 2^c words takes about c
permutes, a destination word that is fed by 2^d arrivals d permutes, since outputs share their intermediate
words; both numbers follow from how many different words or rounds the linear maps reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.schedule.linear import apply_maps, is_linear, maps_to_try
from regweave.rearrangement.schedule.travel import Journeys, Needs

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_REGISTERS = 64
_MOST_SPACES = 64
_MOST_SPACES_SEARCHED = 8


@dataclass(frozen=True, eq=False)
class _Way:
    """One space B with one phi, its estimated permutes, and whether one of its rounds is local."""

    permutes: int
    bits: int
    local: bool
    number_of: NDArray[np.int64]
    shifts: NDArray[np.int64]


def linear_journeys(needs: Needs) -> tuple[Journeys, ...]:
    """Schedules of this kind: the one of fewest permutes, then that with a local round if it is another.

    None at all if the relation is not linear or no phi tried works.
    """
    if needs.peers.min() < 0 or needs.registers > _MOST_REGISTERS:
        return ()
    if not (is_linear(needs.peers) and is_linear(needs.own)):
        return ()
    ways: list[_Way] = []
    best: int | None = None
    spaces = sorted(_spaces(needs), key=lambda space: _bound(needs, space))
    for space in spaces[:_MOST_SPACES_SEARCHED]:
        if best is not None and _bound(needs, space) > best:
            break
        ways += _ways(needs, space)
        best = min((way.permutes for way in ways), default=None)
    if not ways:
        return ()
    found = [min(ways, key=lambda way: (way.permutes, way.bits)),
             min(ways, key=lambda way: (not way.local, way.permutes, way.bits))]  # fmt: skip
    return tuple(_journeys(needs, way) for way in dict.fromkeys(found))


def _spaces(needs: Needs) -> Iterator[tuple[int, ...]]:
    """Spaces B, as their elements: as large as a word and the sender allow."""
    kernel = np.flatnonzero(needs.peers[0] == needs.peers[0, 0]).tolist()
    size = min(len(kernel), needs.per_word)
    if size == len(kernel):
        yield tuple(kernel)
        return
    seen: set[tuple[int, ...]] = set()
    for basis in combinations(kernel[1:], size.bit_length() - 1):
        space = [0]
        for element in basis:
            space += [element ^ other for other in space]
        elements = tuple(sorted(space))
        if len(set(elements)) == size and elements not in seen:
            seen.add(elements)
            yield elements
            if len(seen) == _MOST_SPACES:
                return


def _bound(needs: Needs, space: tuple[int, ...]) -> int:
    """Permutes that no phi can avoid."""
    words = needs.own[0] // needs.per_word
    number_of = _numbering(needs.peers.shape[1], space)
    made = len({int(words[element]) for element in space}).bit_length() - 1
    fed = len(set(number_of[: needs.per_word].tolist())).bit_length() - 1
    return int(number_of.max() + 1) * made + needs.registers * fed


def _numbering(size: int, space: tuple[int, ...]) -> NDArray[np.int64]:
    """The number of each part's coset of the space; linear, as cosets are ordered by their least elements."""
    least = np.min(np.arange(size)[:, None] ^ np.array(space), axis=1)
    return np.searchsorted(np.unique(least), least)


def _ways(needs: Needs, space: tuple[int, ...]) -> Iterator[_Way]:
    lanes, size = needs.lanes, needs.per_word
    number_of = _numbering(needs.peers.shape[1], space)
    count = int(number_of.max()) + 1
    part_of = np.argsort(number_of, kind="stable")[:: len(space)]  # the least part of each number
    lane_bits = lanes.bit_length() - 1
    forgotten = lane_bits - (len(np.unique(needs.peers[:, 0])).bit_length() - 1)
    maps = np.concatenate([_solved(needs, part_of), maps_to_try(lane_bits, count, forgotten)])
    shifts = apply_maps(maps)
    every = np.arange(lanes)
    asked = needs.peers[every, part_of[shifts]]
    valid = np.flatnonzero(_distinct(asked) == lanes)
    if not valid.size:
        return
    shifts, asked = shifts[valid], asked[valid]
    parts = part_of[shifts][:, :, None] ^ np.array(space)
    words = needs.own[every[:, None], parts].reshape(len(valid), -1) // size
    rounds = (shifts[:, :, None] ^ number_of[:size]).reshape(len(valid), -1)
    # both counts are powers of two, and their logarithms are permutes per word
    permutes = count * np.log2(_distinct(words)) + needs.registers * np.log2(_distinct(rounds))
    offsets = asked ^ every
    reached = np.isin(offsets[:, 0], needs.peers[0] ^ needs.peers[0, 0])
    local = (offsets == offsets[:, :1]).all(axis=1) & reached
    bits = np.bitwise_count(maps[valid]).sum(axis=1)
    for wanted in (np.ones_like(local), local):
        if wanted.any():
            at = int(np.where(wanted, permutes * 64 + bits, np.inf).argmin())
            yield _Way(int(permutes[at]), int(bits[at]), bool(local[at]), number_of, shifts[at])


def _solved(needs: Needs, part_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """Maps found by linear algebra, where there are too many to try: `[maps, bits]`.

    One has as few images as can be, each the least that brings back what is forgotten; another makes a round
    local.
    """
    lane_bits = range(needs.lanes.bit_length() - 1)
    start = int(needs.peers[0, 0])
    of_lane = [int(needs.peers[1 << bit, 0]) ^ start for bit in lane_bits]
    of_number = (needs.peers[0, part_of] ^ start).tolist()
    span = {0}
    fewest = [0 for _ in lane_bits]
    kept = []
    for bit in lane_bits:
        if of_lane[bit] not in span:
            span |= {of_lane[bit] ^ other for other in span}
            kept.append(bit)
    for bit in lane_bits:
        if bit in kept:
            continue
        found = next((n for n, moved in enumerate(of_number) if of_lane[bit] ^ moved not in span), 0)
        fewest[bit] = found
        span |= {of_lane[bit] ^ of_number[found] ^ other for other in span}
    number_of = {moved: number for number, moved in reversed(list(enumerate(of_number)))}
    local = [number_of.get(of_lane[bit] ^ 1 << bit) for bit in lane_bits]
    maps = [fewest] if None in local else [fewest, local]
    return np.array(maps, dtype=np.int64).reshape(len(maps), len(lane_bits))


def _distinct(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many different values below 64 each row has."""
    present = np.bitwise_or.reduce(np.uint64(1) << rows.astype(np.uint64), axis=1)
    return np.bitwise_count(present).astype(np.int64)


def _journeys(needs: Needs, way: _Way) -> Journeys:
    """One travel word for each lane and number."""
    count = int(way.number_of.max()) + 1
    units = np.argsort(way.number_of, kind="stable").reshape(count, -1)
    takers, numbers = (table.ravel() for table in np.indices((needs.lanes, count)))
    padded = np.full((count, needs.per_word), -1)
    padded[:, : units.shape[1]] = units
    return Journeys(
        takers,
        needs.peers[takers, units[numbers, 0]],
        padded[numbers],
        numbers ^ way.shifts[takers],
    )
