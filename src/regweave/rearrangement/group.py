"""The group: the smallest set of lanes x registers that a relation maps to itself.

Lanes that exchange belong together, and so do registers that feed one another under the same number. For
the tf32 seam these are lanes 0..3 and registers 0..3; every other lane is the same group at an offset of
4, 8, ..., so one small problem is solved and its answer used everywhere:

    >>> find_group(whole_words(find_parts(relate(c, a))))
    Group(lanes=(0, 1, 2, 3), registers=(0, 1, 2, 3), lane_offsets=(0, 4, ..., 28), register_offsets=(0,))

Where words are put together of parts, lanes may need less than a word of one another; copies at other
registers then join, so that what travels are full words. The copies must be exact. If the pieces differ from
one another (a user's irregular table), pieces are joined: first all registers, then all lanes, and at last
the whole warp is one group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.parts import Parts
from regweave.rearrangement.words import Words

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Group:
    """The first copy's lanes and registers, and the offsets at which the copies lie (the first is 0)."""

    lanes: tuple[int, ...]
    registers: tuple[int, ...]
    lane_offsets: tuple[int, ...]
    register_offsets: tuple[int, ...]

    @property
    def segment(self) -> int | None:
        """The group's size if its copies are aligned segments of a power of two of lanes; None otherwise."""
        size = len(self.lanes)
        if size & (size - 1) or self.lanes != tuple(range(size)):
            return None
        return size if all(offset % size == 0 for offset in self.lane_offsets) else None


def find_group(words: Words | Parts) -> Group:
    """The group of a relation of words or of parts of words, with the offsets of its copies."""
    tables = _tables(words)
    peers, held = tables[0], tables[1]
    lane, register, _ = np.nonzero(peers >= 0)
    there = peers >= 0
    lanes = _components(words.lanes, lane, peers[there])
    registers = _components(words.count, register, held[there])
    all_lanes, all_registers = [tuple(range(words.lanes))], [tuple(range(words.count))]
    for lane_sets, register_sets in ((lanes, registers), (lanes, all_registers), (all_lanes, registers)):
        group = _copies(tables, lane_sets, register_sets)
        if group is not None:
            return group
    return Group(all_lanes[0], all_registers[0], (0,), (0,))


def filled_group(parts: Parts, group: Group) -> Group:
    """The group joined with its copies at other registers until lanes take full words of one another."""
    while len(group.register_offsets) > 1:
        peers = parts.peers[np.ix_(group.lanes, group.registers)].reshape(len(group.lanes), -1)
        counts = [np.bincount(row[row >= 0]) % parts.per_word for row in peers]
        if not any(count.any() for count in counts):
            break
        offsets = group.register_offsets
        steps = {high - low for low, high in zip(offsets[::2], offsets[1::2], strict=False)}
        paired = len(offsets) % 2 == 0 and len(steps) == 1
        joined = (0, *steps) if paired else offsets
        registers = sorted(register + offset for register in group.registers for offset in joined)
        group = Group(group.lanes, tuple(registers), group.lane_offsets, offsets[::2] if paired else (0,))
    return group


def _tables(words: Words | Parts) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Peers, words and places, `[lanes, registers, parts]`."""
    if isinstance(words, Parts):
        return words.peers, words.words, words.places
    peers = words.peers[..., None]
    return peers, words.words[..., None], np.zeros_like(peers)


def _components(size: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """The nodes that these edges connect, each set by its lowest node."""
    edges = np.zeros((size, size), dtype=bool)
    edges[first, second] = True
    ends = np.nonzero(edges | edges.T)
    lowest, before = np.arange(size), None
    while before is None or not np.array_equal(lowest, before):
        before = lowest.copy()
        np.minimum.at(lowest, ends[0], before[ends[1]])
        lowest = lowest[lowest]
    order = np.argsort(lowest, kind="stable")
    return [tuple(nodes.tolist()) for nodes in np.split(order, np.flatnonzero(np.diff(lowest[order])) + 1)]


def _copies(
    tables: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    lane_sets: list[tuple[int, ...]],
    register_sets: list[tuple[int, ...]],
) -> Group | None:
    """The group if all pieces are translations of the first."""
    lane_offsets, register_offsets = _offsets(lane_sets), _offsets(register_sets)
    if lane_offsets is None or register_offsets is None:
        return None
    every = np.add.outer(lane_offsets, lane_sets[0]), np.add.outer(register_offsets, register_sets[0])
    # [lane copy, register copy, lane, register, part]
    at = every[0][:, None, :, None], every[1][None, :, None, :]
    peers, words, places = (table[at] for table in tables)
    there = peers >= 0
    peers = np.where(there, peers - np.reshape(lane_offsets, (-1, 1, 1, 1, 1)), -1)
    words = np.where(there, words - np.reshape(register_offsets, (1, -1, 1, 1, 1)), -1)
    if not all(bool((table == table[:1, :1]).all()) for table in (peers, words, places)):
        return None
    return Group(lane_sets[0], register_sets[0], lane_offsets, register_offsets)


def _offsets(sets: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    first = np.asarray(sets[0])
    offsets = []
    for members in sets:
        if len(members) != first.size or np.ptp(np.asarray(members) - first):
            return None
        offsets.append(members[0] - int(first[0]))
    return tuple(offsets)
