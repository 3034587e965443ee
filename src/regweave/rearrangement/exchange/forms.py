"""The exchange strategy in its two forms: schedules, the programs that carry them out, and the cheapest.

*Direct*: every word travels, local ones too. *Lean*: local words stay where that is cheaper. Whole words are
scheduled by schedule/linear.py and schedule/colouring.py; where words must be put together and taken apart,
by schedule/linear_travel.py and schedule/packed_travel.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from regweave.programs import Program
from regweave.rearrangement.candidates import Candidate, function_name
from regweave.rearrangement.cost import Cost, cost_of
from regweave.rearrangement.exchange.lowering import lower_exchange
from regweave.rearrangement.exchange.lowering_parts import lower_travel
from regweave.rearrangement.holders import word_holders
from regweave.rearrangement.parts import Parts, parts_of_words, restricted
from regweave.rearrangement.problem import Problem
from regweave.rearrangement.request import Request
from regweave.rearrangement.schedule.colouring import coloured_matrix
from regweave.rearrangement.schedule.linear import linear_matrix
from regweave.rearrangement.schedule.linear_travel import linear_journeys
from regweave.rearrangement.schedule.matrix import CoordinationMatrix, check_matrix
from regweave.rearrangement.schedule.multicast import multicast_matrix
from regweave.rearrangement.schedule.packed_travel import packed_journeys
from regweave.rearrangement.schedule.travel import Needs, Travel, arranged, make_travel
from regweave.rearrangement.tuples import tuple_moves
from regweave.rearrangement.words import Words

_REASONS = {"direct": "every word travels", "lean": "local words stay where that is cheaper"}
# lanes x registers of a group beyond which words are scheduled by algebra only, if they can be
_MANY_WORDS = 64
# lanes x parts of a group up to which more and beyond which fewer schedules are looked at
_FEW, _LARGE = 256, 2048


@dataclass(frozen=True, eq=False)
class Way:
    """An exchange in rounds whose program is written by `write`, and takes `least` instructions at least.

    `nearer` says the same with more work, once it is known how words are put together.
    """

    least: Cost
    write: Callable[[], Candidate]
    nearer: Callable[[], Cost]

    @cached_property
    def candidate(self) -> Candidate:
        """The candidate with its program."""
        return self.write()


def exchange_candidates(request: Request, problem: Problem | str) -> tuple[Candidate, Candidate]:
    """The direct and the lean form of the exchange: warp shuffles in rounds."""
    direct, lean = find_ways(request, problem)
    return direct.candidate, lean.candidate


def find_ways(request: Request, problem: Problem | str) -> tuple[Way, Way]:
    """Both forms, direct and lean, scheduled but not written."""
    if "shuffle" not in request.machine.exchanges:
        problem = f"{request.machine.name} has no exchange by an index of the lane"
    if isinstance(problem, str):
        return _written(Candidate("exchange", "direct", problem), Candidate("exchange", "lean", problem))
    words, group = problem.words, problem.group
    once = request.source.bijective and request.destination.bijective
    if words is not None and not (once and len(group.lanes) * len(group.registers) > _MANY_WORDS):
        return _written(*_of_words(request, problem, words))
    if words is not None:
        return _of_parts(request, problem, parts_of_words(words.peers, words.words, words.contents))
    assert problem.parts is not None
    return _of_parts(request, problem, problem.parts)


def _written(direct: Candidate, lean: Candidate) -> tuple[Way, Way]:
    return (
        Way(direct.cost, lambda: direct, lambda: direct.cost),
        Way(lean.cost, lambda: lean, lambda: lean.cost),
    )


def _of_words(request: Request, problem: Problem, words: Words) -> tuple[Candidate, Candidate]:
    group = problem.group
    coloured = coloured_matrix(words, group, remote_only=False)
    matrices = [matrix for matrix in (linear_matrix(words, group), coloured) if matrix is not None]
    # the matrices often agree, and each then needs to be written as a program only once
    matrices = list(dict.fromkeys(matrices))

    def lowered(matrix: CoordinationMatrix, form: str, asked: Words = words) -> Program:
        check_matrix(matrix, asked, group)
        name = function_name(request.source, request.destination, form)
        machine, direct = request.machine, form == "direct"
        return lower_exchange(name, problem.relation, asked, group, matrix, machine, locals_travel=direct)

    direct = [(matrix, lowered(matrix, "direct")) for matrix in matrices]
    lean = []
    for matrix, program in direct:
        shorter = without_local_rounds(matrix)
        same = shorter.rounds == matrix.rounds
        lean.append((shorter, _renamed(program, request) if same else lowered(matrix, "lean")))
    remote = coloured_matrix(words, group, remote_only=True)
    if remote not in matrices:
        lean.append((remote, lowered(remote, "lean")))
    if problem.relation.replicated is not None:
        holders = word_holders(problem.relation.source, words.contents, words.lanes)
        asked, shared = multicast_matrix(words, group, holders)
        lean.append((shared, lowered(shared, "lean", asked)))
    return _cheapest(request, "direct", direct), _cheapest(request, "lean", lean)


def _of_parts(request: Request, problem: Problem, parts: Parts) -> tuple[Way, Way]:
    peers, own = restricted(parts, problem.group.lanes, problem.group.registers)
    lanes = len(problem.group.lanes)
    needs = Needs(parts.bits, peers.reshape(lanes, -1), own.reshape(lanes, -1))
    linear = linear_journeys(needs)
    ways = linear or (packed_journeys(needs, remote_only=False),)
    large = needs.peers.size > _LARGE
    ways = tuple(journeys for way in ways for journeys in arranged(way, needs)[: 1 if large else None])
    travels = [make_travel(journeys, needs, problem.group, stay=False) for journeys in ways]
    costs = request.machine.costs

    def slots(travel: Travel, *, direct: bool) -> int:
        rounds = travel.matrix.rounds if direct else travel.exchanges
        return rounds * costs.shuffle + travel.nodes * costs.select

    def lowered(travel: Travel, form: str) -> Program:
        name = function_name(request.source, request.destination, form)
        group, machine, direct = problem.group, request.machine, form == "direct"
        return lower_travel(
            name, problem.relation, parts.contents, group, travel, machine, locals_travel=direct
        )

    every = list(travels)
    # a local round of a linear schedule needs no exchange as it is, and its networks are found sooner
    few = not linear or needs.peers.size <= _FEW
    local = [way for way in ways if way.has_local_rounds and few]
    some = travels + [make_travel(way, needs, problem.group, stay=True) for way in local]
    if needs.has_local and needs.remote_words < min(travel.exchanges for travel in some):
        remote = arranged(packed_journeys(needs, remote_only=True), needs)
        some += [make_travel(way, needs, problem.group, stay=False) for way in remote]
    copies = len(problem.group.register_offsets)

    def least(travels: list[Travel], *, direct: bool) -> Cost:
        found = [travel.matrix.rounds if direct else travel.exchanges for travel in travels]
        nodes = [travel.least_nodes for travel in travels]
        total = min(map(sum, zip(found, nodes, strict=True)))
        return Cost(exchanges=min(found) * copies, selects=(total - min(found)) * copies)

    def best_of(travels: list[Travel], *, direct: bool) -> Travel:
        return min(travels, key=lambda travel: slots(travel, direct=direct))

    def nearer(travels: list[Travel], *, direct: bool) -> Cost:
        best = best_of(travels, direct=direct)
        rounds = best.matrix.rounds if direct else best.exchanges
        return Cost(exchanges=rounds * copies, selects=best.nodes * copies)

    def written_direct() -> Candidate:
        best = best_of(every, direct=True)
        return _cheapest(request, "direct", [(best.matrix, lowered(best, "direct"))])

    def written_lean() -> Candidate:
        best = best_of(some, direct=False)
        if best.exchanges == best.matrix.rounds and best.matrix is direct.candidate.matrix:
            assert direct.candidate.program is not None
            program = _renamed(direct.candidate.program, request)
        else:
            program = lowered(best, "lean")
        return _cheapest(request, "lean", [(best.matrix, program)])

    direct = Way(least(every, direct=True), written_direct, lambda: nearer(every, direct=True))
    return direct, Way(least(some, direct=False), written_lean, lambda: nearer(some, direct=False))


def _renamed(program: Program, request: Request) -> Program:
    """The same program in its lean form, where that has nothing to leave out."""
    return replace(program, name=function_name(request.source, request.destination, "lean"))


def without_local_rounds(matrix: CoordinationMatrix) -> CoordinationMatrix:
    """The same matrix without the rounds in which every lane takes from itself; those words stay."""
    local = [number for number in range(matrix.rounds) if matrix.is_local(number)]
    rows = tuple(tuple(e for number, e in enumerate(row) if number not in local) for row in matrix.rows)
    stays = tuple(
        (*kept, *(entry for number in local if (entry := row[number]) is not None))
        for row, kept in zip(matrix.rows, matrix.stays, strict=True)
    )
    return CoordinationMatrix(matrix.lanes, rows, stays)


def _cheapest(request: Request, form: str, ways: list[tuple[CoordinationMatrix, Program]]) -> Candidate:
    costs = request.machine.costs
    matrix, program = min(ways, key=lambda way: cost_of(way[1]).slots(costs))
    return Candidate(
        "exchange", form, _REASONS[form], program, cost_of(program, tuple_moves(program, request)), matrix
    )
