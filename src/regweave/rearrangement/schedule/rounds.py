"""The rounds of a coordination matrix as index expressions: f, g, h for the taking lane, s for the
offering one.

    >>> plan.expressions[0].peers, str(plan.expressions[0].f)
    ((0, 2, 1, 3), '((lane >> 1) & 1) | (lane << 1)')
    >>> plan.expressions[0].offers, str(plan.expressions[0].s)
    ((0, 0, 1, 1), '(lane >> 1) & 1')

f gives a lane of the group modulo `width`. Generated code computes f; g, h and s become selects, because
registers cannot be indexed at run time, and are stated here as what those selects amount to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.exchange.lowering import find_indexing
from regweave.rearrangement.expressions.nodes import Expression
from regweave.rearrangement.expressions.synthesis import synthesise
from regweave.rearrangement.group import Group
from regweave.rearrangement.schedule.matrix import CoordinationMatrix


@dataclass(frozen=True)
class RoundExpressions:
    """One round: in lane i of the group, take word g(i) of lane f(i), keep it as word h(i), offer word s(i).

    `peers`, `words`, `keeps` and `offers` are the tables that the expressions are proved equal to, one entry
    per lane of the group, None where a lane sits out. f counts modulo `width`.
    """

    f: Expression
    g: Expression
    h: Expression
    s: Expression
    width: int
    peers: tuple[int | None, ...]
    words: tuple[int | None, ...]
    keeps: tuple[int | None, ...]
    offers: tuple[int | None, ...]


def round_expressions(
    matrix: CoordinationMatrix, group: Group, machine: WarpMachine
) -> tuple[RoundExpressions, ...]:
    """The expressions of every round, in numbers of the group's first copy of registers."""
    indexing = find_indexing(matrix, group, machine)

    def expression(values: Mapping[int, int]) -> Expression:
        table: list[int | None] = [None] * machine.lanes
        for offset in group.lane_offsets:
            for lane, value in values.items():
                table[lane + offset] = value
        return synthesise(table, 0xFFFFFFFF, machine.costs)

    rounds = []
    for number, f in enumerate(indexing.expressions):
        column = dict(zip(matrix.lanes, matrix.column(number), strict=True))
        taking = {lane: entry for lane, entry in column.items() if entry is not None}
        words = {lane: entry.word for lane, entry in taking.items()}
        keeps = {lane: entry.keep for lane, entry in taking.items()}
        peers = {lane: entry.peer for lane, entry in taking.items()}
        offers = matrix.offers(number)
        tables = (
            tuple(values.get(lane) for lane in matrix.lanes) for values in (peers, words, keeps, offers)
        )
        rounds.append(
            RoundExpressions(
                f, expression(words), expression(keeps), expression(offers), indexing.width, *tables
            )
        )
    return tuple(rounds)
