"""Choosing registers without indexing them: networks of selects.

In round 0 of the tf32 seam, lanes 0 and 1 offer c0 and lanes 2 and 3 offer c1. That is one select by lane
bit 1, and round 2, which offers c1 and c0, is another. A choice among n registers takes n - 1 selects if
it stands alone, but choices that many rounds share are made once: rotating four registers by the lane
number takes 8 selects, not 12.

Two networks are built and the cheaper one is used: decision diagrams over the bits of the lane number,
whose equal parts are merged, and choices by the number of the wanted register, for tables without such
structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, permutations
from typing import TypeAlias

from regweave.machines.gpu import StepCosts
from regweave.programs import ProgramBuilder, Value
from regweave.rearrangement.expressions.predicates import Predicate, find_predicate

# what one output takes in each lane: the number of an input, or None where it does not matter
Choice: TypeAlias = Sequence[int | None]
# a set of lanes as a bit mask: the predicate of a select
Lanes: TypeAlias = int

# lanes x outputs x orders of lane bits that are tried
_MOST_DECISIONS = 1 << 12
# how much dearer than the plain choice the first diagram may be for others to be tried
_HOPELESS = 2


@dataclass(frozen=True)
class SelectNode:
    """`when_true` in the lanes of `lanes`, `when_false` in others; both number inputs or earlier nodes."""

    lanes: Lanes
    when_true: int
    when_false: int


@dataclass(frozen=True)
class SelectNetwork:
    """Inputs 0 to `inputs` - 1, then one number per node; `outputs` name inputs or nodes."""

    inputs: int
    nodes: tuple[SelectNode, ...]
    outputs: tuple[int, ...]
    predicates: tuple[tuple[Lanes, Predicate], ...]

    def cost(self, costs: StepCosts) -> int:
        """Issue slots: selects, and setting each predicate once."""
        tests = sum(predicate.cost(costs) for _, predicate in self.predicates)
        return len(self.nodes) * costs.select + tests

    def lower(self, builder: ProgramBuilder, inputs: Sequence[Value]) -> list[Value]:
        """Write the network into a program, applied to `inputs`."""
        tests = {lanes: (predicate, predicate.lower(builder)) for lanes, predicate in self.predicates}
        values = list(inputs)
        for node in self.nodes:
            predicate, test = tests[node.lanes]
            sides = values[node.when_true], values[node.when_false]
            values.append(builder.step("select", (test, *(reversed(sides) if predicate.negated else sides))))
        return [values[output] for output in self.outputs]


def choose(choices: Sequence[Choice], inputs: int, costs: StepCosts) -> SelectNetwork:
    """The cheapest network found whose output k is, in every lane, input `choices[k][lane]`."""
    lanes = len(choices[0]) if choices else 0
    best = _by_number(choices, inputs, costs)
    for tried, order in enumerate(_orders(choices, lanes)):
        maker = _Maker(inputs)
        network = maker.finish([maker.diagram(choice, order) for choice in choices], lanes, costs)
        if network.cost(costs) <= best.cost(costs):
            best = network
        elif tried == 0 and network.cost(costs) > _HOPELESS * best.cost(costs):
            break  # the lane bits say nothing about the choice, in whatever order they are asked
    return best


class _Maker:
    """Collects nodes; equal ones are made once."""

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs
        self._nodes: dict[SelectNode, int] = {}

    def node(self, lanes: Lanes, when_true: int, when_false: int) -> int:
        node = SelectNode(lanes, when_true, when_false)
        return self._nodes.setdefault(node, self._inputs + len(self._nodes))

    def diagram(self, choice: Choice, order: Sequence[int]) -> int:
        """The decision diagram of one output over the lane bits in `order`, the last one decided first."""
        wanted: dict[int, Lanes] = {}
        for lane, number in enumerate(choice):
            if number is not None:
                wanted[number] = wanted.get(number, 0) | 1 << lane
        bits = [_bit_lanes(bit, len(choice)) for bit in order]
        found = self._decide(wanted, (1 << len(choice)) - 1, bits)
        return 0 if found is None else found

    def _decide(self, wanted: dict[int, Lanes], members: Lanes, bits: Sequence[Lanes]) -> int | None:
        inputs = [number for number, lanes in wanted.items() if lanes & members]
        if len(inputs) <= 1:
            return inputs[0] if inputs else None
        low = self._decide(wanted, members & ~bits[0], bits[1:])
        high = self._decide(wanted, members & bits[0], bits[1:])
        if low is None or high is None or low == high:
            return high if low is None else low
        return self.node(bits[0], high, low)

    def finish(self, outputs: Sequence[int], lanes: int, costs: StepCosts) -> SelectNetwork:
        masks = dict.fromkeys(node.lanes for node in self._nodes)
        predicates = tuple(
            (mask, find_predicate([bool(mask >> lane & 1) for lane in range(lanes)], costs)) for mask in masks
        )
        return SelectNetwork(self._inputs, tuple(self._nodes), tuple(outputs), predicates)


@lru_cache(maxsize=64)
def _bit_lanes(bit: int, lanes: int) -> Lanes:
    return sum(1 << lane for lane in range(lanes) if lane >> bit & 1)


def _orders(choices: Sequence[Choice], lanes: int) -> list[tuple[int, ...]]:
    """Orders of the lane bits to try: all orders of those that matter, while they are few."""
    bits = range(max(lanes - 1, 0).bit_length())
    relevant = [bit for bit in bits if any(_depends(choice, bit) for choice in choices)]
    others = tuple(bit for bit in bits if bit not in relevant)
    most = max(1, _MOST_DECISIONS // (len(choices) * lanes)) if choices else 0
    return [(*order, *others) for order in islice(permutations(relevant), most)]


def _depends(choice: Choice, bit: int) -> bool:
    """Whether two lanes that differ in `bit` alone want different inputs."""
    pairs = ((choice[lane], choice[lane | 1 << bit]) for lane in range(len(choice)) if not lane >> bit & 1)
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _by_number(choices: Sequence[Choice], inputs: int, costs: StepCosts) -> SelectNetwork:
    """Each output is a tree over the binary number of its input, counted in the order of first use."""
    maker = _Maker(inputs)
    outputs = []
    lanes = len(choices[0]) if choices else 0
    for choice in choices:
        level = list(dict.fromkeys(wanted for wanted in choice if wanted is not None)) or [0]
        code = {wanted: number for number, wanted in enumerate(level)}
        bit = 0
        while len(level) > 1:
            mask = sum(
                1 << lane
                for lane, wanted in enumerate(choice)
                if wanted is not None and code[wanted] >> bit & 1
            )
            pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
            level = [maker.node(mask, pair[1], pair[0]) if len(pair) == 2 else pair[0] for pair in pairs]
            bit += 1
        outputs.append(level[0])
    return maker.finish(outputs, lanes, costs)
