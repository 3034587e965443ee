"""Two products in one warp, with the seam between them: load, multiply, rearrange, multiply, store.

    >>> kernel = seam_kernel("mma.m16n8k8.tf32", "sm_80", "fold")
    >>> kernel.plan.strategy, kernel.rows, kernel.width
    ('fold', 16, 16)

    y = f(x w1^T), taken as A:  d = y w2^T      x [rows][inner]   w1 [width][inner]   w2 [columns][width]
                   taken as B:  d = w2 y                                              w2 [columns][rows]

All lie row by row. What a strategy costs cannot be seen at the seam alone: an exchange needs shuffles, a fold
another order of w2, a swap other loads and stores, and all of them registers in the order that the next
instruction wants. In a whole kernel all of that is in its instructions, so strategies are compared here.
Weights that a fold permutes are read in their true order: the permutation is in the addresses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from regweave.errors import InputError, UnsupportedError
from regweave.layouts import Layout
from regweave.machines.catalogue import find_instruction, find_machine
from regweave.machines.gpu import MatrixInstruction, WarpMachine
from regweave.programs import Memory, Program, ProgramBuilder, Step, Value
from regweave.programs.signatures import register_type
from regweave.rearrangement import Conditions, NextOperand, Plan, rearrange
from regweave.rearrangement.shared.addressing import lower_addresses, plan_addresses
from regweave.rearrangement.tile_loads import bit_addresses, load_tile, reordered, widest_accesses

_WORD = 32


@dataclass(frozen=True, eq=False)
class SeamKernel:
    """The kernel of two products, the plan of its seam and its sizes; memories are x, w1, w2 and d."""

    program: Program
    plan: Plan
    instruction: MatrixInstruction
    operand: str
    rows: int
    inner: int
    width: int
    columns: int


def seam_kernel(
    instruction: str,
    machine: str | WarpMachine,
    strategy: str = "auto",
    *,
    operand: str = "A",
    activation: bool = False,
    conditions: Conditions | None = None,
) -> SeamKernel:
    """The smallest kernel of two products that a seam carried out by `strategy` joins.

    The second product takes the first one's result as its `operand`, A or B. Sizes are the same for all
    strategies of an instruction. `activation`: ReLU between the products, of f32 results. Conditions may say
    where w2 comes from (`next_operand`): through shared memory, or with its rows and columns exchanged
    (`along="n"`); by default it is read from global memory. Raises
    UnsupportedError if the machine lacks the instruction or the strategy does not apply, InputError for an
    unknown name or operand.
    """
    if operand not in ("A", "B"):
        raise InputError(f"the result is taken as {operand!r}", where="operand", expected="A or B")
    target = find_machine(machine) if isinstance(machine, str) else machine
    entry = target.require_native(find_instruction(instruction).name)
    if set(entry.fragments) != set("ABCD") or entry.blocks > 1 or entry.lanes != target.lanes:
        raise UnsupportedError(f"{entry.name} is no single product of A and B in registers of a warp")
    if activation and entry.fragments["D"].dtype != "f32":
        raise UnsupportedError(f"{entry.name} has {entry.fragments['D'].dtype} results, no activation of f32")
    edge = math.lcm(entry.m, entry.n)
    deep = math.lcm(edge, entry.k)
    rows, width = (edge, deep) if operand == "A" else (deep, edge)
    surroundings = conditions or Conditions(work_between=activation)
    if surroundings.next_operand is None:
        surroundings = replace(surroundings, next_operand=NextOperand())
    source, destination = f"{entry.name}:D", f"{entry.name}:{operand}"
    plan = rearrange(source, destination, target, strategy, tile=(rows, width), conditions=surroundings)
    if plan.destination.shape != (rows, width):
        raise UnsupportedError(
            f"{plan.chosen.name} joins tiles of {plan.destination.shape}", where="strategy"
        )
    writer = _Writer(entry, target, plan, operand, (rows, entry.k, width, edge))
    program = writer.program(activation=activation)
    return SeamKernel(program, plan, entry, operand, rows, entry.k, width, edge)


class _Writer:
    """Writes one kernel; `sizes` are rows, inner, width and columns."""

    def __init__(
        self,
        entry: MatrixInstruction,
        machine: WarpMachine,
        plan: Plan,
        operand: str,
        sizes: tuple[int, int, int, int],
    ) -> None:
        assert plan.next_load is not None
        self.entry, self.machine, self.plan, self.operand = entry, machine, plan, operand
        self.coming = plan.next_load
        self.rows, self.inner, self.width, self.columns = sizes
        depth, across = (self.width, self.rows) if operand == "A" else (self.rows, self.width)
        bits = entry.fragments["A"].element_type.bits
        result = entry.fragments["D"].element_type.bits
        assert plan.chosen.program is not None
        memories = [
            Memory("x", "global", self.rows * self.inner * bits // 8),
            Memory("w1", "global", self.width * self.inner * bits // 8),
            Memory("w2", "global", self.columns * depth * bits // 8),
            Memory("d", "global", self.columns * across * result // 8),
            *plan.chosen.program.memories,
            *(memory for memory in self.coming.program.memories if memory.space == "shared"),
        ]
        name = f"regweave_{plan.chosen.program.name.removeprefix('regweave_')}_kernel"
        self.builder = ProgramBuilder(name, machine.lanes, memories=memories, instructions=[entry])
        self.lane = self.builder.step("lane")

    def program(self, *, activation: bool) -> Program:
        """Both products with the seam between them."""
        swapped = self.plan.form if self.plan.strategy == "swap" else None
        between = self.first(transposed=swapped == "producer")
        if activation:
            zero = self.builder.step("number", (self.builder.constant(0),))
            between = [self.builder.step("maximum_f32", (value, zero)) for value in between]
        assert self.plan.chosen.program is not None
        taken = self.inlined(self.plan.chosen.program, between)
        self.second(taken, transposed=swapped == "consumer")
        return self.builder.finish()

    def first(self, *, transposed: bool) -> list[Value]:
        """The registers of x w1^T, computed in another order if the seam folds to the left."""
        x = self.tile("B" if transposed else "A", self.rows, self.inner, transposed=transposed)
        w1 = self.tile("A" if transposed else "B", self.inner, self.width, transposed=transposed)
        order = self.plan.producer_order
        from_x = x if order is None or self.operand == "A" else reordered(x, order, axis=0)
        from_w1 = w1 if order is None or self.operand == "B" else reordered(w1, order, axis=1)
        left = self.load("x", from_x, self.inner)
        right = self.load("w1", from_w1.transpose(), self.inner)
        return self.multiply(x, left, w1, right, transposed=transposed)

    def second(self, taken: Sequence[Value], *, transposed: bool) -> None:
        """The second product of what the seam hands over, stored."""
        plan, words = self.plan, self.weights()
        if self.operand == "A":
            w2 = self.tile("A" if transposed else "B", self.width, self.columns, transposed=transposed)
            result = self.multiply(plan.destination, taken, w2, words, transposed=transposed)
            rows, columns = self.rows, self.columns
        else:
            w2 = self.tile("B" if transposed else "A", self.columns, self.rows, transposed=transposed)
            result = self.multiply(w2, words, plan.destination, taken, transposed=transposed)
            rows, columns = self.columns, self.width
        d = self.tile("D", rows, columns, transposed=transposed)
        if self.coming.result_order is not None:
            d = reordered(d, self.coming.result_order, axis=1 if self.operand == "A" else 0)
        self.store("d", d, columns, result)

    def weights(self) -> list[Value]:
        """The registers of w2, loaded as the plan has it."""
        if self.coming.staged is None:
            return self.load("w2", self.coming.layout, self.coming.layout.shape[1])
        rows = self.load("w2", self.coming.staged, self.coming.staged.shape[1])
        return self.inlined(self.coming.program, rows)

    def tile(self, operand: str, rows: int, columns: int, *, transposed: bool) -> Layout:
        """An operand's fragments side by side; of a transposed product, as the tile that it is here."""
        fragment = self.entry.fragments[operand]
        fragment = fragment.transpose() if transposed else fragment
        return fragment.repeat(rows // fragment.shape[0], columns // fragment.shape[1])

    def multiply(
        self,
        left: Layout,
        left_words: Sequence[Value],
        right: Layout,
        right_words: Sequence[Value],
        *,
        transposed: bool,
    ) -> list[Value]:
        """The registers of the product of two tiles, in the order of the result's fragments.

        Fragments of a tile follow one another row by row. The transposed product takes `right` as its A.
        """
        shapes = {name: self.entry.fragments[name].shape for name in "ABD"}
        if transposed:
            steps = left.shape[1] // shapes["B"][0]
            down, across = left.shape[0] // shapes["B"][1], right.shape[1] // shapes["A"][0]
        else:
            steps = left.shape[1] // shapes["A"][1]
            down, across = left.shape[0] // shapes["A"][0], right.shape[1] // shapes["B"][1]
        first, second = (_fragments(words, count) for words, count in (
            (left_words, down * steps), (right_words, steps * across)
        ))  # fmt: skip
        results: list[Value] = []
        for i in range(down):
            for j in range(across):
                total = self.zeros()
                for k in range(steps):
                    sides = first[i * steps + k], second[k * across + j]
                    a, b = reversed(sides) if transposed else sides
                    total = self.builder.apply("matrix", (*a, *b, *total), (), self.entry.name)
                results += total
        return results

    def zeros(self) -> tuple[Value, ...]:
        """Registers of an accumulator that holds nothing yet."""
        layout = self.entry.fragments["C"]
        zero = self.builder.constant(0)
        if register_type(layout) == "f32":
            zero = self.builder.step("number", (zero,))
        return (zero,) * layout.registers

    def inlined(self, program: Program, words: Sequence[Value]) -> list[Value]:
        """The results of a device function's program on these words, its steps written here."""
        known: dict[int, Value] = {}
        for step in program.steps:
            assert isinstance(step, Step), "rearrangements of whole warps have no bodies"
            operands = tuple(known[operand.number] for operand in step.operands)
            if step.opcode == "word":
                results: tuple[Value, ...] = (words[step.numbers[0]],)
            else:
                results = self.builder.apply(step.opcode, operands, step.numbers, step.symbol)
            known.update(zip((value.number for value in step.results), results, strict=True))
        return [known[value.number] for value in program.results]

    def load(self, memory: str, layout: Layout, stride: int) -> list[Value]:
        """The registers of a layout's tile from a memory that holds it row by row, by the widest loads."""
        words = load_tile(self.builder, memory, layout, stride, self.lane, self.machine)
        return [self.typed(word, layout) for word in words]

    def store(self, memory: str, layout: Layout, stride: int, words: Sequence[Value]) -> None:
        """Store registers to a memory that holds the tile row by row, by the widest stores."""
        assert layout.element_type.bits >= _WORD, "accumulators fill registers"
        found = widest_accesses(bit_addresses(layout, stride), _WORD)
        places = lower_addresses(plan_addresses(list(found.tables)), self.builder, self.lane, self.machine)
        for items, (address, offset) in zip(found.items, places, strict=True):
            values = [words[item] for item in items]
            raw = [self.builder.step("bits", (v,)) if v.type == "f32" else v for v in values]
            self.builder.store(memory, address, raw, found.bytes, offset)

    def typed(self, value: Value, layout: Layout) -> Value:
        """A loaded word as a register of the layout's type."""
        return self.builder.step("number", (value,)) if register_type(layout) == "f32" else value


def _fragments(words: Sequence[Value], count: int) -> list[tuple[Value, ...]]:
    size = len(words) // count
    return [tuple(words[first : first + size]) for first in range(0, len(words), size)]
