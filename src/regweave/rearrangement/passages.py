"""Ways through shared memory: an address for every slot of both sides, and the accesses that follow.

Linear layouts take the swizzles found by algebra. For others a few arrangements are tried: words in the order
of the source's or of the destination's slots, rows or columns of the tile one after the other, each with a
growing padding or an xor. What is not free of bank conflicts, by simulation, is no passage.

    >>> passages(relation, machine)[0].kind
    'padded'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.accesses import Accesses, find_accesses
from regweave.rearrangement.addressing import Addresses, plan_addresses
from regweave.rearrangement.banks import conflicts
from regweave.rearrangement.matrix_rows import RowSide, as_rows, has_matrices
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.swizzles import arrange

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD = 32
_WIDTHS = (128, 64, 32, 16, 8)
_PADDINGS = range(9)


@dataclass(frozen=True, eq=False)
class Passage:
    """The accesses of both sides in `bytes` bytes, in `steps` steps; `kind` says how addresses came about.

    `scope` is that of the barriers, None where no lane waits for another; `active` threads take part.
    """

    kind: str
    bytes: int
    stores: Accesses
    loads: Accesses
    steps: int
    scope: str | None
    active: int

    @cached_property
    def addresses(self) -> Addresses:
        """The addresses of the stores, then of the loads."""
        return plan_addresses([*self.stores.tables, *self.loads.tables])

    def conflicts(self, machine: WarpMachine) -> int:
        """Bank conflicts of all accesses."""
        return conflicts(self.stores.tables, self.stores.bytes, machine, "store") + conflicts(
            self.loads.tables, self.loads.bytes, machine, "load"
        )

    def instructions(self, relation: Relation) -> int:
        """About how many instructions it takes, to choose among several."""
        sides = (self.loads,) if relation.packing is not None else (self.stores, self.loads)
        unit = relation.destination.element_type.bits
        parts = sum(_part_work(side, unit) for side in sides)
        return len(self.stores.items) + len(self.loads.items) + self.addresses.operations + parts


def linear_passages(relation: Relation, machine: WarpMachine, *, grouped: bool) -> list[Passage]:
    """The passages of linear layouts, few instructions first; none for others."""
    found = _linear(relation, machine, None, None, grouped=grouped)
    if not grouped and relation.lanes == machine.lanes:
        for access, transposed in product(("load", "store"), (False, True)):
            if has_matrices(machine, access, transposed=transposed):
                layout = relation.destination if access == "load" else relation.source
                rows = as_rows(layout, transposed=transposed)
                if rows is not None and (access == "load" or relation.packing is None):
                    sides = (None, rows) if access == "load" else (rows, None)
                    found += _linear(relation, machine, *sides, grouped=False)
    return _best(found, relation, machine)


def _linear(
    relation: Relation, machine: WarpMachine, stored: RowSide | None, taken: RowSide | None, *, grouped: bool
) -> list[Passage]:
    """The passages of linear layouts, where one side may be rows of matrices."""
    unit, found = relation.destination.element_type.bits, []
    source = relation.source if stored is None else stored.layout
    destination = relation.destination if taken is None else taken.layout
    rows = "store" if stored else "load" if taken else None
    wanted = _stored_items(source.table)
    packed = relation.packing is not None
    for way in arrange(source, destination, machine, packed=packed, grouped=grouped, rows=rows):
        sides = [
            find_accesses(_over_threads(way.addresses[layout.table], machine), bits, unit, items,
                          way.steps[layout.table[0]])
            for layout, bits, items in (
                (source, way.store_bits, wanted), (destination, way.load_bits, None)
            )
        ]  # fmt: skip
        if sides[0] is not None and sides[1] is not None and _in_order(sides, (stored, taken)):
            stores, loads = replace(sides[0], rows=stored), replace(sides[1], rows=taken)
            found.append(_passage(relation, machine, way.kind, stores, loads, int(way.steps.max()) + 1))
    return found


def _in_order(sides: Sequence[Accesses | None], rows: Sequence[RowSide | None]) -> bool:
    """Whether rows of matrices hold their words in order, for the word's place says which lane gets it."""
    return all(
        row is None or side is None or all(list(items) == list(range(items[0], items[0] + row.row_items))
                                           and items[0] % row.row_items == 0 for items in side.items)
        for side, row in zip(sides, rows, strict=True)
    )  # fmt: skip


