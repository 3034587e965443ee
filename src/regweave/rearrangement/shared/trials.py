"""Passages through shared memory for layouts of any kind, by trial.

Words lie in the order of the source's or of the destination's slots, which makes that side simple and free
of bank conflicts, with every further row of slots turned by some lanes, so that the other side is free too;
or rows or columns of the tile lie one after the other, each with some padding.

    >>> trial_passage(relation, machine).kind
    'turned source order'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.layouts.numbers import divided
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.shared.accesses import Accesses, Columns, find_accesses
from regweave.rearrangement.shared.banks import conflict_free
from regweave.rearrangement.shared.copies import Copied
from regweave.rearrangement.shared.estimates import Estimate
from regweave.rearrangement.shared.passages import (
    WORD,
    Choice,
    Passage,
    make_passage,
    over_threads,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# the bit addresses of some items of a side in every lane
_Side = Callable[[slice], "NDArray[Any]"]

_PADDINGS = range(9)
_ENOUGH = 4  # passages to choose from
_SAMPLES = 4  # items of a side that are looked at before all others
_ALL = slice(None)


def trial_passage(
    relation: Relation,
    machine: WarpMachine,
    tuples: tuple[int, int] = (1, 1),
    copied: Copied | None = None,
) -> Passage | None:
    """The best of the first passages without bank conflicts, and of a tile of copies; None without any."""
    choice, found = Choice(relation, machine, tuples), 0
    passages: list[Passage] = []
    for kind, number, stored, loaded in _trials(relation, machine):
        if not _promising(stored, relation.source.items, relation, machine, "store"):
            continue
        if not _promising(loaded, relation.destination.items, relation, machine, "load"):
            continue
        stores = _widest(stored(_ALL), relation, machine, "store")
        loads = None if stores is None else _widest(loaded(_ALL), relation, machine, "load")
        if stores is not None and loads is not None:
            passages.append(make_passage(relation, kind, stores, loads, choice.scope))
            found += number
        if found >= _ENOUGH:
            break
    estimates = [choice.estimate(each) for each in passages]
    if copied is None or copied.least is None:
        choice.offer_estimated(estimates, passages.__getitem__)
    else:
        choice.offer_estimated(
            [Estimate(copied.least), *estimates],
            lambda number: passages[number - 1] if number else copied.passage,
        )
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


def _promising(side: _Side, items: int, relation: Relation, machine: WarpMachine, access: str) -> bool:
    """Whether some width of accesses can move a few of the items without bank conflicts."""
    addresses = over_threads(side(slice(None, None, max(items // _SAMPLES, 1))), machine)
    # the bits of addresses that are not the same in all threads
    apart = int(np.bitwise_or.reduce(addresses ^ addresses[:1], axis=None))
    for bits in (width for width in machine.shared_access_bits if width >= _unit(relation)):
        if apart & (bits - 1) == 0:  # all begin at one place within what is moved
            begins = np.ascontiguousarray((addresses - addresses[:1] % bits).T) // 8
            if conflict_free(begins, bits // 8, machine, access):
                return True
    return False


def _widest(
    addresses: NDArray[np.int64], relation: Relation, machine: WarpMachine, access: str
) -> Accesses | None:
    """The widest accesses without bank conflicts."""
    unit = _unit(relation)
    columns = Columns(over_threads(addresses, machine))
    for bits in (width for width in machine.shared_access_bits if width >= unit):
        found = columns.accesses(bits, unit)
        if found is not None and found.conflict_free(machine, access):
            return found
    return None


def _unit(relation: Relation) -> int:
    return relation.destination.element_type.bits


def _slot_order(items: int, lanes: int, unit: int, columns: int) -> NDArray[np.int64]:
    """Bit addresses of slots: word after word, the words of all lanes side by side."""
    item, lane = np.arange(items) * unit, np.arange(lanes)[:, None]
    row = -(-lanes // columns) * columns
    return (item // WORD * row + lane) * WORD + item % WORD


def _trials(relation: Relation, machine: WarpMachine) -> Iterator[tuple[str, int, _Side, _Side]]:
    """Bit addresses of the source's and of the destination's slots, and how many trials they stand for."""
    source, destination = relation.source, relation.destination
    unit, banks = _unit(relation), machine.shared_banks
    sent = _Slots(relation.lanes, source.items, unit, banks)
    ways = [("source order", sent, sent.at(relation.peers, relation.items))]
    if source.bijective and destination.bijective:
        held = np.empty(source.table.shape, dtype=np.int32)
        held[relation.peers, relation.items] = np.arange(held.size).reshape(relation.peers.shape)
        taken = _Slots(relation.lanes, destination.items, unit, banks)
        ways.append(("destination order", taken.at(*divided(held, destination.items)), taken))
    # a lane's place in each row of slots is turned, so that lanes which take one lane's words part
    for skew in _PADDINGS:
        for kind in ("turned", "xor") if skew else ("turned",):
            for order, *sides in ways:
                stored, loaded = (partial(side.turned, skew, kind) for side in sides)
                yield f"{kind} {order}", 1 if skew else 2, stored, loaded
    if source.bijective:
        places = [divided(layout.table, layout.shape[1]) for layout in (source, destination)]
        for padding in _PADDINGS:
            for axis in (0, 1):
                stride = -(-source.shape[1 - axis] * unit // WORD) * WORD + padding * WORD
                weights = (stride, unit) if axis == 0 else (unit, stride)
                stored, loaded = (partial(_of_elements, weights, *side) for side in places)
                yield f"padded {'rows' if axis == 0 else 'columns'}", 1, stored, loaded


def _of_elements(
    weights: tuple[int, int], rows: NDArray[np.int64], columns: NDArray[np.int64], some: slice
) -> NDArray[np.int64]:
    return rows[:, some] * weights[0] + columns[:, some] * weights[1]


class _Slots:
    """The places of slots in rows of as many words as there are banks: row, bank, and part of a word.

    Word lies after word, the words of all lanes side by side.
    """

    def __init__(self, lanes: int, items: int, unit: int, banks: int) -> None:
        self.banks = banks
        self.row_of_lane, self.bank_of_lane = divided(np.arange(lanes, dtype=np.int32), banks)
        words, parts = divided(np.arange(items, dtype=np.int32) * unit, WORD)
        self.row_of_item, self.part_of_item = words * -(-lanes // banks), parts
        self.rows = self.row_of_lane[:, None] + self.row_of_item
        self.places = np.broadcast_to(self.bank_of_lane[:, None], self.rows.shape)
        self.parts = np.broadcast_to(self.part_of_item, self.rows.shape)

    def at(self, lanes: NDArray[Any], items: NDArray[Any]) -> _Slots:
        """The places of these slots."""
        found = copy(self)
        found.rows = self.row_of_item[items] + self.row_of_lane[lanes]
        found.places, found.parts = self.bank_of_lane[lanes], self.part_of_item[items]
        return found

    def turned(self, skew: int, kind: str, some: slice) -> NDArray[np.int32]:
        """The addresses of some items, where every row is turned by `skew` banks more than the one before."""
        row, bank = self.rows[:, some], self.places[:, some]
        if skew:
            turn = skew * row
            bank = self._wrapped(bank + turn if kind == "turned" else bank ^ self._wrapped(turn))
        return (row * self.banks + bank) * WORD + self.parts[:, some]

    def _wrapped(self, banks: NDArray[Any]) -> NDArray[Any]:
        """Banks counted on from the last to the first; a division takes longer than all else here."""
        whole = self.banks & (self.banks - 1)
        return banks % self.banks if whole else banks & (self.banks - 1)
