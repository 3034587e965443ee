"""The addresses of a side's accesses, computed with few instructions.

Every access has a table: its address in each thread. Tables that differ by a constant share one value, and
the constant goes into the instruction. Where an xor swizzle overlaps the lanes' bits, tables that differ by
the xor of a constant share a value but for that xor. What is left are values that depend on the thread
alone:

    >>> plan_addresses([[0, 4, 8, ...], [128, 132, ...]])
    one value `lane << 2`, and offsets 0 and 128

If each bit of the thread's number adds (or flips) fixed bits, a value is a sum of shifted, masked pieces.
Anything else is left to `synthesise`. A factor of all pieces comes last where accesses scale their index.

Where rows of slots are turned, many values differ by where a lane's bank begins again at the first one. Then
one value says the row, one the place within it, and every address is `row + ((place + 4) & 127)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regweave.machines.gpu import WarpMachine
from regweave.programs import ProgramBuilder, Value
from regweave.rearrangement.alike import first_alike
from regweave.rearrangement.expressions.nodes import lower_expression
from regweave.rearrangement.expressions.synthesis import synthesise

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LOOKUP, _LONG_LOOKUP = 3, 16
#: Lanes up to which look-ups take few instructions.
MOST_LANES = 64
# tables of which it does not pay to look at a part first
_FEW = 64
_ROW = 128  # bytes that all banks hold side by side


@dataclass(frozen=True)
class Piece:
    """Bits `first` to `first + bits - 1` of the thread's number, times `factor`."""

    first: int
    bits: int
    factor: int
    whole: bool  # whether these are all bits from `first` on

    @property
    def operations(self) -> int:
        """Instructions that it takes."""
        if self.factor & (self.factor - 1):
            return 1 + (self.first > 0) + (not self.whole)
        shift = self.factor.bit_length() - 1 - self.first
        return (shift != 0) + (not self.whole or (self.first > 0 and self.factor > 1))


@dataclass(frozen=True, eq=False)
class ThreadValue:
    """A value that depends on the thread's number: `pieces` joined by `joint`, or else a bare `table`."""

    table: NDArray[np.int32]
    pieces: tuple[Piece, ...] | None
    joint: str

    @property
    def operations(self) -> int:
        """Instructions that it takes, a guess for a bare table: those of several warps take more."""
        if self.pieces is None:
            return _LOOKUP if self.table.size <= MOST_LANES else _LONG_LOOKUP
        return _operations(self.pieces)


@dataclass(frozen=True)
class TurnedValue:
    """The sum of value `row` and, `turn` further within a row of banks, value `place`; -1 for neither."""

    row: int
    place: int
    turn: int

    @property
    def operations(self) -> int:
        """Instructions that it takes once its parts are there."""
        return 2 * (self.turn > 0) + (self.row >= 0 and self.place >= 0)


@dataclass(frozen=True, eq=False)
class Addresses:
    """For each access (value, xored constant) and the known offset; `values` are shared.

    Values may be made of those before them.
    """

    values: tuple[ThreadValue | TurnedValue, ...]
    uses: tuple[tuple[int, int, int], ...]

    @property
    def operations(self) -> int:
        """Instructions for all values, and for xors of them."""
        xors = {(value, constant) for value, constant, _ in self.uses if constant}
        return sum(value.operations for value in self.values) + len(xors)


def plan_addresses(tables: Sequence[NDArray[Any]] | NDArray[Any]) -> Addresses:
    """Few values for these `tables`, each the byte address of one access in every thread."""
    found = addresses_within(tables)
    assert found is not None, "without a limit they are always found"
    return found


def addresses_within(
    tables: Sequence[NDArray[Any]] | NDArray[Any],
    alike: NDArray[np.int64] | None = None,
    most: int | None = None,
) -> Addresses | None:
    """Values for these tables as above; None once they take more than `most` operations.

    Tables that differ by a constant have one number in `alike`, if it is given.
    """
    given = np.asarray(tables, dtype=np.int32)
    if given.shape[1] <= MOST_LANES:
        return _one_by_one(given, alike, most)
    turned = _turned(given, alike)
    if most is not None and turned.operations > most:
        return _one_by_one(given, alike, most)
    return _one_by_one(given, alike, turned.operations - 1) or turned


