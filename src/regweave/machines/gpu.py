"""Machines whose lanes are the threads of a warp: what an instruction holds where, and what a step costs.

    >>> from regweave.machines.nvidia import SM_80
    >>> SM_80.instruction("mma.m16n8k8.tf32").fragments["C"].element(5, 2)
    (9, 2)
    >>> SM_80.costs.shuffle, SM_80.costs.select
    (2, 1)

Everything here is data that validates itself, so that a new machine is a new table and no new code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import chain

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.layouts import Layout
from regweave.machines.machine import Machine
from regweave.machines.ondemand import OnDemand
from regweave.machines.picks import Picks
from regweave.values import frozen

# operand -> the axes of its tile; the shape follows from the instruction's m, n, k and blocks
OPERAND_AXES = {"A": ("m", "k"), "B": ("k", "n"), "C": ("m", "n"), "D": ("m", "n")}

# what a machine does with an instruction: executes it, has its compiler write it out, or nothing that we use
SUPPORT = ("native", "emulated", "layout")


@dataclass(frozen=True)
class StepCosts:
    """What one step costs a warp, in issue slots of a plain 32-bit integer instruction.

    `shuffle` is a 32-bit exchange between lanes; `select` a choice between two registers by a
    predicate; `permute` a byte permute; `move` a register copy; `logic` integer arithmetic, bit
    operations and shifts; `test` setting a predicate; `convert` packing two f32 into one register;
    `shared_store` and `shared_load` 32 bits per lane without bank conflicts; `barrier` waiting for the other
    lanes of the warp.
    """

    shuffle: int
    select: int
    permute: int
    move: int
    logic: int
    test: int
    convert: int
    shared_store: int
    shared_load: int
    barrier: int = 1

    def __post_init__(self) -> None:
        for entry in fields(self):
            if getattr(self, entry.name) < 1:
                raise InputError(f"cost {entry.name} is {getattr(self, entry.name)}", expected="at least 1")


@dataclass(frozen=True, eq=False)
class MatrixInstruction:
    """One matrix instruction D = A B + C of a warp: its mnemonic, sizes and the layout of each operand.

    `mnemonic` is the vendor's full text; `name` the short name by which operands are asked for
    (`mma.m16n8k8.tf32`, as in `mma.m16n8k8.tf32:C`), `aliases` further ones. `support` says for each machine
    by name whether the instruction is `native` there, `emulated` by the compiler, or known as a `layout`
    only; a machine that is not named lacks it. `note` tells what to use where it is not native. `builtin` is
    the function by which the vendor's compiler makes it, where there is one.

    `m`, `n` and `k` are the sizes of one product. An instruction of several `blocks` computes that many
    independent products D[b] = A[b] B[b] + C[b]; their tiles are stacked along the rows of A, C and D, and
    along the columns of B: row `b * m + i` of A is row i of block b, column `b * n + j` of B its column j.
    `fragments` holds the operands that lie in registers: C and D always, A and B unless they are read from
    shared memory.

    Raises InputError if a fragment's tile does not follow from the sizes, its axes are not the operand's, the
    fragments disagree about the number of lanes, or support has another word.
    """

    name: str
    mnemonic: str
    m: int
    n: int
    k: int
    support: Mapping[str, str]
    fragments: Mapping[str, Layout]
    blocks: int = 1
    aliases: tuple[str, ...] = ()
    note: str = ""
    builtin: str = ""

    def __post_init__(self) -> None:
        if not {"C", "D"} <= set(self.fragments) <= set(OPERAND_AXES):
            raise InputError(
                f"instruction {self.name!r} has operands {sorted(self.fragments)}",
                expected="A, B, C, D, or those of them that lie in registers",
            )
        for operand, layout in self.fragments.items():
            axes = OPERAND_AXES[operand]
            shape = self.tile(operand)
            if layout.shape != shape or layout.axes != axes:
                raise InputError(
                    f"operand {operand} of {self.name!r} has a tile {layout.shape} {layout.axes}",
                    expected=f"{shape} {axes}",
                )
        if len({layout.lanes for layout in self.fragments.values()}) != 1:
            raise InputError(f"the operands of {self.name!r} are spread over different numbers of lanes")
        for machine, level in self.support.items():
            if level not in SUPPORT:
                raise InputError(f"{self.name!r} is {level!r} on {machine}", expected=", ".join(SUPPORT))

    @property
    def lanes(self) -> int:
        """Lanes that execute it together."""
        return self.fragments["D"].lanes

    def tile(self, operand: str) -> tuple[int, int]:
        """The (rows, columns) of an operand's tile, all blocks together."""
        return operand_tile(operand, (self.m, self.n, self.k), self.blocks)


