"""The words of one group as edges of a bipartite multigraph: from the lane that offers to the lane that
takes.

Lanes and registers count from 0 within the group here, whatever numbers they have in the warp.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from regweave.rearrangement.group import Group
from regweave.rearrangement.schedule.matrix import CoordinationMatrix, Entry
from regweave.rearrangement.words import Words


class Edge(NamedTuple):
    """Lane `taker` keeps word `word` of lane `peer` as its word `keep`."""

    taker: int
    peer: int
    word: int
    keep: int


def group_edges(words: Words, group: Group) -> tuple[Edge, ...]:
    """One edge per slot of the group that needs a word, by lane and register."""
    lane_index = {lane: index for index, lane in enumerate(group.lanes)}
    register_index = {register: index for index, register in enumerate(group.registers)}
    return tuple(
        Edge(i, lane_index[int(words.peers[lane, r])], register_index[int(words.words[lane, r])], k)
        for i, lane in enumerate(group.lanes)
        for k, r in enumerate(group.registers)
        if words.peers[lane, r] >= 0
    )


def matrix_of(
    group: Group, edges: Sequence[Edge], rounds: Sequence[int], stays: Iterable[Edge] = ()
) -> CoordinationMatrix:
    """The matrix in which edge e travels in round `rounds[e]`, columns ordered by what lanes keep."""

    def entry(edge: Edge) -> Entry:
        return Entry(group.lanes[edge.peer], group.registers[edge.word], group.registers[edge.keep])

    size = len(group.lanes)
    columns: dict[int, list[Entry | None]] = {number: [None] * size for number in sorted(set(rounds))}
    for edge, number in zip(edges, rounds, strict=True):
        columns[number][edge.taker] = entry(edge)
    last = max(group.registers) + 1
    ordered = sorted(columns.values(), key=lambda column: [last if e is None else e.keep for e in column])
    kept: list[list[Entry]] = [[] for _ in range(size)]
    for edge in stays:
        kept[edge.taker].append(entry(edge))
    rows = tuple(tuple(column[lane] for column in ordered) for lane in range(size))
    return CoordinationMatrix(group.lanes, rows, tuple(tuple(entries) for entries in kept))
