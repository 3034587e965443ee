"""From a coordination matrix to the program that carries it out.

Each round is: choose the register to offer (selects by s), shuffle (index by f); after the last round,
choose for each register the round that filled it (selects by h). The matrix speaks of one group. Lane
tables cover the whole warp, each lane reading the row of its place in its own copy of the group; copies
at other registers are the same steps on other words, and they share indices and predicates.

Copies that are aligned segments of 4, 8, ... lanes exchange inside their segment, so that the index is
needed only modulo its size and costs less to compute. A round in which all lanes take by a pattern that the
machine knows (DPP, permlane) needs no index at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from regweave.errors import UnsupportedError
from regweave.machines.gpu import WarpMachine
from regweave.programs import Array, Memory, Program, ProgramBuilder, Value
from regweave.rearrangement.exchange.fixed_moves import Move, fixed_move
from regweave.rearrangement.expressions.nodes import Expression, lower_expression
from regweave.rearrangement.expressions.synthesis import synthesise
from regweave.rearrangement.folds import Fold
from regweave.rearrangement.group import Group
from regweave.rearrangement.networks.assembling import assemble
from regweave.rearrangement.networks.selects import SelectNetwork, choose
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.schedule.matrix import CoordinationMatrix
from regweave.rearrangement.words import Words

Lanes = list[int | None]


@dataclass(frozen=True)
class Indexing:
    """Who takes from whom: one expression of the lane per round, valid modulo `width`, the segment's size.

    `moves` has for each round the instruction that takes so without an index, or None.
    """

    width: int
    expressions: tuple[Expression, ...]
    moves: tuple[Move | None, ...]

    def take(self, builder: ProgramBuilder, word: Value, number: int) -> Value:
        """What each lane takes in round `number` where all offer `word`."""
        move = self.moves[number]
        if move is not None:
            return builder.step(move[0], (word,), move[1])
        peer = lower_expression(self.expressions[number], builder)
        return builder.step("shuffle", (word, peer), (self.width,))


def find_indexing(matrix: CoordinationMatrix, group: Group, machine: WarpMachine) -> Indexing:
    """f of every round, each cheap given the rounds before it."""
    segment = group.segment
    width = segment if segment in machine.shuffle_widths else machine.lanes
    known: list[Expression] = []
    moves: list[Move | None] = []
    for number in range(matrix.rounds):
        table: Lanes = [None] * machine.lanes
        for offset in group.lane_offsets:
            for lane, entry in zip(matrix.lanes, matrix.column(number), strict=True):
                if entry is not None:
                    table[lane + offset] = entry.peer + offset
        moves.append(fixed_move(table, machine.exchanges))
        if width == segment:
            table = [None if peer is None else peer % width for peer in table]
        known.append(synthesise(table, width - 1, machine.costs, tuple(dict.fromkeys(known))))
    return Indexing(width, tuple(known), tuple(moves))


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of a matrix by which the words of a group travel, with what they need of a machine."""

    words: Words
    group: Group
    matrix: CoordinationMatrix
    machine: WarpMachine

    @cached_property
    def offering(self) -> SelectNetwork:
        """What is offered in each round, of the group's words."""
        offered = _offered(self.matrix, self.group, self.machine)
        return choose(offered, len(self.group.registers), self.machine.costs)

    @cached_property
    def keeping(self) -> SelectNetwork:
        """What becomes each register of the group, of what the rounds bring and of its own words."""
        kept = _kept(self.matrix, self.group, self.machine)
        return choose(kept, self.matrix.rounds + len(self.group.registers), self.machine.costs)

    @property
    def copies(self) -> int:
        """Copies of the group in a lane."""
        return len(self.group.register_offsets)

    @property
    def selects(self) -> int:
        """Selects in all copies."""
        return (len(self.offering.nodes) + len(self.keeping.nodes)) * self.copies


def lower_exchange(name: str, relation: Relation, rounds: Rounds, *, locals_travel: bool) -> Program:
    """The program of one exchange: every round one shuffle, every choice selects, no memory.

    Unless `locals_travel`, a round in which every lane takes from itself needs no shuffle: what would be
    offered is kept.
    """
    words, group, matrix, machine = rounds.words, rounds.group, rounds.matrix, rounds.machine
    builder = program_builder(name, relation, relation.destination.registers, machine)
    indexing = find_indexing(matrix, group, machine)
    results: dict[int, Value] = {}
    for offset in group.register_offsets:
        own = [
            word_value(builder, relation, words.contents[register + offset]) for register in group.registers
        ]
        offers = rounds.offering.lower(builder, own)
        taken = [
            indexing.take(builder, offer, number) if locals_travel or not matrix.is_local(number) else offer
            for number, offer in enumerate(offers)
        ]
        kept = rounds.keeping.lower(builder, [*taken, *own])
        results.update(
            {register + offset: value for register, value in zip(group.registers, kept, strict=True)}
        )
    return finish(builder, relation, results)


