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
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from regweave.layouts import Layout
from regweave.layouts.numbers import divided
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.shared.accesses import Accesses, Columns, find_accesses
from regweave.rearrangement.shared.banks import free_accesses
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

# how far rows are turned, or padded
_NUMBERS = np.arange(9, dtype=np.int32)
_Number: TypeAlias = "int | NDArray[Any]"
# the bit addresses of some items of a side in every lane, for one number or for several
_Side: TypeAlias = "Callable[[slice, _Number], NDArray[Any]]"
_ENOUGH = 4  # passages to choose from
_SAMPLES = 4  # items of a side that are looked at before all others
_ALL = slice(None)


def trial_passage(
    relation: Relation,
    machine: WarpMachine,
    tuples: tuple[int, int] = (1, 1),
) -> Passage | None:
    """The best of the first passages without bank conflicts; None without any."""
    choice, found, scope = Choice(relation, machine, tuples), 0, barrier_scope(relation, machine)
    passages: list[Passage] = []
    for kind, number, stored, loaded in _trials(relation, machine):
        stores = _widest(stored(_ALL, number), relation, machine, "store")
        loads = None if stores is None else _widest(loaded(_ALL, number), relation, machine, "load")
        if stores is not None and loads is not None:
            passages.append(make_passage(relation, kind, stores, loads, scope))
            # what is not turned is the same for both ways to turn
            found += 2 if kind.startswith("turned") and number == 0 else 1
        if found >= _ENOUGH:
            break
    choice.offer_all(passages)
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


def _promising(sides: tuple[_Side, _Side], relation: Relation, machine: WarpMachine) -> NDArray[np.bool_]:
    """For each number of a trial whether some width of accesses moves a few items without bank conflicts."""
    found = np.ones(len(_NUMBERS), dtype=np.bool_)
    for side, layout, access in zip(
        sides, (relation.source, relation.destination), ("store", "load"), strict=True
    ):
        addresses = side(slice(None, None, max(layout.items // _SAMPLES, 1)), _NUMBERS[:, None, None])
        addresses = over_threads(np.moveaxis(addresses, 1, 0), machine)
        promising = np.zeros(len(found), dtype=np.bool_)
        for bits in (width for width in machine.shared_access_bits if width >= _unit(relation)):
            places = addresses % bits
            same = (places == places[:1]).all(axis=(0, 2))
            if same.any():
                begins = np.moveaxis(addresses - places, 0, 2) // 8
                free = free_accesses(begins.reshape(-1, len(addresses)), bits // 8, machine, access)
                promising |= same & free.reshape(len(found), -1).all(axis=1)
        found &= promising
    return found


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
    """Names, numbers and sides of the promising trials, those of small numbers first."""
    for find in (partial(_turned_trials, machine=machine), _padded_trials):
        trials = find(relation)
        hopeful = {name: _promising(sides, relation, machine) for name, sides in trials.items()}
        for number in _NUMBERS.tolist():
            for name, sides in trials.items():
                if hopeful[name][number] and (number or not name.startswith("xor")):
                    yield name, number, *sides


def _turned_trials(relation: Relation, machine: WarpMachine) -> dict[str, tuple[_Side, _Side]]:
    """A lane's place in each row of slots is turned, so that lanes which take one lane's words part."""
    source, destination = relation.source, relation.destination
    unit, banks = _unit(relation), machine.shared_banks
    sent = _Slots(relation.lanes, source.items, unit, banks)
    ways = {"source": (sent, sent.at(relation.peers, relation.items))}
    if source.bijective and destination.bijective:
        held = np.empty(source.table.shape, dtype=np.int32)
        held[relation.peers, relation.items] = np.arange(held.size).reshape(relation.peers.shape)
        taken = _Slots(relation.lanes, destination.items, unit, banks)
        ways["destination"] = taken.at(*divided(held, destination.items)), taken
    return {
        f"{kind} {name} order": (partial(stored.turned, kind), partial(loaded.turned, kind))
        for kind in ("turned", "xor")
        for name, (stored, loaded) in ways.items()
    }


def _padded_trials(relation: Relation) -> dict[str, tuple[_Side, _Side]]:
    """Rows or columns of the tile lie one after the other, each with so many words of padding."""
    layouts, unit = (relation.source, relation.destination), _unit(relation)
    if not relation.source.bijective:
        return {}
    stored, loaded = ([_Lines(layout, axis, unit).padded for axis in (0, 1)] for layout in layouts)
    return {"padded rows": (stored[0], loaded[0]), "padded columns": (stored[1], loaded[1])}


class _Lines:
    """The places of slots in rows (axis 0) or columns (axis 1) of the tile."""

    def __init__(self, layout: Layout, axis: int, unit: int) -> None:
        at = divided(layout.table, layout.shape[1])
        self.lines, self.places = at[axis], at[1 - axis] * unit
        self.size = -(-layout.shape[1 - axis] * unit // WORD) * WORD

    def padded(self, some: slice, padding: _Number) -> NDArray[Any]:
        """The addresses of some items, where every line has `padding` words more than it needs."""
        return self.lines[:, some] * (self.size + padding * WORD) + self.places[:, some]


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

    def turned(self, kind: str, some: slice, skew: _Number) -> NDArray[Any]:
        """The addresses of some items, where every row is turned by `skew` banks more than the one before."""
        row, bank = self.rows[:, some], self.places[:, some]
        turn = skew * row
        bank = (bank + turn if kind == "turned" else bank ^ turn % self.banks) % self.banks
        return (row * self.banks + bank) * WORD + self.parts[:, some]