def _turned(tables: NDArray[np.int32], alike: NDArray[np.int64] | None) -> Addresses:
    """Values for rows of banks and for places within them; what a place is turned by is added."""
    kinds = np.arange(len(tables)) if alike is None else alike
    # tables that differ by whole rows share all but these rows
    _, first, which = np.unique(kinds * _ROW + tables[:, 0] % _ROW, return_index=True, return_inverse=True)
    some, order = np.unique(first[which], return_inverse=True)
    given = tables[some]
    places = given & _ROW - 1
    rows = given - places
    moves = rows - rows[:, :1], places - places[:, :1] & _ROW - 1
    starts, least = [rows[:, 0], places[:, 0]], np.zeros(len(given), dtype=given.dtype)
    values: list[ThreadValue | TurnedValue] = []
    parts: list[NDArray[np.int64]] = []  # the number of the value of each row, and of each place
    for side, moved in enumerate(moves):
        different, kind = np.unique(first_alike(moved), return_inverse=True)
        shifted = moved[different]
        if side == 0:
            least = shifted.min(axis=1)[kind]
            shifted = shifted - shifted.min(axis=1)[:, None]
        there = shifted.any(axis=1)
        parts.append(np.where(there, len(values) + np.cumsum(there) - 1, -1)[kind])
        values += map(_value, shifted[there], _linear(shifted[there]))
    support, largest = np.bitwise_or.reduce(moves[1], axis=1), moves[1].max(axis=1)
    step = np.where(support == 0, 1, support & -support)  # places are multiples of it
    turns = starts[1] // step * step
    turns[largest + turns < _ROW] = 0  # none begins again
    number, known = parts[1] + 1 + (parts[0] + 1) * (len(values) + 1), len(values)
    _, first, use = np.unique(number * _ROW + turns, return_index=True, return_inverse=True)
    values += map(TurnedValue, *([each[first].tolist() for each in (*parts, turns)]))
    offsets = tables[:, 0] - starts[1][order] + (least + starts[1] - turns)[order]
    uses = zip((known + use)[order].tolist(), offsets.tolist(), strict=True)
    return Addresses(tuple(values), tuple((value, 0, offset) for value, offset in uses))


