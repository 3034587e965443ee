"""The cheapest walk between bit maps: which few steps make each lane bit what it must be.

Columns of register bits may be replaced by any independent sums of them for nothing: registers are renamed.
So a walk is over when the lane and part columns are right and the register columns span the right space. Only
steps that bring some column nearer to that are tried: if lane bit 4 must flip what the register bits 0 and 1
flip together, register bit 0 is renamed to that sum and exchanged with lane bit 4. Columns of lane bits that
only lack an exchange among themselves are left to one permutation of lanes at the end.

The walks are searched in the order of their cost (Dijkstra): the first that arrives is the cheapest.

    gfx950, fp8 16x16x128, D -> A   swap lane bit 4 with a register bit, swap lane bit 5 with another
    f16 C -> B, 32 x 16             transpose
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, permutations
from threading import Lock
from typing import NamedTuple

from regweave.machines.gpu import StepCosts, WarpMachine
from regweave.rearrangement.steps.bit_maps import BitMap
from regweave.rearrangement.steps.bit_steps import (
    BitStep,
    Columns,
    Kind,
    add_bits,
    exchange_bits,
    transposition,
)
from regweave.rearrangement.subspaces import combined, coordinates

_MOST_VISITS = 200
# lane bits whose exchange with a register bit is an instruction, on machines that have it
_SWAPS = {4: "permlane16_swap", 5: "permlane32_swap"}
# shuffles, selects and byte permutes for every two words
_INSTRUCTIONS: dict[Kind, tuple[int, int, int]] = {
    "swap": (1, 3, 0),
    "choose": (0, 2, 0),
    "shift": (1, 0, 0),
    "gather": (2, 0, 2),
    "permute": (0, 0, 2),
    "lanes": (2, 0, 0),
    "transpose": (2, 0, 0),
    "rename": (0, 0, 0),
}
_FUSED_SWAP = (1, 0, 0)
# the weight of an instruction: more than the issue slots and the set-up of a few steps
_INSTRUCTION = 256


@dataclass(frozen=True)
class Walk:
    """The steps from `start`, in order; `instructions` for every two words."""

    start: Columns
    steps: tuple[BitStep, ...]
    instructions: int = 0


def find_walk(
    goal: BitMap, packed: bool, machine: WarpMachine, fused: bool, most: int | None = None
) -> Walk | None:
    """The cheapest walk found; None if there is none within reach, or none of at most `most` instructions.

    `packed` says that which items share a word is free. With `fused`, the machine's transposes and lane swaps
    are used too; without, shuffles only.
    """
    return _walks(goal, packed, machine.costs, machine.exchanges, fused).cheapest(most)


@lru_cache(maxsize=1024)
def _walks(goal: BitMap, packed: bool, costs: StepCosts, exchanges: frozenset[str], fused: bool) -> _Walks:
    return _Walks(_Search(goal, costs, exchanges, fused), _starts(goal, packed))


class _Place(NamedTuple):
    """Where a walk has come to: its columns, and of which of them (masks) the goal's are sums, once known."""

    columns: Columns
    wanted: Sequence[int] = ()