def scattered_passages(relation: Relation, machine: WarpMachine) -> list[Passage]:
    """Passages of any layouts by trial; none where bank conflicts remain in all of them."""
    found = []
    unit = relation.destination.element_type.bits
    for kind, sent, taken in _trials(relation, machine):
        stored = _stored_items(sent)
        sides = []
        for addresses, wanted, access in ((sent, stored, "store"), (taken, None, "load")):
            over = _over_threads(addresses, machine)
            tried = (find_accesses(over, bits, unit, wanted) for bits in _WIDTHS if bits >= unit)
            fitting = (
                side for side in tried
                if side is not None and conflicts(side.tables, side.bytes, machine, access) == 0
            )  # fmt: skip
            sides.append(next(fitting, None))
        if sides[0] is not None and sides[1] is not None:
            found.append(_passage(relation, machine, kind, sides[0], sides[1], 1))
    return _best(found, relation, machine)


def own_passages(relation: Relation, machine: WarpMachine) -> list[Passage]:
    """Every lane permutes its own words in a column of its own: a bank for each lane, and no barrier."""
    unit = relation.destination.element_type.bits
    sent = _slot_order(relation.source.items, relation.lanes, unit, machine.lanes)
    taken = sent[relation.peers, relation.items]
    sides = []
    for addresses in (sent, taken):
        over = _over_threads(addresses, machine)
        tried = (find_accesses(over, bits, unit) for bits in _WIDTHS if unit <= bits <= WORD)
        sides.append(next((side for side in tried if side is not None), None))
    if sides[0] is None or sides[1] is None:
        return []
    return [_passage(relation, machine, "own column", sides[0], sides[1], 1, None)]


def _passage(
    relation: Relation,
    machine: WarpMachine,
    kind: str,
    stores: Accesses,
    loads: Accesses,
    steps: int,
    scope: str | None = "",
) -> Passage:
    warps = np.arange(relation.lanes) // machine.lanes
    within = bool((relation.peers // machine.lanes == warps[:, None]).all())
    if scope == "":
        scope = "warp" if within else "block"
    last = max(int(side.tables.max()) + side.bytes for side in (stores, loads))
    return Passage(kind, -(-last // 16) * 16, stores, loads, steps, scope, relation.lanes)


def _best(found: list[Passage], relation: Relation, machine: WarpMachine) -> list[Passage]:
    """Those without bank conflicts, few instructions and then little memory first."""
    ranked = sorted(found, key=lambda passage: (passage.instructions(relation), passage.bytes))
    return [passage for passage in ranked if passage.conflicts(machine) == 0]


def _stored_items(table: NDArray[np.int64]) -> list[int]:
    """The items that together hold everything, each adding something."""
    seen: set[int] = set()
    kept = []
    for item, column in enumerate(table.T.tolist()):
        if not seen.issuperset(column):
            kept.append(item)
            seen.update(column)
    return kept


def _over_threads(table: NDArray[np.int64], machine: WarpMachine) -> NDArray[np.int64]:
    """The rows of all threads of the warps: those that take no part do as others do."""
    lanes = table.shape[0]
    threads = -(-lanes // machine.lanes) * machine.lanes
    return table[np.arange(threads) % lanes]


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


def _part_work(side: Accesses, unit: int) -> int:
    """About how many instructions put the words of accesses together from registers, or take them apart."""
    per_word = WORD // unit
    work = 0
    if side.rows is not None:  # whole registers
        return 0
    for row in side.items:
        for at in range(0, len(row), per_word):
            word = row[at : at + per_word]
            registers = {item // per_word for item in word}
            straight = [item % per_word for item in word] == list(range(len(word)))
            work += (len(registers) - 1).bit_length() if len(registers) > 1 else not straight
    return work
