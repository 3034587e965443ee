"""Passages through shared memory for layouts of any kind, by trial.

Words lie in the order of the source's or of the destination's slots, which makes that side simple and free
of bank conflicts, with every further row of slots turned by some lanes, so that the other side is free too;
or rows or columns of the tile lie one after the other, each with some padding.

    >>> trial_passage(relation, machine).kind
    'turned source order'
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.shared.accesses import Accesses, Columns, find_accesses
from regweave.rearrangement.shared.passages import (
    WORD,
    Choice,
    Passage,
    barrier_scope,
    make_passage,
    over_threads,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PADDINGS = range(9)
_ENOUGH = 4  # passages to choose from


def trial_passage(relation: Relation, machine: WarpMachine) -> Passage | None:
    """The best of the first passages without bank conflicts; None where they remain in all trials."""
    choice, found, scope = Choice(relation, machine), 0, barrier_scope(relation, machine)
    for kind, sent, taken in _trials(relation, machine):
        stores = _widest(sent, relation, machine, "store")
        loads = None if stores is None else _widest(taken, relation, machine, "load")
        if stores is not None and loads is not None:
            choice.offer(make_passage(relation, kind, stores, loads, scope))
            found += 1
        if found == _ENOUGH:
            break
    return choice.best


def own_passage(relation: Relation, machine: WarpMachine) -> Passage | None:
    """Every lane permutes its own words in a column of its own: a bank for each lane, and no barrier."""
    unit = relation.destination.element_type.bits
    items = over_threads(relation.items, machine)
    # lanes that take no part have columns too, so that what they load belongs to nobody
    sent = _slot_order(relation.source.items, len(items), unit, machine.lanes)
    sides = []
    for addresses in (sent, np.take_along_axis(sent, items, axis=1)):
        tried = (
            find_accesses(addresses, bits, unit)
            for bits in machine.shared_access_bits
            if unit <= bits <= WORD
        )
        sides.append(next((side for side in tried if side is not None), None))
    if sides[0] is None or sides[1] is None:
        return None
    return make_passage(relation, "own column", sides[0], sides[1], None)


def _widest(
    addresses: NDArray[np.int64], relation: Relation, machine: WarpMachine, access: str
) -> Accesses | None:
    """The widest accesses without bank conflicts."""
    unit, over = relation.destination.element_type.bits, over_threads(addresses, machine)
    columns = Columns(over)
    for bits in (width for width in machine.shared_access_bits if width >= unit):
        found = columns.accesses(bits, unit)
        if found is not None and found.conflict_free(machine, access):
            return found
    return None


def _slot_order(items: int, lanes: int, unit: int, columns: int) -> NDArray[np.int64]:
    """Bit addresses of slots: word after word, the words of all lanes side by side."""
    item, lane = np.arange(items) * unit, np.arange(lanes)[:, None]
    row = -(-lanes // columns) * columns
    return (item // WORD * row + lane) * WORD + item % WORD


def _trials(
    relation: Relation, machine: WarpMachine
) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Bit addresses of the source's and of the destination's slots."""
    source, destination = relation.source, relation.destination
    unit, lanes = destination.element_type.bits, relation.lanes
    banks = machine.shared_banks
    # a lane's place in each row of slots is turned, so that lanes which take one lane's words part
    for skew in _PADDINGS:
        for kind in ("turned", "xor"):
            sent = _turned(_slot_order(source.items, lanes, unit, banks), skew, kind, banks)
            yield f"{kind} source order", sent, sent[relation.peers, relation.items]
            if source.bijective and destination.bijective:
                taken = _turned(_slot_order(destination.items, lanes, unit, banks), skew, kind, banks)
                yield f"{kind} destination order", _inverse(relation, taken), taken
    if source.bijective:
        for padding in _PADDINGS:
            for axis in (0, 1):
                rows, columns = np.divmod(np.arange(source.elements), source.shape[1])
                major, minor = (rows, columns) if axis == 0 else (columns, rows)
                stride = -(-source.shape[1 - axis] * unit // WORD) * WORD + padding * WORD
                addresses = major * stride + minor * unit
                yield (
                    f"padded {'rows' if axis == 0 else 'columns'}",
                    addresses[source.table],
                    addresses[destination.table],
                )


def _turned(addresses: NDArray[np.int64], skew: int, kind: str, banks: int) -> NDArray[np.int64]:
    row, rest = np.divmod(addresses, banks * WORD)
    bank, part = np.divmod(rest, WORD)
    moved = (bank + skew * row) % banks if kind == "turned" else bank ^ (skew * row % banks)
    return (row * banks + moved) * WORD + part


def _inverse(relation: Relation, taken: NDArray[np.int64]) -> NDArray[np.int64]:
    sent = np.empty_like(relation.source.table)
    sent[relation.peers, relation.items] = taken
    return sent