class _Walks:
    """Walks in the order of their cost, as far as somebody has asked: the search goes on where it stopped."""

    def __init__(self, search: _Search, starts: list[Columns]) -> None:
        self._search, self._number, self._visits = search, count(), 0
        # the place before the last steps, which are taken when their turn comes
        self._heap: list[tuple[int, int, _Place, Walk, tuple[BitStep, ...]]]
        self._heap = [(0, next(self._number), _Place(start), Walk(start, ()), ()) for start in starts]
        self._seen: set[object] = set()
        self._found: Walk | None = None
        self._one_at_a_time = Lock()

    def cheapest(self, most: int | None) -> Walk | None:
        """The first walk that arrives, if it takes at most so many instructions for every two words."""
        with self._one_at_a_time:
            while self._found is None and self._heap and self._visits < _MOST_VISITS:
                if most is not None and self._heap[0][0] // _INSTRUCTION > most:
                    return None
                self._visit()
            return self._found

    def _visit(self) -> None:
        search = self._search
        cost, _, (columns, wanted), walk, last = heapq.heappop(self._heap)
        self._visits += 1
        wanted = wanted or search.wanted(columns)
        for step in last:
            columns, wanted = step.applied(columns), step.rewritten(wanted)
        # the shares of lane and part columns in all others say which space the register columns span
        shares = tuple(mask & ~search.register_mask for mask in wanted)
        key = columns.lanes, columns.parts, shares
        if key in self._seen:
            return
        self._seen.add(key)
        walk = Walk(walk.start, (*walk.steps, *last))
        if key == search.arrived:
            self._found = Walk(walk.start, (*walk.steps, *search.ending(columns)), cost // _INSTRUCTION)
            return
        place = _Place(columns, wanted)
        for steps in search.ways(wanted):
            total = cost + sum(map(search.cost, steps))
            heapq.heappush(self._heap, (total, next(self._number), place, walk, steps))


def _starts(goal: BitMap, packed: bool) -> list[Columns]:
    """The identity; where items are packed on the way, with any items as the parts of a word."""
    lanes, size = tuple(1 << bit for bit in range(len(goal.lanes))), len(goal.parts)
    if not packed:
        return [Columns(lanes, goal.items[:size], goal.items[size:])]
    return [
        Columns(lanes, parts, tuple(item for item in goal.items if item not in parts))
        for parts in permutations(goal.items, size)
    ]


def _cost(kind: Kind, counts: tuple[int, int, int], costs: StepCosts) -> int:
    shuffles, selects, permutes = counts
    slots = shuffles * costs.shuffle + selects * costs.select + permutes * costs.permute
    return sum(counts) * _INSTRUCTION + slots + (kind != "rename") * 16


class _Search:
    def __init__(self, goal: BitMap, costs: StepCosts, exchanges: frozenset[str], fused: bool) -> None:
        self.goal, self.size = goal, goal.bits
        self.costs = {kind: _cost(kind, counts, costs) for kind, counts in _INSTRUCTIONS.items()}
        self.fused_swap = _cost("swap", _FUSED_SWAP, costs)
        self.lane_mask = (1 << len(goal.lanes)) - 1
        self.part_mask = ((1 << len(goal.parts)) - 1) << len(goal.lanes)
        self.register_mask = (1 << self.size) - 1 & ~self.lane_mask & ~self.part_mask
        self.first_register = len(goal.lanes) + len(goal.parts)
        # the lane and part columns and their shares in all of the goal's, where only registers need renaming
        shares = (1 << bit if bit < self.first_register else 0 for bit in range(self.size))
        self.arrived = goal.lanes, goal.parts, tuple(shares)
        self.fused = {bit for bit, name in _SWAPS.items() if fused and name in exchanges}
        self.transposes = fused and "movmatrix" in exchanges and len(goal.lanes) == 5 and bool(goal.parts)

    def cost(self, step: BitStep) -> int:
        """Instructions first, issue slots among equals; a few more steps count as much as one instruction."""
        fused = step.kind == "swap" and step.bits[0] in self.fused
        return self.fused_swap if fused else self.costs[step.kind]

    def wanted(self, columns: Columns) -> list[int]:
        """Of which of these columns (masks) those of the goal are sums."""
        inverse, goal = coordinates(columns.all), self.goal
        return [combined(inverse, column) for column in (*goal.lanes, *goal.parts, *goal.registers)]

    def ending(self, columns: Columns) -> tuple[BitStep, ...]:
        """The renaming that makes the register columns those of the goal."""
        inverse = coordinates(columns.all)
        images = [1 << bit for bit in range(self.first_register)]
        images += [combined(inverse, column) for column in self.goal.registers]
        step = BitStep("rename", tuple(images))
        return (step,) if any(image != 1 << bit for bit, image in enumerate(images)) else ()

    def ways(self, wanted: Sequence[int]) -> Iterator[tuple[BitStep, ...]]:
        """The steps that bring one of the columns nearer to the goal, which is made of these sums of them."""
        for bit, mask in enumerate(wanted[: self.first_register]):
            if mask != 1 << bit:
                yield from self._lane(bit, mask) if bit < len(self.goal.lanes) else self._part(bit, mask)
        for mask in wanted[self.first_register :]:
            yield from self._register(mask)
        lanes = wanted[: len(self.goal.lanes)]
        if not any(mask & ~self.lane_mask for mask in lanes) and any(
            m != 1 << b for b, m in enumerate(lanes)
        ):
            images = (*lanes, *(1 << bit for bit in range(len(lanes), self.size)))
            yield (BitStep("lanes", images),)
        if self.transposes:
            yield (transposition(self.size, self.first_register - 1),)

    def _renamed(self, mask: int) -> tuple[int, tuple[BitStep, ...]]:
        """A register bit whose column is the sum of the register columns of `mask`, and how it gets that."""
        mask &= self.register_mask
        bit = (mask & -mask).bit_length() - 1
        rest = mask & (mask - 1)
        return bit, (add_bits("rename", self.size, bit, rest),) if rest else ()

    def _lane(self, lane: int, mask: int) -> Iterator[tuple[BitStep, ...]]:
        own = mask >> lane & 1
        if mask & self.register_mask:
            register, renaming = self._renamed(mask)
            if own:
                yield (*renaming, add_bits("choose", self.size, lane, 1 << register))
            else:
                yield (*renaming, exchange_bits("swap", self.size, lane, register))
        elif mask & self.part_mask:
            parts = mask & self.part_mask
            if own:
                yield (add_bits("permute", self.size, lane, parts),)
            else:
                yield (exchange_bits("gather", self.size, lane, (parts & -parts).bit_length() - 1),)

    def _part(self, part: int, mask: int) -> Iterator[tuple[BitStep, ...]]:
        own = mask >> part & 1
        others = mask & self.part_mask & ~(1 << part)
        lanes = mask & self.lane_mask
        if mask & self.register_mask:
            register, renaming = self._renamed(mask)
            if own:
                yield (*renaming, add_bits("permute", self.size, part, 1 << register))
            else:
                yield (*renaming, exchange_bits("permute", self.size, part, register))
        if others:
            if own:
                yield (add_bits("permute", self.size, part, others),)
            else:
                yield (exchange_bits("permute", self.size, part, (others & -others).bit_length() - 1),)
        if lanes:
            if own:
                yield (add_bits("gather", self.size, part, lanes),)
            else:
                yield (exchange_bits("gather", self.size, (lanes & -lanes).bit_length() - 1, part),)

    def _register(self, mask: int) -> Iterator[tuple[BitStep, ...]]:
        lanes, parts = mask & self.lane_mask, mask & self.part_mask
        if mask & self.register_mask and (lanes or parts):
            register, renaming = self._renamed(mask)
            if lanes:
                yield (*renaming, add_bits("shift", self.size, register, lanes))
            if parts:
                yield (*renaming, add_bits("permute", self.size, register, parts))
