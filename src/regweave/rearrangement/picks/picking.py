"""Rearranging vector registers: picks of two registers at a time, as few as can be found.

A vector machine has no run-time index to exchange by; what a lane takes is fixed when the code is written.
One pick puts a register together from positions of two others, so a rearrangement is a network of picks:
transposing 16 registers of 16 lanes takes 64 of them, each output being 4 picks deep.

    >>> rearrange("avx512.rows:16", "avx512.columns:16", "avx512").cost.exchanges
    64

Two networks are built, and the one of fewer instructions wins. The general one (networks/search.py) does any
relation. The other (picks/stages.py) does relations that exchange bits of lane and register numbers, as
transposes do, in stages of the machine's fixed picks, which need no index: on AVX2 these are the only way to
take lanes of two registers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regweave.machines.picks import Picks
from regweave.programs import Program, ProgramBuilder, Value
from regweave.rearrangement.candidates import Candidate, function_name
from regweave.rearrangement.cost import cost_of
from regweave.rearrangement.exchange.lowering import finish, program_builder
from regweave.rearrangement.networks.search import find_network
from regweave.rearrangement.picks.stages import find_stages
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.request import Request

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pick_candidate(request: Request, relation: Relation) -> Candidate:
    """The exchange by picks, on a machine that has them; otherwise why not."""
    picks = request.machine.picks
    if picks is None:
        return Candidate(
            "exchange", "picks", f"{request.machine.name} has no instruction that picks from two registers"
        )
    relation = relation.in_words
    if relation.packing is not None or relation.lanes != picks.lanes:
        return Candidate("exchange", "picks", f"picks move the words of all {picks.lanes} lanes as they are")
    parts = relation.destination.element_type.per_register
    if parts > 1 and parts not in picks.any_two:
        return Candidate("exchange", "picks", f"{request.machine.name} picks no pieces of {32 // parts} bits")
    name = function_name(request.source, request.destination, "picks")
    demands = _demands(relation, parts)
    staged = _staged_program(name, relation, demands, request)
    network = _network_program(name, relation, demands, request)
    # stages first: they need no index
    programs = [program for program in (staged, network) if program is not None]
    program = min(programs, key=lambda program: cost_of(program).instructions)
    return Candidate("exchange", "picks", "two registers at a time", program, cost_of(program))


def _demands(relation: Relation, parts: int) -> NDArray[np.int64]:
    """`[registers, 1, pieces]`: the source piece, counted through all registers, that goes where."""
    lanes, items = relation.peers.shape
    pieces = lanes * parts
    demands = np.full((relation.destination.registers, 1, pieces), -1)
    lane, item = np.indices((lanes, items))
    places = relation.items // parts * pieces + relation.peers * parts + relation.items % parts
    demands[item // parts, 0, lane * parts + item % parts] = places
    return demands


def _network_program(name: str, relation: Relation, demands: NDArray[np.int64], request: Request) -> Program:
    network = find_network(demands, relation.source.registers)
    builder = _Picker(name, relation, request)
    values = list(builder.words)
    for node in network.nodes:
        values.append(builder.pick(values[node.low], values[node.high], node.picks[0].tolist()))
    return builder.finish([values[output] for output in network.outputs])


def _staged_program(
    name: str, relation: Relation, demands: NDArray[np.int64], request: Request
) -> Program | None:
    picks = request.machine.picks
    assert picks is not None
    found = find_stages(demands[:, 0], relation.source.registers, picks)
    if found is None:
        return None
    builder = _Picker(name, relation, request)
    values = list(builder.words)
    for stage in found.stages:
        after = list(values)
        for low, high in stage.pairs(len(values)):
            after[low], after[high] = (
                builder.pick(values[low], values[high], table) for table in stage.tables
            )
        values = after
    return builder.finish([values[word] for word in found.outputs])


class _Picker:
    """Writes picks into a program, one step for each instruction."""

    def __init__(self, name: str, relation: Relation, request: Request) -> None:
        picks = request.machine.picks
        assert picks is not None
        self._picks: Picks = picks
        self._relation = relation
        self._builder: ProgramBuilder = program_builder(
            name, relation, relation.destination.registers, request.machine
        )
        self.words: list[Value] = []
        for number in range(relation.source.registers):
            word = self._builder.word(number)
            self.words.append(self._builder.step("bits", (word,)) if word.type == "f32" else word)

    def pick(self, low: Value, high: Value, table: Sequence[int]) -> Value:
        """The word that `table` says, -1 being anything: by one pick, or two of one register and a blend."""
        pieces = len(table)
        if low is high or all(place < pieces for place in table):
            return self._one(low, [place % pieces if place >= 0 else -1 for place in table])
        if all(place < 0 or place >= pieces for place in table):
            return self._one(high, [place % pieces if place >= 0 else -1 for place in table])
        fixed = self._picks.find(table)
        if fixed is not None:
            return self._builder.step("pick", (low, high), fixed.table)
        if self._picks.possible(table):
            return self._builder.step("pick", (low, high), _settled(table))
        sides = (
            self._one(low, [place if 0 <= place < pieces else -1 for place in table]),
            self._one(high, [place - pieces if place >= pieces else -1 for place in table]),
        )
        straight = [at + (pieces if place >= pieces else 0) for at, place in enumerate(table)]
        return self._builder.step("pick", sides, straight)

    def _one(self, word: Value, table: Sequence[int]) -> Value:
        if all(place in (-1, at) for at, place in enumerate(table)):
            return word
        fixed = self._picks.find(table, one=True)
        if fixed is None:
            return self._builder.step("pick", (word, word), _settled(table))
        return self._builder.step("pick", (word, word), fixed.table)

    def finish(self, results: Sequence[Value]) -> Program:
        """The program whose destination words these are."""
        return finish(self._builder, self._relation, dict(enumerate(results)))


def _settled(table: Sequence[int]) -> list[int]:
    """The table with a place of its own where anything will do."""
    return [at if place < 0 else place for at, place in enumerate(table)]
