"""The group: the smallest set of lanes x registers that a relation maps to itself.

Lanes that exchange belong together, and so do registers that feed one another under the same number. For
the tf32 seam these are lanes 0..3 and registers 0..3; every other lane is the same group at an offset of
4, 8, ..., so one small problem is solved and its answer used everywhere:

    >>> find_group(find_words(relate(c, a)))
    Group(lanes=(0, 1, 2, 3), registers=(0, 1, 2, 3), lane_offsets=(0, 4, ..., 28), register_offsets=(0,))

The copies must be exact. If the pieces differ from one another (a user's irregular table), pieces are joined:
first all registers, then all lanes, and at last the whole warp is one group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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


def find_group(words: Words) -> Group:
    """The group of a relation of words, with the offsets of its copies."""
    lanes = _components(words.lanes, ((i, p) for i in range(words.lanes) for p in words.peers[i].tolist()))
    registers = _components(
        words.count, {(r, q) for r in range(words.count) for q in words.words[:, r].tolist()}
    )
    all_lanes, all_registers = [tuple(range(words.lanes))], [tuple(range(words.count))]
    for lane_sets, register_sets in ((lanes, registers), (lanes, all_registers), (all_lanes, registers)):
        group = _copies(words, lane_sets, register_sets)
        if group is not None:
            return group
    return Group(all_lanes[0], all_registers[0], (0,), (0,))


def _components(size: int, edges: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    root = list(range(size))

    def find(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for a, b in edges:
        first, second = sorted((find(a), find(b)))
        root[second] = first
    members: dict[int, list[int]] = {}
    for node in range(size):
        members.setdefault(find(node), []).append(node)
    return [tuple(nodes) for nodes in members.values()]


def _copies(
    words: Words, lane_sets: list[tuple[int, ...]], register_sets: list[tuple[int, ...]]
) -> Group | None:
    """The group if all pieces are translations of the first."""
    lane_offsets, register_offsets = _offsets(lane_sets), _offsets(register_sets)
    if lane_offsets is None or register_offsets is None:
        return None
    first: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    for lane_set, lane_offset in zip(lane_sets, lane_offsets, strict=True):
        for register_set, register_offset in zip(register_sets, register_offsets, strict=True):
            at = np.ix_(lane_set, register_set)
            piece = words.peers[at] - lane_offset, words.words[at] - register_offset
            if first is None:
                first = piece
            elif not all(np.array_equal(mine, other) for mine, other in zip(piece, first, strict=True)):
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
