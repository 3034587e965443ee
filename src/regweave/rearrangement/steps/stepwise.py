"""Exchanges in several steps: butterflies, relays, and instructions that transpose on their way.

One-hop rounds bring every word straight from its holder. Where a relation is linear over bits there is
another way: steps that each exchange or add bits of lane, part and register numbers (bit_steps.py), in an
order that a search finds. Three kinds of relations gain:

- two or more lane bits that change places with register bits: a butterfly takes 3 selects for every two words
  and bit where one-hop rounds take 4;
- words put together from many lanes, which then pass through lanes in between (relays);
- machines with an instruction that is such a step: f16 C -> B is 8 movmatrix, and two swaps of gfx950 are

      %2, %3 = lane_swap %0, %1 bit 16
      %4, %5 = lane_swap %2, %6 bit 32
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regweave.machines.gpu import WarpMachine
from regweave.programs import Program, ProgramBuilder, Value
from regweave.rearrangement.candidates import Candidate, function_name
from regweave.rearrangement.cost import cost_of
from regweave.rearrangement.exchange.fixed_moves import move_words
from regweave.rearrangement.exchange.lowering import program_builder, result_value, word_value
from regweave.rearrangement.expressions.nodes import lower_expression
from regweave.rearrangement.expressions.predicates import find_predicate
from regweave.rearrangement.expressions.synthesis import synthesise
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.request import Request
from regweave.rearrangement.steps.bit_maps import BitMap, find_bit_map
from regweave.rearrangement.steps.bit_steps import BitStep, Columns
from regweave.rearrangement.steps.search import Walk, find_walk
from regweave.rearrangement.subspaces import combined, coordinates
from regweave.rearrangement.tuples import tuple_moves

_FUSED = {"movmatrix", "permlane16_swap", "permlane32_swap"}
_NAMES = {
    "swap": "exchange of a lane bit with a register bit",
    "choose": "choice of registers by lane",
    "shift": "exchange of half of the words",
    "gather": "exchange of bytes with a lane bit",
    "permute": "byte permute",
    "lanes": "permutation of lanes",
    "transpose": "movmatrix transposition",
}


def distinct(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those whose programs differ from all before them."""
    kept: list[Candidate] = []
    for candidate in candidates:
        if all(candidate.program != other.program for other in kept):
            kept.append(candidate)
    return tuple(kept)


@dataclass(frozen=True, eq=False)
class StepWay:
    """A walk of steps for a request, not yet written."""

    request: Request
    relation: Relation
    goal: BitMap
    walk: Walk
    fused: bool

    @property
    def instructions(self) -> int:
        """What it takes, lane arithmetic and conversions not counted."""
        return self.walk.instructions * self.relation.destination.registers // 2

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """Its candidate, or none where its program needs what the machine lacks."""
        program = _lower(self.request, self.relation, self.goal, self.walk, self.fused)
        if program is None or not _available(program, self.request.machine):
            return ()
        kinds = Counter(_NAMES[step.kind] for step in self.walk.steps if step.kind != "rename")
        reason = "in steps: " + ", ".join(f"{times} x {name}" for name, times in kinds.items())
        cost = cost_of(program, tuple_moves(program, self.request))
        return (Candidate("exchange", "steps", reason, program, cost),)


@dataclass(frozen=True, eq=False)
class StepSearch:
    """A search for a walk of steps for a request, with the machine's `fused` instructions or without."""

    request: Request
    relation: Relation
    goal: BitMap
    fused: bool

    def way(self, most_instructions: int | None = None) -> StepWay | None:
        """The way found; None if there is none, or none of at most so many instructions.

        Lane arithmetic and conversions are not counted.
        """
        most = None
        if most_instructions is not None:  # of all words -> for every two words
            most = (2 * most_instructions + 1) // self.relation.destination.registers
        packed, machine = self.relation.packing is not None, self.request.machine
        walk = find_walk(self.goal, packed, machine, self.fused, most)
        if walk is None or not _moves(walk.steps):
            return None
        return StepWay(self.request, self.relation, self.goal, walk, self.fused)

    @cached_property
    def cheapest(self) -> StepWay | None:
        """The way found, however many instructions it takes."""
        return self.way()


