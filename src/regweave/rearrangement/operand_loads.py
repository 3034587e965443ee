"""The load of the next product's other operand, with k in the order that a fold asks for.

    >>> other = OtherOperand(NextOperand("global"), "mma.m16n8k8.tf32:A", request)
    >>> str(other.true), str(other.load((0, 2, 4, 6, 1, 3, 5, 7)))
    ('4 loads of 4 bytes', '2 loads of 8 bytes')

Position p of the operand's k must hold the true k `order[p]`. From global memory every lane reads what it
needs, by the widest accesses that the order leaves. Through shared memory rows of 16 bytes are staged and
then read, which is a rearrangement like any other: from the layout of those rows to the fragment in its
order, with the swizzle and the widths that cost least and leave no bank conflict. Each load is written as a
program, counted, and proved by running it.

Where the order of n is free too, columns are dealt out so that what a lane holds lies side by side
(`gathered`); a fold whose producer can reorder its columns as well can have the same for k.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from regweave.errors import InputError, UnsupportedError, VerificationError
from regweave.layouts import Layout
from regweave.machines.catalogue import find_layout
from regweave.programs import Array, Memory, Program, ProgramBuilder, run_program
from regweave.rearrangement.folds import contraction_axis
from regweave.rearrangement.next_operand import NextOperand, other_factor
from regweave.rearrangement.proof import prove
from regweave.rearrangement.relation import in_words, relate
from regweave.rearrangement.request import Request
from regweave.rearrangement.shared.forms import lower_passage
from regweave.rearrangement.shared.passages import linear_passage
from regweave.rearrangement.shared.trials import trial_passage
from regweave.rearrangement.slots import registers_of
from regweave.rearrangement.tile_loads import load_tile, reordered
from regweave.rearrangement.tuples import tuple_moves

OPERAND = "operand"
_ROW_BITS = 128
_LOADS = ("global_load", "shared_load", "matrix_load")


@dataclass(frozen=True, eq=False)
class OperandLoad:
    """A load of the other operand's tile whose k comes in `order`, and n in `result_order` (None: as it is).

    `layout` says which true elements the registers hold, as the tile lies in memory; `staged`, for shared
    memory, which elements each lane brings there. `moves` are copies that aligned tuples force.
    """

    order: tuple[int, ...]
    result_order: tuple[int, ...] | None
    layout: Layout
    staged: Layout | None
    program: Program
    moves: int

    @property
    def instructions(self) -> int:
        """All instructions, addresses and copies included."""
        return sum(self.program.count().values()) + self.moves

    @property
    def widths(self) -> dict[int, int]:
        """How many loads there are of each number of bytes per lane, widest first."""
        loads = [step for step, _ in self.program.walk() if step.opcode in _LOADS]
        sizes = (4 * len(step.results) if step.opcode == _LOADS[2] else step.numbers[0] for step in loads)
        return dict(sorted(Counter(sizes).items(), reverse=True))

    def __str__(self) -> str:
        return ", ".join(
            f"{count} load{'s' if count > 1 else ''} of {size} byte{'s' if size > 1 else ''}"
            for size, count in self.widths.items()
        )


class OtherOperand:
    """The other factor's tile, and its loads; `operand` is the name or layout of the factor that is known.

    InputError where neither it nor `next_operand` says what the other factor is.
    """

    def __init__(self, next_operand: NextOperand, operand: str | Layout, request: Request) -> None:
        self.next, self.machine = next_operand, request.machine
        depth = request.destination.shape[_k_axis(request.destination)]
        fragment = self._fragment(operand)
        self.axis, self.registers = _k_axis(fragment), fragment.registers
        across = fragment.shape[1 - self.axis]
        if isinstance(operand, str) and next_operand.layout is None:
            known = find_layout(operand, self.machine)
            across = math.lcm(across, known.shape[1 - _k_axis(known)])
        shape = (depth, across) if self.axis == 0 else (across, depth)
        if shape[0] % fragment.shape[0] or shape[1] % fragment.shape[1]:
            raise InputError(f"{fragment.name} does not fill a k of {depth}", where="the next operand")
        self.tile = fragment.repeat(shape[0] // fragment.shape[0], shape[1] // fragment.shape[1])
        self._loads: dict[tuple[int, ...], OperandLoad] = {}

    def _fragment(self, operand: str | Layout) -> Layout:
        given = self.next.layout
        if isinstance(given, Layout):
            return given
        name = other_factor(operand) if given is None else given
        if name is None:
            raise InputError(
                f"which operand goes with {getattr(operand, 'name', operand)} is not known",
                where="the next operand",
                fix="name it: NextOperand(layout=...)",
            )
        return find_layout(name, self.machine)

    @property
    def true(self) -> OperandLoad:
        """The load with k in its true order."""
        return self.load(tuple(range(self.tile.shape[self.axis])))

    @property
    def gathered(self) -> tuple[int, ...]:
        """The order of k in which what a lane holds lies side by side."""
        return gathered(self.tile, self.axis)

    def load(self, order: tuple[int, ...]) -> OperandLoad:
        """The cheapest load with k in this order."""
        if order not in self._loads:
            orders: list[tuple[int, ...] | None] = [None]
            if self.next.result_free:
                orders.append(gathered(self.tile, 1 - self.axis))
            loads = [self._load(order, result) for result in orders]
            self._loads[order] = min(loads, key=lambda load: load.instructions)
        return self._loads[order]

    def _load(self, order: tuple[int, ...], result: tuple[int, ...] | None) -> OperandLoad:
        layout = reordered(self.tile, order, self.axis)
        if result is not None:
            layout = reordered(layout, result, 1 - self.axis)
        if (self.axis == 1) != (self.next.along == "k"):
            layout = layout.transpose()
        write = self._from_global if self.next.place == "global" else self._from_shared
        return write(order, result, layout)

    def _from_global(
        self, order: tuple[int, ...], result: tuple[int, ...] | None, layout: Layout
    ) -> OperandLoad:
        registers = Array("destination", "b32", layout.registers)
        size = layout.elements * layout.element_type.bits // 8
        builder = ProgramBuilder(
            f"load_{OPERAND}", self.machine.lanes, destination=registers,
            memories=[Memory(OPERAND, "global", size)],
        )  # fmt: skip
        words = load_tile(builder, OPERAND, layout, layout.shape[1], builder.step("lane"), self.machine)
        program = builder.finish(words)
        _prove(program, layout)
        return OperandLoad(order, result, layout, None, program, self._moves(program, layout, 1))

    def _from_shared(
        self, order: tuple[int, ...], result: tuple[int, ...] | None, layout: Layout
    ) -> OperandLoad:
        staged = staging(layout)
        tuples = max(_row(layout) * layout.element_type.bits // 32, 1), self.registers
        relation = relate(staged, layout).in_words
        passage = linear_passage(relation, self.machine, tuples) or trial_passage(relation, self.machine)
        if passage is None or passage.bytes > self.machine.shared_bytes:
            raise UnsupportedError(
                f"{layout.name} does not come from shared memory without bank conflicts",
                where="the next operand",
            )
        program = lower_passage(f"load_{OPERAND}", relation, passage, self.machine, OPERAND)
        prove(program, relation)
        return OperandLoad(order, result, layout, staged, program, self._moves(program, layout, tuples[0]))

    def _moves(self, program: Program, layout: Layout, staged: int) -> int:
        return tuple_moves(program, Request(layout, layout, self.machine, self.registers, staged))


def gathered(layout: Layout, axis: int) -> tuple[int, ...]:
    """For each position along an axis, a number such that what one lane holds is numbered side by side.

    Positions that the same lanes hold follow one another in the order of registers.
    """
    positions = np.divmod(layout.table, layout.shape[1])[axis]
    holders: dict[bytes, list[int]] = {}
    for position in range(layout.shape[axis]):
        lanes = (positions == position).any(axis=1)
        holders.setdefault(lanes.tobytes(), []).append(position)
    order = [0] * layout.shape[axis]
    number = 0
    for held in holders.values():
        lane = int((positions == held[0]).any(axis=1).argmax())
        items = positions[lane].tolist()
        for position in sorted(held, key=items.index):
            order[position] = number
            number += 1
    return tuple(order)


def staging(layout: Layout) -> Layout:
    """Rows of up to 16 bytes, dealt out to the lanes one after the other, as they lie in memory."""
    row = _row(layout)
    item = np.arange(-(-layout.elements // layout.lanes))
    first = item // row * row * layout.lanes + item % row
    table = (first + row * np.arange(layout.lanes)[:, None]) % layout.elements
    return Layout(f"rows of {layout.name}", layout.shape, layout.dtype, table, layout.axes)


def _row(layout: Layout) -> int:
    """How many elements a lane brings at once, at most 16 bytes."""
    return math.gcd(-(-layout.elements // layout.lanes), _ROW_BITS // layout.element_type.bits)


def _k_axis(layout: Layout) -> int:
    axis = contraction_axis(layout)
    if axis is None:
        raise InputError(f"{layout.name} has no contraction index k", where="the next operand")
    return axis


def _prove(program: Program, layout: Layout) -> None:
    """Run a load from global memory and look at every slot: element numbers travel byte by byte."""
    words = in_words(layout)
    kind = words.element_type
    for shift in range(0, max(words.elements.bit_length(), 1), min(kind.bits, 8)):
        values = np.arange(words.elements) >> shift & ((1 << min(kind.bits, 8)) - 1)
        wanted = registers_of(values[words.table].astype(np.uint32), kind)
        row = registers_of(values[None].astype(np.uint32), kind)
        found = run_program(program, memories={OPERAND: row.view(np.uint8).reshape(-1)})
        if not np.array_equal(found[: layout.lanes], wanted):
            raise VerificationError(f"{program.name} does not load {layout.name}", where="the next operand")
