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
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.schedule.linear import apply_maps, is_linear, maps_to_try
from regweave.rearrangement.schedule.travel import Journeys, Needs
from regweave.rearrangement.subspaces import bases, spanned

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_REGISTERS = 64
_MOST_SPACES = 64
_MOST_SPACES_SEARCHED = 8


@dataclass(frozen=True, eq=False)
class _Way:
    """One space B with one phi, its estimated permutes, and whether one of its rounds is local.

    `images` are those of the lane bits under phi.
    """

    permutes: int
    bits: int
    local: bool
    number_of: NDArray[np.int64]
    images: NDArray[np.int64]


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
    for basis in islice(bases(kernel[1:], size.bit_length() - 1), _MOST_SPACES):
        yield tuple(sorted(spanned(basis).tolist()))


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
    size = needs.per_word
    number_of = _numbering(needs.peers.shape[1], space)
    count = int(number_of.max()) + 1
    part_of = np.argsort(number_of, kind="stable")[:: len(space)]  # the least part of each number
    lane_bits = needs.lanes.bit_length() - 1
    forgotten = lane_bits - (len(np.unique(needs.peers[:, 0])).bit_length() - 1)
    maps = np.concatenate([_solved(needs, part_of), maps_to_try(lane_bits, count, forgotten)])
    # all is linear: what a lane bit adds is what it flips in lane 0, and what its image flips there
    units = 1 << np.arange(lane_bits)
    flips = (needs.peers[0, part_of] ^ needs.peers[0, 0])[maps]
    asked = (needs.peers[units, 0] ^ needs.peers[0, 0]) ^ flips
    valid = np.flatnonzero(_ranks(asked) == lane_bits)
    if not valid.size:
        return
    maps, asked = maps[valid], asked[valid]
    start = needs.own[0, 0]
    of_lane = needs.own[units, 0] ^ start
    of_space = np.broadcast_to(needs.own[0, list(space)] ^ start, (len(maps), len(space)))
    words = np.concatenate([of_lane ^ (needs.own[0, part_of] ^ start)[maps], of_space], axis=1) // size
    together = np.broadcast_to(number_of[:size], (len(maps), size))
    rounds = np.concatenate([maps, together], axis=1)
    # how many different ones there are: powers of two, and their logarithms are permutes per word
    permutes = count * _ranks(words) + needs.registers * _ranks(rounds)
    # a round is local if lanes ask what differs from them by a constant, and lane 0 asks itself in some round
    local = (asked == units).all(axis=1) & bool((needs.peers[0] == 0).any())
    bits = np.bitwise_count(maps).sum(axis=1)
    for wanted in (np.ones_like(local), local):
        if wanted.any():
            at = int(np.where(wanted, permutes * 64 + bits, np.iinfo(np.int64).max).argmin())
            yield _Way(int(permutes[at]), int(bits[at]), bool(local[at]), number_of, maps[at])


def _ranks(vectors: NDArray[np.int64]) -> NDArray[np.int64]:
    """The dimensions of the spans of rows of vectors over bits."""
    left, ranks = vectors.copy(), np.zeros(len(vectors), dtype=np.int64)
    for number in range(vectors.shape[1]):
        pivot = left[:, number : number + 1].copy()
        ranks += pivot[:, 0] != 0
        left ^= np.where(left & pivot & -pivot, pivot, 0)
    return ranks


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
        numbers ^ apply_maps(way.images[None])[0, takers],
    )