def step_searches(request: Request, relation: Relation) -> tuple[StepSearch, ...]:
    """One with the machine's fused instructions, if it has any, and one by shuffles alone."""
    goal = find_bit_map(relation)
    if goal is None or relation.lanes > request.machine.lanes:
        return ()
    has_fused = not _FUSED.isdisjoint(request.machine.exchanges)
    return tuple(
        StepSearch(request, relation, goal, fused) for fused in ((True, False) if has_fused else (False,))
    )


def _moves(steps: Sequence[BitStep]) -> bool:
    return any(step.kind in ("swap", "shift", "gather", "lanes", "transpose") for step in steps)


def _available(program: Program, machine: WarpMachine) -> bool:
    return "shuffle" in machine.exchanges or all(step.opcode != "shuffle" for step, _ in program.walk())


def _lower(request: Request, relation: Relation, goal: BitMap, walk: Walk, fused: bool) -> Program | None:
    """The program of a walk; None if slot 0 is fed from another lane or part, which no walk says."""
    start = end = walk.start
    for step in walk.steps:
        end = step.applied(end)
    offset = combined(coordinates(end.all), goal.constant)
    first_register = len(end.lanes) + len(end.parts)
    if offset & ((1 << first_register) - 1):
        return None
    name = function_name(request.source, request.destination, "stepwise")
    size = 1 << len(end.registers)
    builder = program_builder(name, relation, size * len(goal.copies), request.machine)
    lowering = _Lowering(builder, request.machine, start, fused)
    results: list[Value] = []
    for copy in goal.copies:
        words = [word_value(builder, relation, _contents(start, copy, number)) for number in range(size)]
        for step in walk.steps:
            words = lowering.step(words, step)
        results += [words[number ^ offset >> first_register] for number in range(size)]
    return builder.finish([result_value(builder, relation, value) for value in results])


def _contents(start: Columns, copy: int, register: int) -> list[int]:
    """The source items of a word, from low to high parts."""
    items = combined(start.registers, register)
    parts = (items ^ combined(start.parts, part) for part in range(1 << len(start.parts)))
    return [(part >> len(start.lanes)) + copy for part in parts]


