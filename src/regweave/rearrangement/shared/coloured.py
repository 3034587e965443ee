"""A passage through shared memory for any relation: which bank each word goes to is an edge colouring.

Every word is stored once and loaded once. The stores that are served together, a phase of one instruction,
must go to different banks, and so must the loads of a phase. So words are edges from phases that store to
phases that load, no phase has more edges than banks, and a colouring of the edges with as many colours as
there are banks (Koenig) is what is asked for: a word lies in the bank of its colour, in a row of its own for
each storing phase.

    lane 0 stores a, b; lane 1 stores c, d; lane 0 loads b, d; lane 1 loads a, c
    phases   s0: a c   s1: b d    l0: b a   l1: d c       banks   a 0  c 1  b 1  d 0

The addresses follow no rule, so every access takes a table of its own (look-ups by the thread's number): this
is for what nothing simpler does, as permutations without structure over several warps. Parts of a word that
stay together everywhere travel together, each set of such parts in a word of the memory. A word that several
phases load is stored once for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import rustworkx

from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.shared.accesses import Accesses
from regweave.rearrangement.shared.banks import phase_numbers
from regweave.rearrangement.shared.passages import WORD, Passage, barrier_scope, make_passage

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD_BYTES = WORD // 8


def coloured_passage(relation: Relation, machine: WarpMachine) -> Passage | None:
    """The passage; None where parts of bytes would have to be taken apart."""
    parts = _travelling_together(relation)
    return None if parts is None else _Colouring(relation, machine, parts).passage()


def _travelling_together(relation: Relation) -> list[tuple[int, ...]] | None:
    """The source items in sets that are wanted side by side, as large as possible; at least a byte each."""
    unit = relation.destination.element_type.bits
    size = WORD // unit
    while size * unit >= 8:
        if relation.destination.items % size == 0:
            found = _sets(relation, size)
            if found is not None:
                return found
        size //= 2
    return None


def _sets(relation: Relation, size: int) -> list[tuple[int, ...]] | None:
    """The sets of `size` source items; None where an item would be in two, or a set comes from two lanes."""
    shape = relation.lanes, -1, size
    peers, items = relation.peers.reshape(shape), relation.items.reshape(shape)
    if (peers != peers[:, :, :1]).any():
        return None
    found = [tuple(row) for row in np.unique(items.reshape(-1, size), axis=0).tolist()]
    taken = [item for row in found for item in row]
    return found if len({*taken}) == len(taken) else None


class _Colouring:
    """`parts[number]` are the source items that travel as one word."""

    def __init__(self, relation: Relation, machine: WarpMachine, parts: list[tuple[int, ...]]) -> None:
        self.relation, self.machine, self.parts = relation, machine, parts
        threads = -(-relation.lanes // machine.lanes) * machine.lanes
        self.storing, self.loading = (
            phase_numbers(threads, machine, access, _WORD_BYTES) for access in ("store", "load")
        )
        size = len(parts[0])
        number = np.zeros(relation.source.items, dtype=np.int64)
        number[[part[0] for part in parts]] = np.arange(len(parts))
        # of each destination word: who holds it, and as which part
        self.peers, self.wanted = relation.peers[:, ::size], number[relation.items[:, ::size]]

    def passage(self) -> Passage:
        """A store access for each part and copy that is loaded, a load access for each destination word."""
        used, stores = np.unique(self.wanted + len(self.parts) * self._copies(), return_inverse=True)
        stores, count = stores.reshape(self.wanted.shape), len(used)
        phases = int(self.storing.max()) + 1
        store_nodes, load_nodes = stores * phases + self.storing[self.peers], self._load_nodes()
        # lanes that load one word in one phase are served together
        _, first, which = np.unique(self.peers * count + stores, return_index=True, return_inverse=True)
        colours = _coloured(store_nodes.ravel()[first], load_nodes.ravel()[first])[
            which.reshape(stores.shape)
        ]
        loaded = (store_nodes * self.machine.shared_banks + colours) * _WORD_BYTES
        sent = np.full((self.relation.lanes, count), -1)
        sent[self.peers, stores] = loaded
        self._fill(sent, phases)
        parts = [self.parts[number % len(self.parts)] for number in used.tolist()]
        size = len(self.parts[0])
        kept = [
            tuple(range(first, first + size)) for first in range(0, self.relation.destination.items, size)
        ]
        return make_passage(
            self.relation,
            "coloured",
            self._accesses(sent, parts, self.storing),
            self._accesses(loaded, kept, self.loading),
            barrier_scope(self.relation, self.machine),
        )

    def _load_nodes(self) -> NDArray[np.int64]:
        """The phase in which each lane loads each word, all accesses counted through."""
        phases = int(self.loading.max()) + 1
        return np.arange(self.wanted.shape[1]) * phases + self.loading[: self.relation.lanes, None]

    def _copies(self) -> NDArray[np.int64]:
        """Which copy of its word each lane loads: one for each phase that loads it."""
        nodes, copies = self._load_nodes(), np.zeros_like(self.wanted)
        seen: dict[tuple[int, int], dict[int, int]] = {}
        for at in np.ndindex(*self.wanted.shape):
            loads = seen.setdefault((int(self.peers[at]), int(self.wanted[at])), {})
            copies[at] = loads.setdefault(int(nodes[at]), len(loads))
        return copies

    def _fill(self, sent: NDArray[np.int64], phases: int) -> None:
        """What nobody loads goes to words of its phase that are free, for all lanes store."""
        banks = self.machine.shared_banks
        for access, phase in np.ndindex(sent.shape[1], phases):
            lanes = np.flatnonzero(self.storing[: len(sent)] == phase)
            row = (access * phases + phase) * banks + np.arange(banks)
            free = np.setdiff1d(row * _WORD_BYTES, sent[lanes, access])
            idle = lanes[sent[lanes, access] < 0]
            sent[idle, access] = free[: len(idle)]

    def _accesses(
        self, addresses: NDArray[np.int64], items: list[tuple[int, ...]], phases: NDArray[np.int64]
    ) -> Accesses:
        """Threads that take no part do as the first one of their phase that does."""
        rows = [self._like(thread, phases) for thread in range(len(phases))]
        bits = len(items[0]) * self.relation.destination.element_type.bits
        same = {item: item for row in items for item in row}
        tables = np.ascontiguousarray(addresses[rows].T)
        every = range(len(items))
        return Accesses(bits, tables, tuple(items), (0,) * len(items), same, tuple(every), np.array(every))

    def _like(self, thread: int, phases: NDArray[np.int64]) -> int:
        lanes = self.relation.lanes
        if thread < lanes:
            return thread
        active = np.flatnonzero(phases[:lanes] == phases[thread])
        return int(active[0]) if active.size else 0


def _coloured(store_nodes: NDArray[np.int64], load_nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """A colour for each word between the phase that stores and that which loads it, in no phase twice."""
    graph = rustworkx.PyGraph(multigraph=True)
    stores = int(store_nodes.max()) + 1
    graph.add_nodes_from(range(stores + int(load_nodes.max()) + 1))
    graph.add_edges_from_no_data(list(zip(store_nodes.tolist(), (stores + load_nodes).tolist(), strict=True)))
    colours = rustworkx.graph_bipartite_edge_color(graph)
    return np.array([colours[number] for number in range(len(store_nodes))])
