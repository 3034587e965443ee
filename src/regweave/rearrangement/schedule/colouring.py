"""Schedules by edge colouring: conflict-free for every bijection, in the fewest rounds.

A round is a matching of offering and taking lanes. A bipartite multigraph can be split into as many
matchings as its busiest lane has edges (Koenig), and rustworkx finds such a colouring in microseconds. It
knows nothing of selects, though: a round in which lanes offer three different registers costs two
selects, and a register that is filled in three different rounds costs two more. So the colours are
improved afterwards. Two colours together form cycles and paths that alternate between them, and
exchanging the two along any of these gives another proper colouring; it is kept where fewer different
registers meet fewer different rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import rustworkx

from regweave.rearrangement.group import Group
from regweave.rearrangement.schedule.edges import Edge, group_edges, matrix_of
from regweave.rearrangement.schedule.matrix import CoordinationMatrix
from regweave.rearrangement.words import Words

_PASSES = 3
_MOST_EDGES_TO_IMPROVE = 512


def coloured_matrix(words: Words, group: Group, *, remote_only: bool) -> CoordinationMatrix:
    """A conflict-free matrix in the fewest rounds; with `remote_only`, local words stay where they are."""
    edges = group_edges(words, group)
    stays = tuple(edge for edge in edges if remote_only and edge.peer == edge.taker)
    travelling = tuple(edge for edge in edges if not (remote_only and edge.peer == edge.taker))
    rounds = [0] * len(travelling)
    first = 0
    for block in [list(range(len(travelling)))] if remote_only else _register_blocks(travelling):
        members = [travelling[number] for number in block]
        colours = _improve(members, colour_edges(members, len(group.lanes)))
        for number, colour in zip(block, colours, strict=True):
            rounds[number] = first + colour
        first += max(colours, default=-1) + 1
    return matrix_of(group, travelling, rounds, stays)


def _register_blocks(edges: Sequence[Edge]) -> list[list[int]]:
    """Edges by connected registers: blocks are scheduled apart, so that none offers another's registers."""
    graph = rustworkx.PyGraph(multigraph=False)
    registers = 1 + max(max(edge.word, edge.keep) for edge in edges)
    graph.add_nodes_from(range(2 * registers))
    graph.add_edges_from_no_data(sorted({(edge.word, registers + edge.keep) for edge in edges}))
    block_of = {
        node: block for block, nodes in enumerate(rustworkx.connected_components(graph)) for node in nodes
    }
    blocks: dict[int, list[int]] = {}
    for number, edge in enumerate(edges):
        blocks.setdefault(block_of[edge.word], []).append(number)
    return list(blocks.values())


def colour_edges(edges: Sequence[Edge], lanes: int) -> list[int]:
    """A round for every edge: no lane offers or takes twice in one, in as few as the busiest lane needs."""
    graph = rustworkx.PyGraph(multigraph=True)
    graph.add_nodes_from(range(2 * lanes))
    graph.add_edges_from_no_data([(edge.peer, lanes + edge.taker) for edge in edges])
    colours = rustworkx.graph_bipartite_edge_color(graph)
    return [colours[number] for number in range(len(edges))]


def _improve(edges: Sequence[Edge], colours: list[int]) -> list[int]:
    """Fewer (round, register) pairs, offered or kept, by exchanging colours along cycles."""
    if len(edges) > _MOST_EDGES_TO_IMPROVE:
        return colours
    for _ in range(_PASSES):
        improved = False
        for pair in combinations(sorted(set(colours)), 2):
            improved |= _improve_pair(edges, colours, pair)
        if not improved:
            break
    return colours


def _improve_pair(edges: Sequence[Edge], colours: list[int], pair: tuple[int, int]) -> bool:
    offered: Counter[tuple[int, int]] = Counter()
    kept: Counter[tuple[int, int]] = Counter()
    members = [number for number, colour in enumerate(colours) if colour in pair]
    for number in members:
        offered[colours[number], edges[number].word] += 1
        kept[colours[number], edges[number].keep] += 1
    improved = False
    for cycle in _alternating(edges, members):
        before = _pairs_in_use(offered, kept)
        _exchange(edges, colours, pair, cycle, offered, kept)
        if _pairs_in_use(offered, kept) < before:
            improved = True
        else:
            _exchange(edges, colours, pair, cycle, offered, kept)
    return improved


def _pairs_in_use(offered: Counter[tuple[int, int]], kept: Counter[tuple[int, int]]) -> int:
    return sum(1 for uses in (offered, kept) for count in uses.values() if count)


def _exchange(
    edges: Sequence[Edge],
    colours: list[int],
    pair: tuple[int, int],
    cycle: Sequence[int],
    offered: Counter[tuple[int, int]],
    kept: Counter[tuple[int, int]],
) -> None:
    for number in cycle:
        edge, old = edges[number], colours[number]
        new = pair[0] if old == pair[1] else pair[1]
        offered[old, edge.word] -= 1
        kept[old, edge.keep] -= 1
        offered[new, edge.word] += 1
        kept[new, edge.keep] += 1
        colours[number] = new


def _alternating(edges: Sequence[Edge], members: Sequence[int]) -> list[list[int]]:
    """The connected pieces that the edges of two colours form."""
    at_lane: dict[tuple[str, int], list[int]] = {}
    for number in members:
        at_lane.setdefault(("peer", edges[number].peer), []).append(number)
        at_lane.setdefault(("taker", edges[number].taker), []).append(number)
    pieces, seen = [], set()
    for start in members:
        if start in seen:
            continue
        seen.add(start)
        piece, waiting = [], [start]
        while waiting:
            number = waiting.pop()
            piece.append(number)
            for end in (("peer", edges[number].peer), ("taker", edges[number].taker)):
                for other in at_lane[end]:
                    if other not in seen:
                        seen.add(other)
                        waiting.append(other)
        pieces.append(piece)
    return pieces
