"""The strategy *shared*: words go through shared memory, arranged so that no side has a bank conflict.

Every lane stores what it has, the lanes wait for one another, every lane loads what it needs:

    shared_store shared %5, %1, %2, %3, %4 bytes 16 offset 0
    barrier warp
    %9, %10, %11, %12 = shared_load shared %8 bytes 16 offset 0

*Whole-warp* moves everything at once. *Grouped* moves one part after the other through the same memory, each
part with all lanes at work: less memory, more barriers. *Single-lane* is for relations in which every lane
keeps its elements but needs them in registers that depend on the lane: it stores them into a column of its
own and loads them in its own order, with nobody to wait for. Layouts over several warps wait for the block.

Parts of registers are put together by byte permutes before and after, unless they are packed on the way
anyway. Elements of less than a byte that part are turned into bytes that travel whole (whole_bytes.py), or
lie in bytes of their own in between (spreading.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from regweave.errors import UnsupportedError
from regweave.machines.gpu import WarpMachine
from regweave.programs import Memory, Program, ProgramBuilder, Value
from regweave.rearrangement.candidates import Candidate, function_name
from regweave.rearrangement.cost import Cost, cost_of
from regweave.rearrangement.exchange.lowering import program_builder, result_value, word_value
from regweave.rearrangement.networks.assembling import Held, assemble
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.remembered import Remembered
from regweave.rearrangement.request import Request
from regweave.rearrangement.shared.addressing import lower_addresses
from regweave.rearrangement.shared.coloured import coloured_passage
from regweave.rearrangement.shared.copies import find_copies
from regweave.rearrangement.shared.likeness import memory_of
from regweave.rearrangement.shared.matrix_rows import MATRICES
from regweave.rearrangement.shared.passages import WORD, Passage, linear_passage
from regweave.rearrangement.shared.trials import own_passage, trial_passage
from regweave.rearrangement.slots import first_where
from regweave.rearrangement.spreading import (
    BYTE,
    bytes_part,
    in_bytes,
    join,
    least_spread,
    pieces_of,
    spread,
    spreading_steps,
)
from regweave.rearrangement.tuples import tuple_moves
from regweave.rearrangement.whole_bytes import turned_bytes

Find: TypeAlias = "Callable[[Request, Relation], tuple[str, Passage] | str]"

MEMORY = "shared"
FORMS = ("whole-warp", "grouped", "single-lane")
_APART = "parts of bytes would have to be taken apart"
_TOO_LARGE = "the elements have no room"
# passages, as long as their tables have so many bytes
_PASSAGES = Remembered["tuple[str, Passage] | str"](
    512, lambda found: 0 if isinstance(found, str) else found[1].size, 1 << 25
)


@dataclass(frozen=True, eq=False)
class SharedWay:
    """One of FORMS, not yet written."""

    request: Request
    relation: Relation
    form: str
    _written: dict[Passage, tuple[Program, Cost]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def passage(self) -> tuple[str, Passage] | str:
        """How it goes through shared memory, said in words and exactly; or why it does not."""
        machine, kind = self.request.machine, self.relation.destination.element_type
        if machine.shared_bytes == 0:
            return f"{machine.name} has no shared memory"
        if kind.bits > WORD:
            return f"{self.relation.destination.dtype} elements take two registers each"
        find: dict[str, Find] = dict(zip(FORMS, (_whole, _grouped, _single), strict=True))
        memory = memory_of(machine, self.relation.source.elements, written=bytes_part(self.relation))
        found = _PASSAGES.found(
            (self.relation.key, memory, _tuples(self.request), self.form),
            lambda: self._search(find[self.form]),
        )
        if found is _TOO_LARGE:
            return _too_much(self._elements, machine)
        if not isinstance(found, str) and found[1].bytes > machine.shared_bytes:
            return _too_much(found[1].bytes, machine)
        return found

    @property
    def _elements(self) -> int:
        """Bytes of all elements as they lie in memory."""
        bits = self.relation.destination.element_type.bits
        return (
            self.relation.source.elements * (max(bits, BYTE) if bytes_part(self.relation) else bits) // BYTE
        )

    @property
    def _lies(self) -> Relation | None:
        """The relation as its elements lie in memory: less than a byte that parts has a byte of its own."""
        return in_bytes(self.relation) if bytes_part(self.relation) else self.relation

    def _search(self, find: Find) -> tuple[str, Passage] | str:
        """The way in bytes of their own, or in bytes that travel whole where those are turned by less."""
        turned = turned_bytes(self.relation) if self.form == FORMS[0] and bytes_part(self.relation) else None
        whole = None if turned is None else find(self.request, turned.relation)
        if whole is None or isinstance(whole, str):
            return self._spread(find)
        whole = whole[0], whole[1].said(turned=turned)
        most = self._instructions(whole[1])
        if most <= least_spread(self.relation):
            return whole
        spread = self._spread(find)
        return whole if isinstance(spread, str) or most <= self._instructions(spread[1]) else spread

    def _spread(self, find: Find) -> tuple[str, Passage] | str:
        machine = self.request.machine
        if self.form != "grouped" and self._elements > machine.shared_bytes:
            return _TOO_LARGE
        if self._lies is None:
            return _APART
        found = find(self.request, self._lies)
        if isinstance(found, str) or self._lies is self.relation:
            return found
        return found[0], found[1].said(pieces=pieces_of(self.relation.destination.element_type.bits))

    def _instructions(self, passage: Passage) -> int:
        return self._program(passage)[1].instructions

    def _program(self, passage: Passage) -> tuple[Program, Cost]:
        """The program of a passage and its cost, written once."""
        if passage not in self._written:
            name = function_name(self.request.source, self.request.destination, self.form.replace("-", "_"))
            program = lower_passage(name, self.relation, passage, self.request.machine)
            self._written[passage] = program, cost_of(program, tuple_moves(program, self.request))
        return self._written[passage]

    @property
    def spreading(self) -> int:
        """Instructions that spread and join all registers, where this form can but do that."""
        if self.form == FORMS[0] or not bytes_part(self.relation):
            return 0
        return spreading_steps(self.relation, self.relation.destination.element_type.bits)

    def least(self) -> Cost | None:
        """Instructions that it takes at least, conversions not counted; None if it does not apply."""
        if isinstance(self.passage, str):
            return None
        passage = self.passage[1]
        if passage in self._written:
            return self._written[passage][1]
        stores, loads = passage.stores, passage.loads
        logic, source, results = 1, self.relation.source, self.relation.destination
        if passage.turned is not None:
            logic += passage.turned.least
        if results.bijective:  # all pieces are joined
            logic += 2 * (passage.pieces - 1) * results.registers
        if passage.pieces > 1 and self.relation.packing is None and source.bijective:  # and spread before
            logic += (2 * passage.pieces - 1) * source.registers
        return Cost(
            logic=logic,
            byte_permutes=0 if passage.turned else passage.permutes(self._lies or self.relation),
            shared_stores=len(stores.items),
            shared_loads=len(loads.items),
            barriers=0 if passage.scope is None else 2 * passage.steps - 1,
            shared_words=sum(len(side.items) * max(side.bits // WORD, 1) for side in (stores, loads)),
        )

    def candidate(self) -> Candidate:
        """The candidate, with its program if it applies."""
        form = self.form
        if isinstance(self.passage, str):
            return Candidate("shared", form, self.passage)
        reason, passage = self.passage
        try:
            program, cost = self._program(passage)
        except UnsupportedError as error:
            return Candidate("shared", form, error.what)
        reason = f"{reason}, {passage.kind} addresses in {passage.bytes} bytes, no bank conflicts"
        return Candidate("shared", form, reason, program, cost)


def _whole(request: Request, relation: Relation) -> tuple[str, Passage] | str:
    machine, tuples = request.machine, _tuples(request)
    found = (
        linear_passage(relation, machine, tuples)
        or trial_passage(relation, machine, tuples, find_copies(relation, machine, tuples))
        or coloured_passage(relation, machine)
    )
    if found is None:
        return _APART
    return f"all lanes of the {found.scope} at once", found


def _grouped(request: Request, relation: Relation) -> tuple[str, Passage] | str:
    found = linear_passage(relation, request.machine, _tuples(request), grouped=True)
    if found is None:
        return "no part of the tile keeps all lanes at work on both sides"
    return f"in {found.steps} parts, one after the other", found


def _single(request: Request, relation: Relation) -> tuple[str, Passage] | str:
    elsewhere = first_where(relation.remote)
    if elsewhere is not None:
        lane, item = elsewhere
        element = divmod(int(relation.destination.table[lane, item]), relation.destination.shape[1])
        peer = int(relation.peers[lane, item])
        return f"lane {lane} needs element {element} of lane {peer}"
    found = own_passage(relation, request.machine)
    if found is None:
        return _APART
    return "every lane permutes its own words", found


def _too_much(need: int, machine: WarpMachine) -> str:
    return f"it needs {need} bytes of shared memory, {machine.name} has {machine.shared_bytes}"


def _tuples(request: Request) -> tuple[int, int]:
    return request.source_registers, request.tuple_registers


def lower_passage(
    name: str, relation: Relation, passage: Passage, machine: WarpMachine, memory: str = MEMORY
) -> Program:
    """The program: in each step all stores, a barrier, all loads; `memory` is what its memory is called.

    Raises UnsupportedError where no expression computes an address, or elements of half a byte part.
    """
    warps = -(-relation.lanes // machine.lanes)
    registers = relation.destination.registers
    memories = (Memory(memory, "shared", passage.bytes),)
    builder = program_builder(name, relation, registers, machine, memories, warps)
    thread = builder.step("lane" if warps == 1 else "thread")
    addresses = lower_addresses(passage.addresses, builder, thread, machine)
    words = _stored_words(builder, relation, passage)
    loaded: Held = {}
    unit, stores, loads = _unit(relation, passage), passage.stores, passage.loads
    for step in range(passage.steps):
        if step and passage.scope is not None:
            builder.barrier(passage.scope)
        idle = passage.active < machine.lanes * warps
        taking_part = builder.step("less", (thread, builder.constant(passage.active))) if idle else None
        with nullcontext() if taking_part is None else builder.when(taking_part):
            for number, (value, offset) in enumerate(addresses[: len(stores.items)]):
                if stores.steps[number] != step:
                    continue
                if stores.rows is None:
                    builder.store(memory, value, words[number], stores.bytes, offset)
                else:
                    numbers = MATRICES, int(stores.rows.transposed), offset
                    builder.apply("matrix_store", (value, *words[number]), numbers, memory)
        if passage.scope is not None:
            builder.barrier(passage.scope)
        for number, (value, offset) in enumerate(addresses[len(stores.items) :]):
            if loads.steps[number] != step:
                continue
            if loads.rows is None:
                found = builder.load(memory, value, loads.bytes, offset)
                for place, item in enumerate(loads.items[number]):
                    loaded[item] = found[place * unit // WORD], place * unit % WORD
            else:
                numbers = MATRICES, int(loads.rows.transposed), offset
                for matrix, word in enumerate(builder.apply("matrix_load", (value,), numbers, memory)):
                    for part, item in enumerate(loads.rows.word(loads.items[number][0], matrix)):
                        loaded[item] = word, part * unit
    same = loads.same if loads.rows is None else {item: item for item in loaded}
    results = _results(builder, relation, passage, {item: loaded[at] for item, at in same.items()})
    return builder.finish([result_value(builder, relation, value) for value in results])


def _unit(relation: Relation, passage: Passage) -> int:
    """Bits of an element in memory."""
    apart = passage.pieces > 1 or passage.turned is not None
    return BYTE if apart else relation.destination.element_type.bits


def _stored_words(builder: ProgramBuilder, relation: Relation, passage: Passage) -> list[list[Value]]:
    """The words of every store."""
    unit = _unit(relation, passage)
    per_word = WORD // unit
    rows = passage.stores.rows
    chunks = [
        [row[first : first + per_word] for first in range(0, len(row), per_word)]
        if rows is None
        else [rows.word(row[0], matrix) for matrix in range(MATRICES)]
        for row in passage.stores.items
    ]
    flat = [chunk for row in chunks for chunk in row]
    if relation.packing is not None:
        words = iter(_packed_chunks(builder, relation, flat, passage.pieces))
        return [[next(words) for _ in row] for row in chunks]
    kind, registers = relation.source.element_type, list[Value]()
    for first in range(0, relation.source.items, kind.per_register):
        word = word_value(builder, relation, [first])
        registers += [word] if passage.pieces == 1 else spread(builder, word, kind.bits)
    held = {
        number * per_word + part: (word, part * unit)
        for number, word in enumerate(registers)
        for part in range(per_word)
    }
    if passage.turned is not None:
        held = passage.turned.sent(builder, held)
    words = iter(assemble(builder, flat, held, unit))
    return [[next(words) for _ in row] for row in chunks]


def _packed_chunks(
    builder: ProgramBuilder, relation: Relation, chunks: Sequence[tuple[int, ...]], pieces: int
) -> list[Value]:
    """The words of these source items, packed on the way; several `pieces` are packed as one word first."""
    if pieces == 1:
        return [word_value(builder, relation, chunk) for chunk in chunks]
    words: list[Value] = []
    for first in range(0, len(chunks), pieces):
        together = chunks[first : first + pieces]
        if len(together[0]) == 1:  # an element alone lies where it is wanted
            words += [word_value(builder, relation, chunk) for chunk in together]
            continue
        padded = [*together, *[together[-1]] * (pieces - len(together))]
        word = word_value(builder, relation, [item for items in zip(*padded, strict=True) for item in items])
        words += spread(builder, word, relation.destination.element_type.bits)[: len(together)]
    return words


def _results(builder: ProgramBuilder, relation: Relation, passage: Passage, loaded: Held) -> list[Value]:
    unit, items = _unit(relation, passage), relation.destination.items
    per_word = WORD // unit
    if passage.turned is not None:
        loaded, items = passage.turned.taken(builder, loaded), passage.turned.relation.destination.items
    wanted = [range(first, min(first + per_word, items)) for first in range(0, items, per_word)]
    words, size = assemble(builder, wanted, loaded, unit), passage.pieces
    bits = relation.destination.element_type.bits
    return [join(builder, words[first : first + size], bits) for first in range(0, len(words), size)]