class _Lowering:
    """Writes steps into a program; words are numbered by the register bits."""

    def __init__(self, builder: ProgramBuilder, machine: WarpMachine, start: Columns, fused: bool) -> None:
        self.builder, self.machine, self.fused = builder, machine, fused
        self.lane_bits, self.part_bits = len(start.lanes), len(start.parts)
        self.lanes = np.arange(machine.lanes)

    def step(self, words: list[Value], step: BitStep) -> list[Value]:
        """The words after one step."""
        ways: dict[str, Callable[[list[Value], BitStep], list[Value]]] = {
            "swap": self._swap,
            "shift": self._shift,
            "gather": self._gather,
            "lanes": self._lanes,
            "transpose": lambda words, step: [self.builder.step("transpose", (word,)) for word in words],
        }
        return ways.get(step.kind, self._local)(words, step)

    def _register(self, mask: int) -> int:
        return mask >> self.lane_bits + self.part_bits

    def _swap(self, words: list[Value], step: BitStep) -> list[Value]:
        lane, register = step.bits
        bit, held = 1 << lane, list(words)
        fused = self.fused and f"permlane{bit}_swap" in self.machine.exchanges
        for low in range(len(words)):
            high = low | self._register(1 << register)
            if low == high:
                continue
            if fused:
                held[low], held[high] = self.builder.apply("lane_swap", (words[low], words[high]), (bit,))
                continue
            test = self.builder.step("test", (self.builder.step("lane"),), (bit,))
            offer = self.builder.step("select", (test, words[low], words[high]))
            taken = self._from_lanes(offer, self.lanes ^ bit)
            held[low] = self.builder.step("select", (test, taken, words[low]))
            held[high] = self.builder.step("select", (test, words[high], taken))
        return held

    def _shift(self, words: list[Value], step: BitStep) -> list[Value]:
        register, mask = step.bits
        chosen = self._register(1 << register)
        return [
            self._from_lanes(word, self.lanes ^ mask) if number & chosen else word
            for number, word in enumerate(words)
        ]

    def _lanes(self, words: list[Value], step: BitStep) -> list[Value]:
        peers = self._lane_sources(step) | self.lanes >> self.lane_bits << self.lane_bits
        return [self._from_lanes(word, peers) for word in words]

    def _lane_sources(self, step: BitStep) -> np.ndarray:
        """What each lane's bits flip in the slot taken from; lanes beyond the layouts repeat the pattern."""
        inside = (1 << self.lane_bits) - 1
        return np.array([combined(step.images, lane & inside) for lane in self.lanes.tolist()])

    def _from_lanes(self, word: Value, peers: np.ndarray) -> Value:
        return move_words(self.builder, self.machine, word, peers)

    def _gather(self, words: list[Value], step: BitStep) -> list[Value]:
        taken = self._sources(step)
        inside = (1 << self.lane_bits) - 1
        across = (taken ^ self.lanes[:, None]) & inside
        others = np.unique(across)
        assert len(others) == 2, step
        remote = across != 0
        selector = self._selector(taken, remote)
        return [
            self.builder.step(
                "byte_permute", (word, self._from_lanes(word, self.lanes ^ int(others[1])), selector)
            )
            for word in words
        ]

    def _local(self, words: list[Value], step: BitStep) -> list[Value]:
        return [self._put_together(words, step, number) for number in range(len(words))]

    def _put_together(self, words: list[Value], step: BitStep, number: int) -> Value:
        taken = self._sources(step, number)
        registers = taken >> self.lane_bits + self.part_bits
        used = np.unique(registers).tolist()
        assert len(used) <= 2, step
        straight = (taken >> self.lane_bits & (1 << self.part_bits) - 1) == np.arange(1 << self.part_bits)
        low, high = words[used[0]], words[used[-1]]
        of_high = registers == used[-1]
        if straight.all() and len(used) == 1:
            return low
        if straight.all() and (of_high == of_high[:, :1]).all():
            predicate = find_predicate(of_high[:, 0].tolist(), self.machine.costs)
            sides = (low, high) if predicate.negated else (high, low)
            return self.builder.step("select", (predicate.lower(self.builder), *sides))
        selector = self._selector(taken, of_high if len(used) == 2 else np.zeros_like(of_high))
        return self.builder.step("byte_permute", (low, high, selector))

    def _sources(self, step: BitStep, number: int = 0) -> np.ndarray:
        """`[lanes, parts]`: the slot that each part of word `number` is taken from."""
        parts = [combined(step.images, part << self.lane_bits) for part in range(1 << self.part_bits)]
        register = combined(step.images, number << self.lane_bits + self.part_bits)
        return self._lane_sources(step)[:, None] ^ np.array(parts) ^ register

    def _selector(self, taken: np.ndarray, of_high: np.ndarray) -> Value:
        """The selector that takes these parts, of the second word where `of_high`."""
        size = 4 >> self.part_bits
        places = (taken >> self.lane_bits & (1 << self.part_bits) - 1) * size + 4 * of_high
        table = np.zeros(len(self.lanes), dtype=np.int64)
        for byte in range(4):
            table |= places[:, byte // size] + byte % size << 4 * byte
        expression = synthesise(table.tolist(), 0xFFFFFFFF, self.machine.costs)
        return lower_expression(expression, self.builder)
