"""Stages of fixed picks, for relations that exchange bits of the lane's and the register's number.

`unpcklps` and `unpckhps` of registers a and b, which differ in one bit r of their number, move bits: the new
lane bit 0 is r, the new lane bit 1 the old lane bit 0, and the new r the old lane bit 1. Every register takes
part with its partner, so a stage is one instruction per register. A transpose of 8 x 8 wants lane bits and
register bits exchanged; the shortest way there, over what all the machine's fixed picks do to bits, is three
stages of 8 instructions.

The moves are read off the tables of the picks: a pair of tables is a move if each piece's number is the xor
of bits that its place decides one by one, and the tables differ in the one bit that is missing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.machines.picks import Picks

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Move:
    """The place that a bit comes from, for each lane bit and then for the bit r of the register's number.

    Places count the lane bits from 0; r comes after them. `tables` are the picks for r = 0 and r = 1.
    """

    sources: tuple[int, ...]
    tables: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Stage:
    """A move by bit `register_bit` of the register's number."""

    register_bit: int
    tables: tuple[tuple[int, ...], tuple[int, ...]]

    def pairs(self, registers: int) -> list[tuple[int, int]]:
        """The registers that differ in that bit alone."""
        bit = 1 << self.register_bit
        return [(low, low | bit) for low in range(registers) if not low & bit]


@dataclass(frozen=True)
class Stages:
    """The stages in order; `outputs[r]` is the register that then holds the destination's register r."""

    stages: tuple[Stage, ...]
    outputs: tuple[int, ...]


def find_stages(demands: NDArray[np.int64], inputs: int, picks: Picks) -> Stages | None:
    """The fewest stages after which register r holds the pieces `demands[r]`.

    None if the relation does not exchange bits, or there are no stages that do it.
    """
    wanted = _bit_sources(demands, inputs)
    moves = _moves(picks, demands.shape[1])
    if wanted is None or not moves:
        return None
    lane_bits = demands.shape[1].bit_length() - 1
    way = _shortest(tuple(range(len(wanted))), wanted, lane_bits, moves)
    if way is None:
        return None
    state, stages = way
    # the registers' bits may stand in any order: registers are only named
    home = {bit: place for place, bit in enumerate(state[lane_bits:])}
    bits = [home[bit] for bit in wanted[lane_bits:]]
    outputs = tuple(sum((r >> at & 1) << place for at, place in enumerate(bits)) for r in range(inputs))
    return Stages(stages, outputs)


def _bit_sources(demands: NDArray[np.int64], inputs: int) -> tuple[int, ...] | None:
    """For each bit of a destination piece's number the source's bit that it is; None if it is none."""
    numbers = demands.ravel()
    if len(demands) != inputs or numbers.size & (numbers.size - 1) or numbers[0] != 0:
        return None
    images = [int(numbers[1 << bit]) for bit in range(numbers.size.bit_length() - 1)]
    if any(image.bit_count() != 1 for image in images) or len(set(images)) != len(images):
        return None
    at = np.arange(numbers.size)
    rebuilt = sum((at >> bit & 1) * image for bit, image in enumerate(images))
    if not np.array_equal(rebuilt, numbers):
        return None
    return tuple(image.bit_length() - 1 for image in images)


@lru_cache(maxsize=32)
def _moves(picks: Picks, pieces: int) -> tuple[Move, ...]:
    """What stages of fixed picks can do to the bits."""
    bits = pieces.bit_length() - 1
    known: dict[tuple[int, ...], Move] = {}
    if pieces == picks.lanes:
        tables = {pick.table for pick in picks.fixed}
        for table in tables:
            sources = _linear(table, bits)
            if sources is not None:
                other = tuple(place ^ 1 << sources[-1] for place in table)
                if other in tables:
                    known.setdefault(sources, Move(sources, (table, other)))
    return tuple(known.values())


def _linear(table: tuple[int, ...], bits: int) -> tuple[int, ...] | None:
    """The bit that each place bit decides, and the one that none does, if the table is such a map."""
    images = [table[1 << bit] for bit in range(bits)]
    if table[0] != 0 or any(image.bit_count() != 1 for image in images) or len(set(images)) != bits:
        return None
    sources = [image.bit_length() - 1 for image in images]
    missing = next(bit for bit in range(bits + 1) if bit not in sources)
    found = (*sources, missing)
    return found if missing != bits and _tables(found, 1 << bits)[0] == table else None


def _tables(sources: tuple[int, ...], pieces: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The picks of a move."""
    low = tuple(
        sum((place >> bit & 1) << source for bit, source in enumerate(sources[:-1]))
        for place in range(pieces)
    )
    return low, tuple(place | 1 << sources[-1] for place in low)


def _shortest(
    start: tuple[int, ...], wanted: tuple[int, ...], lane_bits: int, moves: tuple[Move, ...]
) -> tuple[tuple[int, ...], tuple[Stage, ...]] | None:
    """The fewest stages (A*), and the source bit that then stands at each place; only lanes' are wanted.

    A stage brings one bit from the registers' numbers to the lanes', so as many are left at least.
    """
    goal = wanted[:lane_bits]

    def left(state: tuple[int, ...]) -> int:
        return len(set(goal).difference(state[:lane_bits])) or int(state[:lane_bits] != goal)

    # the count keeps equal lengths apart: the later one is nearer its end
    count = 0
    waiting: list[tuple[int, int, tuple[int, ...], tuple[Stage, ...]]] = [(left(start), count, start, ())]
    seen: set[tuple[int, ...]] = set()
    while waiting:
        _, _, state, stages = heapq.heappop(waiting)
        if state[:lane_bits] == goal:
            return state, stages
        if state[:lane_bits] in seen:
            continue
        seen.add(state[:lane_bits])
        for stage, after in _steps(state, lane_bits, moves):
            if after[:lane_bits] not in seen:
                count -= 1
                length = len(stages) + 1 + left(after)
                heapq.heappush(waiting, (length, count, after, (*stages, stage)))
    return None


def _steps(
    state: tuple[int, ...], lane_bits: int, moves: tuple[Move, ...]
) -> Iterator[tuple[Stage, tuple[int, ...]]]:
    for move in moves:
        for bit in range(len(state) - lane_bits):
            before = (*state[:lane_bits], state[lane_bits + bit])
            moved = tuple(before[source] for source in move.sources)
            after = list(state)
            after[:lane_bits], after[lane_bits + bit] = moved[:-1], moved[-1]
            yield Stage(bit, move.tables), tuple(after)