def lower_fold(name: str, relation: Relation, fold: Fold, machine: WarpMachine) -> Program | str:
    """The program that reads the source's items as the destination's, or why their words do not allow it."""
    items = words_of(fold.items, relation)
    relation = relation.in_words
    size = relation.destination.element_type.per_register
    groups = [items[first : first + size] for first in range(0, len(items), size)]
    builder = program_builder(name, relation, len(groups), machine)
    if relation.packing is not None:
        words = [word_value(builder, relation, group) for group in groups]
    else:
        bits = relation.destination.element_type.bits
        held = {
            item: (word_value(builder, relation, [item - item % size]), item % size * bits)
            for group in groups
            for item in group
        }
        try:
            words = assemble(builder, groups, held, bits)
        except UnsupportedError as error:
            return error.what
    return finish(builder, relation, dict(enumerate(words)))


def words_of(items: Sequence[int], relation: Relation) -> tuple[int, ...]:
    """Items as those of the relation in words: two for one where an element takes two registers."""
    size = relation.destination.element_type.registers
    return tuple(item * size + half for item in items for half in range(size))


def program_builder(
    name: str,
    relation: Relation,
    words: int,
    machine: WarpMachine,
    memories: Sequence[Memory] = (),
    warps: int = 1,
) -> ProgramBuilder:
    """A builder with the relation's words as arrays: `source[...]` and `destination[...]`."""
    source, destination = relation.source, relation.destination
    source_type = "f32" if source.dtype == "f32" else "b32"
    destination_type = "f32" if destination.dtype == "f32" else "b32"
    return ProgramBuilder(
        name,
        machine.lanes,
        Array("source", source_type, source.registers),
        Array("destination", destination_type, words),
        memories,
        warps=warps,
    )


def finish(builder: ProgramBuilder, relation: Relation, results: Mapping[int, Value]) -> Program:
    """The program whose destination words are `results`, raw bits by number; more may be given."""
    numbers = range(relation.destination.registers)
    return builder.finish([result_value(builder, relation, results[number]) for number in numbers])


def word_value(builder: ProgramBuilder, relation: Relation, contents: Sequence[int]) -> Value:
    """The word made of these source items as raw bits, packed where elements change their type.

    Without items it is zero. Of more than two items the upper ones are packed first, the others below them.
    """
    if not contents:
        return builder.constant(0)
    if relation.packing is not None:
        return _packed(builder, relation, [builder.word(item) for item in contents])
    value = builder.word(contents[0] // relation.source.element_type.per_register)
    return builder.step("bits", (value,)) if value.type == "f32" else value


def _packed(builder: ProgramBuilder, relation: Relation, values: list[Value]) -> Value:
    assert relation.packing is not None
    if len(values) % 2:
        zero = builder.constant(0)
        values.append(zero if values[0].type == "b32" else builder.step("number", (zero,)))
    if relation.destination.element_type.per_register == 2:
        return builder.step(relation.packing, values)
    word = builder.constant(0)
    for first in reversed(range(0, len(values), 2)):
        word = builder.step(relation.packing, (*values[first : first + 2], word))
    return word


def result_value(builder: ProgramBuilder, relation: Relation, value: Value) -> Value:
    """Raw bits as a word of the destination's type."""
    return builder.step("number", (value,)) if relation.destination.dtype == "f32" else value


def _offered(matrix: CoordinationMatrix, group: Group, machine: WarpMachine) -> list[Lanes]:
    """For every round, the place in the group of the word that each lane of the warp offers."""
    choices = []
    for number in range(matrix.rounds):
        choice = {lane: group.registers.index(word) for lane, word in matrix.offers(number).items()}
        choices.append(_over_warp(choice, group, machine))
    return choices


def _kept(matrix: CoordinationMatrix, group: Group, machine: WarpMachine) -> list[Lanes]:
    """For every register of the group, the round that fills it in each lane, or rounds + an own word."""
    choices = []
    for register in group.registers:
        choice: dict[int, int] = {}
        for index, (lane, row, stays) in enumerate(zip(matrix.lanes, matrix.rows, matrix.stays, strict=True)):
            again = {entry[:2] for entry in matrix.copies_of(index) if entry.keep == register}
            for number, entry in enumerate(row):
                if entry is not None and (entry.keep == register or entry[:2] in again):
                    choice[lane] = number
            for entry in stays:
                if entry.keep == register:
                    choice[lane] = matrix.rounds + group.registers.index(entry.word)
        choices.append(_over_warp(choice, group, machine))
    return choices


def _over_warp(choice: dict[int, int], group: Group, machine: WarpMachine) -> Lanes:
    table: Lanes = [None] * machine.lanes
    for offset in group.lane_offsets:
        for lane, wanted in choice.items():
            table[lane + offset] = wanted
    return table
