"""Ways through shared memory: an address for every slot of both sides, and the accesses that follow.

Linear layouts take the swizzles found by algebra; what is not linear is tried (`trials`). What is not free of
bank conflicts, by simulation, is no passage; of the others the one with fewest instructions is taken, and
with least memory among equals.

    >>> linear_passage(relation, machine).kind
    'padded'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from regweave.layouts import Layout
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.shared.accesses import Accesses, find_accesses
from regweave.rearrangement.shared.addressing import Addresses, addresses_within
from regweave.rearrangement.shared.estimates import Estimate, Moved, conversions, estimate, part_work
from regweave.rearrangement.shared.matrix_rows import RowSide, as_rows, has_matrices
from regweave.rearrangement.shared.swizzles import arrange, vectors_of
from regweave.rearrangement.turning import Turned

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD = 32
# what passages take at least, and each by its number where it is one
_Try: TypeAlias = "tuple[Sequence[Estimate], Callable[[int], Passage | None]]"


@dataclass(frozen=True, eq=False)
class Passage:
    """The accesses of both sides in `bytes` bytes, in `steps` steps; `kind` says how addresses came about.

    `scope` is that of the barriers, None where no lane waits for another; `active` threads take part.
    Elements of less than a byte may have bytes of their own in memory: then the items are those of the
    relation of `pieces` (spreading.py). Or they are `turned` into bytes that travel whole: then the items are
    these bytes.
    """

    kind: str
    bytes: int
    stores: Accesses
    loads: Accesses
    steps: int
    scope: str | None
    active: int
    pieces: int = 1
    turned: Turned | None = None
    _found: list[Addresses] = field(default_factory=list, init=False, repr=False)
    _counted: dict[tuple[int, bool, tuple[int, int]], int] = field(
        default_factory=dict, init=False, repr=False
    )

    def said(self, **how: Any) -> Passage:
        """The same passage with more said about its elements: `pieces` or `turned`."""
        made = replace(self, **how)
        made._found.extend(self._found)
        return made

    @property
    def addresses(self) -> Addresses:
        """The addresses of the stores, then of the loads."""
        found = self.addresses_within(None)
        assert found is not None, "without a limit they are always found"
        return found

    def addresses_within(self, most: int | None) -> Addresses | None:
        """The same, found once; None if they take more than `most` operations."""
        if not self._found:
            stores, loads = self.stores, self.loads
            alike = np.concatenate([stores.alike, loads.alike + len(stores.alike) + int(stores.alike.max())])
            found = addresses_within(np.concatenate([stores.tables, loads.tables]), alike, most)
            if found is None:
                return None
            self._found.append(found)
        return self._found[0]

    @property
    def size(self) -> int:
        """Bytes of its tables."""
        tables = [self.stores.tables, self.loads.tables]
        if self.turned is not None:
            relation = self.turned.relation
            tables += [relation.source.table, relation.destination.table, relation.peers, relation.items]
        return sum(table.nbytes for table in tables)

    def conflict_free(self, machine: WarpMachine) -> bool:
        """Whether no access has a bank conflict."""
        return self.stores.conflict_free(machine, "store") and self.loads.conflict_free(machine, "load")

    def least(self, relation: Relation, tuples: tuple[int, int] = (1, 1)) -> int:
        """About how many instructions it takes, but for those of addresses.

        Registers stand in tuples of these sizes on the two sides.
        """
        unit, packed = relation.destination.element_type.bits, relation.packing is not None
        known = unit, packed, tuples
        if known not in self._counted:
            self._counted[known] = self._least(*known)
        return self._counted[known]

    def _least(self, unit: int, packed: bool, tuples: tuple[int, int]) -> int:
        count = len(self.stores.items) + len(self.loads.items)
        sides = [(self.loads, tuples[1])]
        if packed:
            count += conversions(len(self.stores.items), self.stores.bits, unit)
        else:
            sides.append((self.stores, tuples[0]))
        for side, size in sides:
            if side.rows is None:
                count += part_work(np.array(side.items), side.bits, unit, size)
        return count

    def instructions(
        self, relation: Relation, tuples: tuple[int, int] = (1, 1), most: int | None = None
    ) -> int | None:
        """All of them, to choose among several; None for more than `most`."""
        count = self.least(relation, tuples)
        if most is not None and count > most:
            return None
        found = self.addresses_within(None if most is None else most - count)
        return None if found is None else count + found.operations

    def permutes(self, relation: Relation) -> int:
        """Permutes that put words together, at least: those stored, and the destination's registers.

        `relation` is that of the elements as they lie in memory.
        """
        unit, least = relation.destination.element_type.bits, 0
        if relation.packing is None and relation.source.bijective and self.stores.rows is None:
            least += int(np.count_nonzero(~_straight_words(self.stores, unit)))
        items, per_word = relation.destination.items, WORD // unit
        if relation.destination.bijective and self.loads.rows is None and items % per_word == 0:
            whole = np.count_nonzero(_straight_words(self.loads, unit)) if self.loads.bits >= WORD else 0
            least += items // per_word - int(whole)
        return least


class Choice:
    """The best passage so far: free of bank conflicts, fewest instructions, then least memory.

    `tuples` are the sizes of register tuples on the two sides, which wide accesses may have to copy. Several
    `copies` must find room.
    """

    def __init__(
        self, relation: Relation, machine: WarpMachine, tuples: tuple[int, int] = (1, 1), copies: int = 1
    ) -> None:
        self.relation, self.machine, self.tuples, self.copies = relation, machine, tuples, copies
        self.best: Passage | None = None
        self._score, self._offered = (0, 0, 0), 0

    def hopeless(self, accesses: int) -> bool:
        """Whether so many accesses, with one instruction for an address, are more than the best one takes."""
        return self.best is not None and accesses + 1 >= self._score[0]

    @cached_property
    def scope(self) -> str:
        """That of the barriers."""
        return barrier_scope(self.relation, self.machine)

    def offer(self, passage: Passage) -> None:
        """Take this one if it is better than those before it."""
        self.offer_all([passage])

    def offer_all(self, passages: Sequence[Passage]) -> None:
        """The best of these, the first of equal ones."""
        self.offer_estimated([self.estimate(each) for each in passages], passages.__getitem__)

    def estimate(self, passage: Passage) -> Estimate:
        """What a passage takes at least, its addresses not looked at."""
        return Estimate(passage.least(self.relation, self.tuples), passage.bytes)

    def offer_estimated(
        self, estimates: Sequence[Estimate], passage: Callable[[int], Passage | None]
    ) -> None:
        """The best of those that `passage` makes, the first of equal ones, or that before them.

        It is asked for none that its estimate rules out.
        """
        first = self._offered
        self._offered += len(estimates)
        for number in sorted(range(len(estimates)), key=lambda number: estimates[number][:2]):
            if self.best is not None and (*estimates[number][:2], first + number) >= self._score:
                return
            made = passage(number)
            if made is not None:
                self._take(made, first + number)

    def _take(self, passage: Passage, number: int) -> None:
        """Take it if it is the best, and the first of equal ones by its number."""
        if self.copies > 1 and passage.bytes * self.copies > self.machine.shared_bytes:
            return
        most = None if self.best is None else self._score[0]
        count = passage.instructions(self.relation, self.tuples, most)
        if count is None:
            return
        score = count, passage.bytes, number
        if (self.best is None or score < self._score) and passage.conflict_free(self.machine):
            self.best, self._score = passage, score


def linear_passage(
    relation: Relation, machine: WarpMachine, tuples: tuple[int, int] = (1, 1), *, grouped: bool = False
) -> Passage | None:
    """The best passage of linear layouts, all at once or `grouped`; None without any."""
    choice = Choice(relation, machine, tuples)
    for estimates, passage in _tries(choice, grouped=grouped):
        choice.offer_estimated(estimates, passage)
    return choice.best


class LinearCopies:
    """The best passage of linear layouts that finds room for `copies`, looked for when it is asked for."""

    def __init__(
        self, relation: Relation, machine: WarpMachine, tuples: tuple[int, int], copies: int
    ) -> None:
        self._choice = Choice(relation, machine, tuples, copies)
        self._found = tuple(_tries(self._choice, grouped=False))

    @property
    def least(self) -> int | None:
        """Instructions that each copy takes, addresses not counted; None where there is no passage."""
        return min((each.repeated for estimates, _ in self._found for each in estimates), default=None)

    @cached_property
    def passage(self) -> Passage | None:
        """The passage of one copy."""
        for estimates, passage in self._found:
            self._choice.offer_estimated(estimates, passage)
        return self._choice.best


def _tries(choice: Choice, *, grouped: bool) -> Iterator[_Try]:
    """Arrangements of the layouts as they are, then with one side as rows of matrices."""
    relation, machine = choice.relation, choice.machine
    yield _linear(choice, None, None, grouped=grouped)
    if not grouped and relation.lanes == machine.lanes:
        for access, transposed in product(("load", "store"), (False, True)):
            if has_matrices(machine, access, transposed=transposed):
                layout = relation.destination if access == "load" else relation.source
                rows = as_rows(layout, transposed=transposed)
                if rows is not None and (access == "load" or relation.packing is None):
                    yield _linear(
                        choice, *((None, rows) if access == "load" else (rows, None)), grouped=False
                    )


def _linear(choice: Choice, stored: RowSide | None, taken: RowSide | None, *, grouped: bool) -> _Try:
    """The passages of linear layouts, where one side may be rows of matrices, estimated."""
    relation, machine = choice.relation, choice.machine
    unit, packed = relation.destination.element_type.bits, relation.packing is not None
    source = relation.source if stored is None else stored.layout
    destination = relation.destination if taken is None else taken.layout
    sent, held = vectors_of(source), vectors_of(destination)
    if sent is None or held is None:
        return (), lambda number: None
    rows = "store" if stored else "load" if taken else None
    wanted = stored_items(source)
    ways = list(arrange(
        sent, held, unit, machine, packed=packed, grouped=grouped, rows=rows, copies=choice.copies,
        hopeless=lambda store, load: choice.hopeless(
            len(wanted) * unit // store + destination.items * unit // load
        ),
    ))  # fmt: skip
    tuples = None if stored or packed else choice.tuples[0], None if taken else choice.tuples[1]
    moved = Moved(*sent, wanted, tuples[0]), Moved(*held, None, tuples[1])
    threads = -(-relation.lanes // machine.lanes) * machine.lanes

    def passage(number: int) -> Passage | None:
        way, found = ways[number], list[Accesses | None]()
        for layout, bits, items in ((source, way.store_bits, wanted), (destination, way.load_bits, None)):
            addresses = over_threads(way.addresses[layout.table], machine)
            found.append(find_accesses(addresses, bits, unit, items, way.steps[layout.table[0]]))
        if found[0] is None or found[1] is None or not _in_order(found, (stored, taken)):
            return None
        stores, loads = replace(found[0], rows=stored), replace(found[1], rows=taken)
        return make_passage(relation, way.kind, stores, loads, choice.scope, int(way.steps.max()) + 1)

    told = [estimate(way, *moved, unit, threads, packed=packed) for way in ways]
    ways = [way for way, each in zip(ways, told, strict=True) if each is not None]
    return [each for each in told if each is not None], passage


def _in_order(sides: Sequence[Accesses | None], rows: Sequence[RowSide | None]) -> bool:
    """Whether rows of matrices hold their words in order, for the word's place says which lane gets it."""
    for side, row in zip(sides, rows, strict=True):
        if side is not None and row is not None:
            size = row.row_items
            wanted = (range(items[0] // size * size, items[0] // size * size + size) for items in side.items)
            if any(items != tuple(line) for items, line in zip(side.items, wanted, strict=True)):
                return False
            if any(item != moved for item, moved in side.same.items()):  # a row would have to be read twice
                return False
    return True


def make_passage(
    relation: Relation, kind: str, stores: Accesses, loads: Accesses, scope: str | None, steps: int = 1
) -> Passage:
    """The passage, with as much memory as it needs."""
    last = max(int(side.tables.max()) + side.bytes for side in (stores, loads))
    return Passage(kind, -(-last // 16) * 16, stores, loads, steps, scope, relation.lanes)


def barrier_scope(relation: Relation, machine: WarpMachine) -> str:
    """Who waits for whom: the warp if every warp keeps to itself, else the block."""
    warps = np.arange(relation.lanes)[:, None] // machine.lanes
    if not (relation.peers // machine.lanes == warps).all():
        return "block"
    if relation.source.bijective:
        return "warp"
    table = relation.source.table
    first, last = np.full(relation.source.elements, relation.lanes), np.zeros(relation.source.elements, int)
    np.minimum.at(first, table, warps)
    np.maximum.at(last, table, warps)  # warps that hold one element store it in one place
    return "warp" if bool((first == last).all()) else "block"


def stored_items(layout: Layout) -> list[int]:
    """The items that together hold everything, each adding something."""
    if layout.bijective:
        return list(range(layout.items))
    seen: set[int] = set()
    kept = []
    for item, column in enumerate(layout.table.T.tolist()):
        if not seen.issuperset(column):
            kept.append(item)
            seen.update(column)
    return kept


def over_threads(table: NDArray[np.int64], machine: WarpMachine) -> NDArray[np.int64]:
    """The rows of all threads of the warps: those that take no part do as others do."""
    lanes = table.shape[0]
    threads = -(-lanes // machine.lanes) * machine.lanes
    return table if threads == lanes else table[np.arange(threads) % lanes]


def _straight_words(side: Accesses, unit: int) -> NDArray[np.bool_]:
    """`[accesses, words]`: whether a word is one of a register's, from its beginning on."""
    words = np.array(side.items).reshape(len(side.items), -1, min(WORD, side.bits) // unit)
    return (words == words[..., :1] + np.arange(words.shape[2])).all(axis=2) & (
        words[..., 0] % (WORD // unit) == 0
    )
