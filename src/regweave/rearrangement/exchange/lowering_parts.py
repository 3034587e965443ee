"""From a schedule of travel words to the program that carries it out.

Each round offers a word that the first network makes, and shuffles it; the second network puts the
destination words together. A node that takes whole words is a select; any other is a byte permute, whose
selector is a constant or, where lanes differ, an index expression of the lane, computed once.

    word 0 = c0 c1 c2 c3       select: 0x5410 or 0x7632 by lane bit 2
    offer  = byte_permute(word 0, word 1, select)

Parts of less than a byte are spread over several words first, so that each lies in a byte of its own, and
joined at the end (spreading.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regweave.machines.gpu import WarpMachine
from regweave.programs import Program, ProgramBuilder, Value
from regweave.rearrangement.exchange.lowering import find_indexing, finish, program_builder, word_value
from regweave.rearrangement.expressions.choices import chosen_constants
from regweave.rearrangement.expressions.nodes import (
    Binary,
    Constant,
    Expression,
    Select,
    add_parts,
    cost_beside,
    lower_expression,
)
from regweave.rearrangement.expressions.predicates import find_predicate
from regweave.rearrangement.expressions.synthesis import synthesise
from regweave.rearrangement.expressions.tables import Table
from regweave.rearrangement.group import Group
from regweave.rearrangement.networks.network import Network, Node
from regweave.rearrangement.parts import Contents
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.schedule.travel import Travel
from regweave.rearrangement.spreading import join, spread

if TYPE_CHECKING:
    pass

_SELECTOR_BITS = 0xFFFF


def lower_travel(
    name: str,
    relation: Relation,
    contents: Contents,
    group: Group,
    travel: Travel,
    machine: WarpMachine,
    *,
    locals_travel: bool,
) -> Program:
    """The program of one exchange of travel words; unless `locals_travel`, local rounds need no shuffle."""
    builder = program_builder(name, relation, relation.destination.registers, machine)
    matrix, bits = travel.matrix, travel.bits
    indexing = find_indexing(matrix, group, machine)
    lowering = _Lowering(builder, group, machine)
    results: dict[int, Value] = {}
    for offset in group.register_offsets:
        own: list[Value] = []
        for register in group.registers:
            own += spread(builder, word_value(builder, relation, contents[register + offset]), bits)
        offers = lowering.lower(travel.offered, own)
        taken: list[Value] = []
        for number in range(matrix.rounds):
            pieces = offers[number * travel.pieces : (number + 1) * travel.pieces]
            if locals_travel or not matrix.is_local(number):
                sent = join(builder, pieces, bits)
                pieces = spread(builder, indexing.take(builder, sent, number), bits)
            taken += pieces
        kept = lowering.lower(travel.kept, [*taken, *own])
        for at, register in enumerate(group.registers):
            pieces = kept[at * travel.pieces : (at + 1) * travel.pieces]
            results[register + offset] = join(builder, pieces, bits)
    return finish(builder, relation, results)


class _Lowering:
    """Networks of a group as steps of the whole warp; selectors are built on those before them."""

    def __init__(self, builder: ProgramBuilder, group: Group, machine: WarpMachine) -> None:
        self._builder, self._machine = builder, machine
        self._known: dict[Expression, None] = {}
        self._free = set[object]()
        self._selectors: dict[bytes, Value] = {}
        self._how: dict[Network, list[tuple[str, Value, bool]]] = {}
        self._lanes = np.full(machine.lanes, -1)
        for offset in group.lane_offsets:
            self._lanes[np.array(group.lanes) + offset] = np.arange(len(group.lanes))

    def lower(self, network: Network, inputs: Sequence[Value]) -> list[Value]:
        """The values of the network's outputs; how its nodes choose is found once for all copies."""
        values = list(inputs)
        how = self._how.setdefault(network, [])
        for number, node in enumerate(network.nodes):
            if number == len(how):  # the first copy
                how.append(self._choice(node))
            opcode, chooser, reversed_ = how[number]
            low, high = values[node.low], values[node.high]
            if opcode == "byte_permute":
                operands = low, high, chooser
            else:
                operands = (chooser, low, high) if reversed_ else (chooser, high, low)
            values.append(self._builder.step(opcode, operands))
        return [values[output] for output in network.outputs]

    def _choice(self, node: Node) -> tuple[str, Value, bool]:
        """A node's opcode, what it chooses by, and whether a select takes its low word where that holds."""
        chosen = node.selects
        if chosen is None:
            return "byte_permute", self._selector(node), False
        lanes = [None if at < 0 else bool(chosen[at]) for at in self._lanes.tolist()]
        predicate = find_predicate(lanes, self._machine.costs)
        return "select", predicate.lower(self._builder), predicate.negated

    def _selector(self, node: Node) -> Value:
        wide = 4 // node.picks.shape[1]  # bytes of a part
        picked = node.settled[:, :, None] * wide + np.arange(wide)
        values = (picked.reshape(-1, 4) << np.arange(0, 16, 4)).sum(axis=1)
        if bool((values == values[0]).all()):
            return self._builder.constant(int(values[0]))
        content = values.tobytes()
        if content not in self._selectors:
            table = [None if at < 0 else int(values[at]) for at in self._lanes.tolist()]
            found = self._selector_expression(table)
            self._known[found] = None
            add_parts(found, self._free)
            self._selectors[content] = lower_expression(found, self._builder)
        return self._selectors[content]

    def _selector_expression(self, table: Sequence[int | None]) -> Expression:
        """The cheapest expression, seen with the form in which the machine takes selectors."""
        costs, known = self._machine.costs, tuple(self._known)
        found = [synthesise(table, _SELECTOR_BITS, costs, known)]
        if self._machine.selector_slots:
            found += chosen_constants(Table(tuple(table), _SELECTOR_BITS), costs)

        def slots(expression: Expression) -> int:
            extra = 0 if _of_constants(expression) else self._machine.selector_slots
            return cost_beside(expression, costs, self._free) + extra

        return min(found, key=slots)


def _of_constants(expression: Expression) -> bool:
    """Whether it is put together from constants and choices among them, so that compilers see its values."""
    if isinstance(expression, Select):
        return _of_constants(expression.when_true) and _of_constants(expression.when_false)
    if isinstance(expression, Binary):
        return expression.opcode in ("xor", "or", "and") and all(
            map(_of_constants, (expression.left, expression.right))
        )
    return isinstance(expression, Constant)