def _one_by_one(
    given: NDArray[np.int32], alike: NDArray[np.int64] | None, most: int | None
) -> Addresses | None:
    """A value for all tables that differ by a constant, or by the xor of one."""
    few = slice(len(given) // 4)
    if most is not None and few.stop > _FEW and alike is not None:  # what takes too much does so soon
        part = _one_by_one(given[few], alike[few], most)
        if part is None:
            return None
    kinds = range(len(given)) if alike is None else alike.tolist()
    starts = given[:, :1]
    moves, flips = given - starts, given ^ starts
    least_moves = moves.min(axis=1).tolist()
    supports = np.bitwise_or.reduce(flips, axis=1).tolist()
    # one number for all that are equal, whether moved or flipped
    every = np.concatenate([moves, flips])
    which = first_alike(every)
    distinct = np.flatnonzero(which == np.arange(len(which)))
    linear = dict(zip(distinct.tolist(), _linear(every[distinct]), strict=True))
    moved, flipped = which.reshape(2, -1).tolist()
    values: list[ThreadValue] = []
    by_kind: dict[int, int] = {}
    by_table: dict[int, int] = {}
    uses, operations = [], 0
    for at, (start, kind) in enumerate(zip(starts[:, 0].tolist(), kinds, strict=True)):
        if kind in by_kind:
            uses.append((by_kind[kind], 0, start))
            continue
        upwards = least_moves[at] >= 0
        flip = start & supports[at], start & ~supports[at]
        if upwards and moved[at] in by_table:
            by_kind[kind] = by_table[moved[at]]
            uses.append((by_kind[kind], 0, start))
        elif flipped[at] in by_table:
            uses.append((by_table[flipped[at]], *flip))
        else:
            flips_bits = not upwards or linear[flipped[at]].flips
            uses.append((len(values), *flip) if flips_bits else (len(values), 0, start))
            table = flipped[at] if flips_bits else moved[at]
            by_table[table] = len(values)
            values.append(_value(every[table], linear[table]))
            operations += values[-1].operations
            if most is not None and operations > most:
                return None
    return Addresses(tuple(values), tuple(uses))


def lower_addresses(
    plan: Addresses, builder: ProgramBuilder, thread: Value, machine: WarpMachine
) -> list[tuple[Value, int]]:
    """The value and the known offset of each access."""
    values: list[Value] = []
    for value in plan.values:
        if isinstance(value, TurnedValue):
            values.append(_lower_turned(value, values, builder))
        else:
            values.append(_lower(value, builder, thread, machine))
    lowered = []
    for number, constant, offset in plan.uses:
        value = values[number]
        if constant:
            value = builder.step("xor", (value, builder.constant(constant)))
        lowered.append((value, offset))
    return lowered


def _lower_turned(value: TurnedValue, values: Sequence[Value], builder: ProgramBuilder) -> Value:
    if value.place < 0:
        return values[value.row] if value.row >= 0 else builder.constant(0)
    place = values[value.place]
    if value.turn:
        further = builder.step("add", (place, builder.constant(value.turn)))
        place = builder.step("and", (further, builder.constant(_ROW - 1)))
    return place if value.row < 0 else builder.step("add", (values[value.row], place))


class _Linear(NamedTuple):
    """What each bit of the thread's number adds or flips, and whether that is all; empty without bits."""

    ones: list[int]
    adds: bool
    flips: bool


def _linear(tables: NDArray[np.int32]) -> list[_Linear]:
    """Of each table."""
    threads = tables.shape[1]
    bits = threads.bit_length() - 1
    if threads != 1 << bits:
        return [_Linear([], False, False) for _ in tables]
    sums, xors = np.zeros_like(tables), np.zeros_like(tables)
    for bit in range(bits):
        size = 1 << bit
        one = tables[:, size, None]
        np.add(sums[:, :size], one, out=sums[:, size : 2 * size])
        np.bitwise_xor(xors[:, :size], one, out=xors[:, size : 2 * size])
    ones = tables[:, 1 << np.arange(bits)].tolist()
    fits = [(made == tables).all(axis=1).tolist() for made in (sums, xors)]
    return [_Linear(*each) for each in zip(ones, *fits, strict=True)]


def _value(table: NDArray[np.int32], linear: _Linear) -> ThreadValue:
    """The cheaper of sum and xor, or the bare table."""
    made = [ThreadValue(table, _fields(linear.ones), "add")] if linear.adds else []
    if linear.flips:
        made.append(ThreadValue(table, _shifts(linear.ones), "xor"))
    return min(made, key=lambda value: value.operations, default=ThreadValue(table, None, ""))


def linear_operations(ones: Sequence[int], *, adds: bool, flips: bool) -> int:
    """Instructions of the value to which each bit of the thread's number adds or flips these bits."""
    ways = [_fields(ones)] if adds else []
    if flips:
        ways.append(_shifts(ones))
    return min(map(_operations, ways))


def _operations(pieces: Sequence[Piece]) -> int:
    """Instructions that the pieces take, and that join them."""
    return sum(piece.operations for piece in pieces) + max(len(pieces) - 1, 0)


def _fields(weights: Sequence[int]) -> tuple[Piece, ...]:
    """Runs of bits whose weights double."""
    pieces, first = [], 0
    while first < len(weights):
        last = first
        while last + 1 < len(weights) and weights[last + 1] == 2 * weights[last]:
            last += 1
        if weights[first]:
            whole = not any(weights[last + 1 :]) and last + 1 == len(weights)
            pieces.append(Piece(first, last - first + 1, weights[first], whole))
        first = last + 1
    return tuple(pieces)


def _shifts(masks: Sequence[int]) -> tuple[Piece, ...]:
    """For each distance the run of bits that move that far; runs with gaps are several pieces."""
    by_distance: dict[int, list[int]] = {}
    for bit, mask in enumerate(masks):
        for place in range(mask.bit_length()):
            if mask >> place & 1:
                by_distance.setdefault(place - bit, []).append(bit)
    pieces = []
    for distance, bits in by_distance.items():
        first = 0
        for number, bit in enumerate(bits):
            if number + 1 == len(bits) or bits[number + 1] != bit + 1:
                low = bits[first]
                factor = 1 << (low + distance)
                pieces.append(Piece(low, bit - low + 1, factor, bit + 1 == len(masks)))
                first = number + 1
    return tuple(pieces)


def _lower(value: ThreadValue, builder: ProgramBuilder, thread: Value, machine: WarpMachine) -> Value:
    if value.pieces is None:
        return lower_expression(synthesise(value.table.tolist(), 0xFFFFFFFF, machine.costs), builder, thread)
    scale = _scale(value.pieces, machine)
    total: Value | None = None
    for piece in value.pieces:
        part = _lower_piece(replace(piece, factor=piece.factor // scale), builder, thread)
        total = part if total is None else builder.step(value.joint, (total, part))
    if total is None:
        return builder.constant(0)
    return (
        builder.step("shift_left", (total, builder.constant(scale.bit_length() - 1))) if scale > 1 else total
    )


def _scale(pieces: Sequence[Piece], machine: WarpMachine) -> int:
    """The largest factor that all of several pieces have and that accesses multiply by themselves, or 1."""
    common = math.gcd(*(piece.factor for piece in pieces))
    scales = [scale for scale in machine.shared_scales if common % scale == 0]
    return max(scales, default=1) if len(pieces) > 1 else 1


def _lower_piece(piece: Piece, builder: ProgramBuilder, thread: Value) -> Value:
    """The piece as shift and mask, and a product where its factor is no power of two."""
    mask = ((1 << piece.bits) - 1) << piece.first
    if piece.factor & (piece.factor - 1):
        part = thread
        if piece.first:
            part = builder.step("shift_right", (part, builder.constant(piece.first)))
        if not piece.whole:
            part = builder.step("and", (part, builder.constant(mask >> piece.first)))
        return builder.step("multiply", (part, builder.constant(piece.factor)))
    distance = piece.factor.bit_length() - 1 - piece.first
    part = thread
    if distance:
        opcode = "shift_left" if distance > 0 else "shift_right"
        part = builder.step(opcode, (part, builder.constant(abs(distance))))
    if piece.whole and not (piece.first and distance > -piece.first):
        return part
    moved = mask << distance if distance >= 0 else mask >> -distance
    return builder.step("and", (part, builder.constant(moved)))
