"""The exchange strategy in its two forms: schedules, the programs that carry them out, and the cheapest.

*Direct*: every word travels, local ones too. *Lean*: local words stay where that is cheaper. Whole words are
scheduled by schedule/linear.py and schedule/colouring.py; where words must be put together and taken apart,
by schedule/linear_travel.py and schedule/packed_travel.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from regweave.programs import Program
from regweave.rearrangement.candidates import Candidate, function_name
from regweave.rearrangement.cost import Cost, cost_of
from regweave.rearrangement.exchange.lowering import Rounds, lower_exchange
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
from regweave.rearrangement.spreading import BYTE
from regweave.rearrangement.tuples import tuple_moves
from regweave.rearrangement.words import Words

_REASONS = {"direct": "every word travels", "lean": "local words stay where that is cheaper"}
# lanes x registers of a group beyond which words are scheduled by algebra only, if they can be
_MANY_WORDS = 64
# lanes x parts of a group up to which more and beyond which fewer schedules are looked at
_FEW, _LARGE = 256, 2048


@dataclass(frozen=True, eq=False)
class Way:
    """An exchange in rounds whose program is written by `write`.

    It takes as many instructions as `least` says, at least; `nearer` says the same with more work, once it is
    known how words are chosen and put together, and `last` with what the other form took, if it is written.
    """

    least: Callable[[], Cost]
    nearer: Callable[[], Cost]
    write: Callable[[], Candidate]
    last: Callable[[], Cost] = Cost

    @cached_property
    def candidate(self) -> Candidate:
        """The candidate with its program."""
        return self.write()

    @property
    def written(self) -> bool:
        """Whether its program is there."""
        return "candidate" in self.__dict__


def find_ways(request: Request, problem: Problem | str) -> tuple[Way, Way]:
    """Both forms, direct and lean, scheduled but not written."""
    if "shuffle" not in request.machine.exchanges:
        problem = f"{request.machine.name} has no exchange by an index of the lane"
    if isinstance(problem, str):
        return _none("direct", problem), _none("lean", problem)
    words, group = problem.words, problem.group
    once = request.source.bijective and request.destination.bijective
    if words is not None and not (once and len(group.lanes) * len(group.registers) > _MANY_WORDS):
        return _of_words(request, problem, words)
    if words is not None:
        return _of_parts(request, problem, parts_of_words(words.peers, words.words, words.contents))
    assert problem.parts is not None
    return _of_parts(request, problem, problem.parts)


def _none(form: str, reason: str) -> Way:
    return Way(Cost, Cost, lambda: Candidate("exchange", form, reason))


def _of_words(request: Request, problem: Problem, words: Words) -> tuple[Way, Way]:
    group, machine = problem.group, request.machine
    coloured = coloured_matrix(words, group, remote_only=False)
    # the matrices often agree
    matrices = [matrix for matrix in (linear_matrix(words, group), coloured) if matrix is not None]
    direct = [Rounds(words, group, matrix, machine) for matrix in dict.fromkeys(matrices)]
    lean = list(direct)
    remote = coloured_matrix(words, group, remote_only=True)
    if remote not in matrices:
        lean.append(Rounds(words, group, remote, machine))
    if problem.relation.replicated is not None:
        holders = word_holders(problem.relation.source, words.contents, words.lanes)
        asked, shared = multicast_matrix(words, group, holders)
        lean.append(Rounds(asked, group, shared, machine))

    @cache
    def lowered(rounds: Rounds, form: str) -> Program:
        if form == "lean" and rounds in direct and rounds.matrix.exchanges == rounds.matrix.rounds:
            return _renamed(lowered(rounds, "direct"), request)
        check_matrix(rounds.matrix, rounds.words, group)
        name = function_name(request.source, request.destination, form)
        return lower_exchange(name, problem.relation, rounds, locals_travel=form == "direct")

    def way(form: str, some: list[Rounds]) -> Way:
        def exchanges(rounds: Rounds) -> int:
            return (rounds.matrix.rounds if form == "direct" else rounds.matrix.exchanges) * rounds.copies

        def written() -> Candidate:
            ways = [(rounds.matrix, lowered(rounds, form)) for rounds in some]
            if form == "lean":  # the words of local rounds stay
                ways = [(without_local_rounds(matrix), program) for matrix, program in ways]
            return _cheapest(request, form, ways)

        return Way(
            lambda: _together([(exchanges(rounds), 0, 0) for rounds in some]),
            lambda: _together([(exchanges(rounds), rounds.selects, 0) for rounds in some]),
            written,
        )

    return way("direct", direct), way("lean", lean)


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

    @cache
    def some() -> list[Travel]:
        """Also those in which words stay."""
        # a local round of a linear schedule needs no exchange as it is, and its networks are found sooner;
        # words that are spread anyway gain nothing by staying
        few = not linear or (needs.peers.size <= _FEW and parts.bits >= BYTE)
        local = [way for way in ways if way.has_local_rounds and few]
        found = travels + [make_travel(way, needs, problem.group, stay=True) for way in local]
        if needs.has_local and needs.remote_words < min(travel.exchanges for travel in found):
            remote = arranged(packed_journeys(needs, remote_only=True), needs)
            found += [make_travel(way, needs, problem.group, stay=False) for way in remote]
        return found

    def best_of(travels: list[Travel], *, direct: bool) -> Travel:
        """The first of those of fewest issue slots; networks that cannot be the smallest are not found."""

        def slots(travel: Travel, nodes: int) -> int:
            return travel.rounds(direct=direct) * costs.shuffle + nodes * costs.select

        limits = sorted((slots(travel, travel.least_nodes), at) for at, travel in enumerate(travels))
        best: tuple[int, int] | None = None
        for least, at in limits:
            if best is None or (least, at) < best:
                found = slots(travels[at], travels[at].nodes), at
                best = found if best is None else min(best, found)
        assert best is not None
        return travels[best[1]]

    def lowered(travel: Travel, form: str) -> Program:
        name = function_name(request.source, request.destination, form)
        group, machine, direct = problem.group, request.machine, form == "direct"
        return lower_travel(
            name, problem.relation, parts.contents, group, travel, machine, locals_travel=direct
        )

    def written(form: str, travel: Travel) -> Candidate:
        return _cheapest(request, form, [(travel.matrix, lowered(travel, form))])

    def written_lean() -> Candidate:
        best = best_of(some(), direct=False)
        if best.exchanges == best.matrix.rounds and best is best_of(travels, direct=True):
            program = direct.candidate.program
            assert program is not None
            return _cheapest(request, "lean", [(best.matrix, _renamed(program, request))])
        return written("lean", best)

    copies = len(problem.group.register_offsets)

    def known(travel: Travel, nodes: int, *, direct: bool) -> tuple[int, int, int]:
        found = travel.rounds(direct=direct), nodes, travel.spreading(direct=direct)
        return found[0] * copies, found[1] * copies, found[2] * copies

    def least(travels: list[Travel], *, direct: bool) -> Cost:
        return _together([known(travel, travel.least_nodes, direct=direct) for travel in travels])

    def nearer(travels: list[Travel], *, direct: bool) -> Cost:
        best = best_of(travels, direct=direct)
        found = _together([known(best, best.nodes, direct=direct)])
        return replace(found, logic=found.logic + best.selectors)

    def beside_lean() -> Cost:
        """The same travel words sent where they could stay, and perhaps nothing copied in the end."""
        best = best_of(travels, direct=True)
        if not lean.written or best is not best_of(some(), direct=False):
            return Cost()
        cost, more = lean.candidate.cost, (best.rounds(direct=True) - best.exchanges) * copies
        return replace(cost, exchanges=cost.exchanges + more, moves=0)

    direct = Way(
        lambda: least(travels, direct=True),
        lambda: nearer(travels, direct=True),
        lambda: written("direct", best_of(travels, direct=True)),
        beside_lean,
    )
    lean = Way(lambda: least(some(), direct=False), lambda: nearer(some(), direct=False), written_lean)
    return direct, lean


def _together(ways: Sequence[tuple[int, int, int]]) -> Cost:
    """What none of several ways undercuts, of which exchanges, choices and other instructions are known."""
    exchanges, selects, logic = (min(sum(way[: number + 1]) for way in ways) for number in range(3))
    return Cost(exchanges=exchanges, selects=selects - exchanges, logic=logic - selects)


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
    return CoordinationMatrix(matrix.lanes, rows, stays, matrix.copies)


def _cheapest(request: Request, form: str, ways: list[tuple[CoordinationMatrix, Program]]) -> Candidate:
    costs = request.machine.costs
    matrix, program = min(ways, key=lambda way: cost_of(way[1]).slots(costs))
    return Candidate(
        "exchange", form, _REASONS[form], program, cost_of(program, tuple_moves(program, request)), matrix
    )