def operand_tile(operand: str, sizes: tuple[int, int, int], blocks: int = 1) -> tuple[int, int]:
    """The (rows, columns) of the tile of A, B, C or D for `sizes` (m, n, k), blocks stacked."""
    extents = dict(zip("mnk", sizes, strict=True))
    rows, columns = (extents[axis] for axis in OPERAND_AXES[operand])
    return (rows, columns * blocks) if operand == "B" else (rows * blocks, columns)


@frozen(eq=False)
class WarpMachine(Machine):
    """A machine whose lanes work on words in step; `instructions` are those that it has, natively or not.

    The first register class holds the lanes' data. `shuffle_widths` are the segment sizes that an exchange
    can be confined to without extra work, `packings` the opcodes of the conversions that it has, `exchanges`
    those of its ways to move words between lanes. `opcode_costs` are the issue slots of single opcodes where
    `costs`, which speaks of kinds of steps, is wrong for them. `selector_slots` are those that a byte permute
    takes on top where its selector is neither a constant nor put together from choices among constants,
    because the instruction wants it in another form. Shared memory has `shared_banks` banks of 32
    bits and serves `shared_widths` bytes per lane at a time, and any part of 4; an access multiplies its
    index by one of `shared_scales` for nothing. `shared_phases` names, for ("load" or "store",
    bytes), the lanes whose xor combinations are served together first, where they are not simply the next
    ones; other phases are the same lanes moved by an xor. `picks` are what a vector machine takes of two
    registers by one instruction. `layouts` are those that belong to no matrix
    instruction: of loads, stores, vector registers.
    """

    costs: StepCosts
    shuffle_widths: tuple[int, ...]
    packings: frozenset[str]
    exchanges: frozenset[str]
    shared_bytes: int
    shared_banks: int
    shared_widths: tuple[int, ...]
    instructions: OnDemand[MatrixInstruction]
    layouts: OnDemand[Layout] = field(default_factory=lambda: OnDemand({}))
    opcode_costs: Mapping[str, int] = field(default_factory=dict)
    shared_phases: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    shared_scales: tuple[int, ...] = ()
    selector_slots: int = 0
    picks: Picks | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.classes:
            raise InputError(f"machine {self.name!r} has no registers", where="classes")
        for opcode, cost in self.opcode_costs.items():
            if cost < 0:
                raise InputError(
                    f"{opcode} costs {cost} on machine {self.name!r}", expected="at least 0 issue slots"
                )
        for name, entry in chain(self.instructions.entries.items(), self.layouts.entries.items()):
            if self.name not in entry.support:
                raise InputError(f"machine {self.name!r} lists {name!r}, which it cannot have")
            if entry.operands and entry.lanes % self.lanes:
                raise InputError(
                    f"{name!r} is spread over {entry.lanes} lanes",
                    expected=f"a multiple of {self.lanes}, the lanes of a warp of {self.name}",
                )

    @property
    def registers_per_lane(self) -> int:
        """32-bit registers that one lane can address."""
        return self.classes[0].count

    @property
    def shared_access_bits(self) -> tuple[int, ...]:
        """Bits per lane that one access to shared memory moves, widest first: parts of a word always."""
        return (*sorted((8 * width for width in self.shared_widths), reverse=True), 16, 8)

    def shared_phase(self, access: str, size: int) -> tuple[int, ...]:
        """The lanes whose xor combinations share a phase of a `load` or `store` of `size` bytes per lane."""
        together = min(self.lanes, self.shared_banks * 4 // max(size, 4))
        nearest = tuple(1 << bit for bit in range(together.bit_length() - 1))
        return self.shared_phases.get((access, size), nearest)

    def cost(self, opcode: str, kind: str) -> int:
        """Issue slots of `opcode`, which is a step of a kind that `StepCosts` names."""
        return self.opcode_costs.get(opcode, getattr(self.costs, kind))

    def instruction(self, name: str) -> MatrixInstruction:
        """The instruction of this name or alias; UnsupportedError with the nearest ones otherwise."""
        found = self.instructions.resolve(name)
        if found is not None:
            return self.instructions[found]
        raise UnsupportedError(
            f"{self.name} has no instruction {name!r}",
            where=f"machine {self.name}",
            nearest=nearest_names(name, self.instructions),
        )

    def native(self, name: str) -> bool:
        """Whether the machine executes the instruction itself; UnsupportedError if it lacks it altogether."""
        return self._level(self.instruction(name).name) == "native"

    def require_native(self, name: str) -> MatrixInstruction:
        """The instruction; UnsupportedError, with what to use instead, if it is not native."""
        entry = self.instruction(name)
        level = self._level(entry.name)
        if level == "native":
            return entry
        words = {"emulated": "emulated by the compiler", "layout": "known as a layout only"}
        raise UnsupportedError(
            f"{entry.name} is {words[level]} on {self.name}",
            where=f"machine {self.name}",
            expected="an instruction that the machine executes itself",
            fix=entry.note or None,
        )

    def _level(self, name: str) -> str:
        return self.instructions.entries[name].support[self.name]
