"""The exchange strategy in its two forms: schedules, the programs that carry them out, and the cheapest.

*Direct*: every word travels, local ones too. *Lean*: local words stay where that is cheaper. Whole words are
scheduled by linear_schedule.py and colouring.py; where words must be put together and taken apart, by
linear_travel.py and packed_travel.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from regweave.programs import Program
from regweave.rearrangement.candidates import Candidate, function_name
from regweave.rearrangement.colouring import coloured_matrix
from regweave.rearrangement.cost import cost_of
from regweave.rearrangement.exchange import lower_exchange
from regweave.rearrangement.exchange_parts import lower_travel
from regweave.rearrangement.holders import word_holders
from regweave.rearrangement.linear_schedule import linear_matrix
from regweave.rearrangement.linear_travel import linear_journeys
from regweave.rearrangement.matrix import CoordinationMatrix, check_matrix
from regweave.rearrangement.multicast import multicast_matrix
from regweave.rearrangement.packed_travel import packed_journeys
from regweave.rearrangement.parts import Parts, restricted
from regweave.rearrangement.problem import Problem
from regweave.rearrangement.request import Request
from regweave.rearrangement.travel import Needs, Travel, arranged, make_travel
from regweave.rearrangement.words import Words

_REASONS = {"direct": "every word travels", "lean": "local words stay where that is cheaper"}


def exchange_candidates(request: Request, problem: Problem | str) -> tuple[Candidate, Candidate]:
    """The direct and the lean form of the exchange: warp shuffles in rounds."""
    if "shuffle" not in request.machine.exchanges:
        problem = f"{request.machine.name} has no exchange by an index of the lane"
    if isinstance(problem, str):
        return Candidate("exchange", "direct", problem), Candidate("exchange", "lean", problem)
    if problem.words is not None:
        return _of_words(request, problem, problem.words)
    assert problem.parts is not None
    return _of_parts(request, problem, problem.parts)


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
    lean = [(without_local_rounds(matrix), lowered(matrix, "lean")) for matrix in matrices]
    remote = coloured_matrix(words, group, remote_only=True)
    if remote not in matrices:
        lean.append((remote, lowered(remote, "lean")))
    if problem.relation.replicated is not None:
        holders = word_holders(problem.relation.source, words.contents, words.lanes)
        asked, shared = multicast_matrix(words, group, holders)
        lean.append((shared, lowered(shared, "lean", asked)))
    return _cheapest(request, "direct", direct), _cheapest(request, "lean", lean)


def _of_parts(request: Request, problem: Problem, parts: Parts) -> tuple[Candidate, Candidate]:
    peers, own = restricted(parts, problem.group.lanes, problem.group.registers)
    lanes = len(problem.group.lanes)
    needs = Needs(parts.bits, peers.reshape(lanes, -1), own.reshape(lanes, -1))
    travels = {form: _best(request, form, _travels(needs, problem, form)) for form in _REASONS}
    found = []
    for form, travel in travels.items():
        program = lower_travel(
            function_name(request.source, request.destination, form),
            problem.relation,
            parts.contents,
            problem.group,
            travel,
            request.machine,
            locals_travel=form == "direct",
        )
        found.append(_cheapest(request, form, [(travel.matrix, program)]))
    return found[0], found[1]


def _travels(needs: Needs, problem: Problem, form: str) -> Iterator[Travel]:
    """The schedules worth a look, those by algebra if there are any."""
    ways = linear_journeys(needs) or (packed_journeys(needs, remote_only=False),)
    for way in ways:
        for journeys in arranged(way, needs):
            yield make_travel(journeys, needs, problem.group, stay=False)
            if form == "lean" and journeys.has_local_rounds:
                yield make_travel(journeys, needs, problem.group, stay=True)
    if form == "lean" and needs.has_local:
        for journeys in arranged(packed_journeys(needs, remote_only=True), needs):
            yield make_travel(journeys, needs, problem.group, stay=False)


def _best(request: Request, form: str, travels: Iterator[Travel]) -> Travel:
    costs = request.machine.costs

    def slots(travel: Travel) -> int:
        rounds = travel.matrix.rounds if form == "direct" else travel.exchanges
        return rounds * costs.shuffle + travel.nodes * costs.select

    return min(travels, key=slots)


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
    return Candidate("exchange", form, _REASONS[form], program, cost_of(program), matrix)
