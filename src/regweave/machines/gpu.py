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
from dataclasses import dataclass, fields

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.layouts import Layout
from regweave.machines.machine import Machine

# operand -> the axes of its tile; the shape follows from the instruction's m, n, k
OPERAND_AXES = {"A": ("m", "k"), "B": ("k", "n"), "C": ("m", "n"), "D": ("m", "n")}

# what a machine does with an instruction: executes it, has its compiler write it out, or nothing that we use
SUPPORT = ("native", "emulated", "layout")


@dataclass(frozen=True)
class StepCosts:
    """What one step costs a warp, in issue slots of a plain 32-bit integer instruction.

    `shuffle` is a 32-bit exchange between lanes; `select` a choice between two registers by a
    predicate; `permute` a byte permute; `move` a register copy; `logic` integer arithmetic, bit
    operations and shifts; `test` setting a predicate; `convert` packing two f32 into one register;
    `shared_store` and `shared_load` 32 bits per lane without bank conflicts.
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

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise InputError(f"cost {field.name} is {getattr(self, field.name)}", expected="at least 1")


@dataclass(frozen=True, eq=False)
class MatrixInstruction:
    """One matrix instruction D = A B + C of a warp: its mnemonic, sizes and the layout of each operand.

    `mnemonic` is the vendor's full text; `name` the short name by which operands are asked for
    (`mma.m16n8k8.tf32`, as in `mma.m16n8k8.tf32:C`). `support` says for each machine by name whether the
    instruction is `native` there, `emulated` by the compiler, or known as a `layout` only; a machine that is
    not named lacks it. Raises InputError if a fragment's tile does not follow from m, n and k, its axes are
    not the operand's, the fragments disagree about the number of lanes, or support has another word.
    """

    name: str
    mnemonic: str
    m: int
    n: int
    k: int
    support: Mapping[str, str]
    fragments: Mapping[str, Layout]

    def __post_init__(self) -> None:
        sizes = {"m": self.m, "n": self.n, "k": self.k}
        if set(self.fragments) != set(OPERAND_AXES):
            raise InputError(
                f"instruction {self.name!r} has operands {sorted(self.fragments)}", expected="A, B, C, D"
            )
        for operand, layout in self.fragments.items():
            axes = OPERAND_AXES[operand]
            shape = sizes[axes[0]], sizes[axes[1]]
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


@dataclass(frozen=True, eq=False)
class WarpMachine(Machine):
    """A machine that runs warps; `instructions` are those that it has, natively or not.

    `shuffle_widths` are the segment sizes that an exchange can be confined to without extra work, `packings`
    the opcodes of the conversions that it has, `exchanges` those of its ways to move words between lanes.
    Shared memory has `shared_banks` banks of 32 bits and serves `shared_widths` bytes per lane at a time.
    """

    costs: StepCosts
    shuffle_widths: tuple[int, ...]
    packings: frozenset[str]
    exchanges: frozenset[str]
    shared_bytes: int
    shared_banks: int
    shared_widths: tuple[int, ...]
    instructions: Mapping[str, MatrixInstruction]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, entry in self.instructions.items():
            if name != entry.name or self.name not in entry.support:
                raise InputError(f"machine {self.name!r} lists {name!r}, which it cannot have")
            for operand, layout in entry.fragments.items():
                if layout.lanes != self.lanes:
                    raise InputError(
                        f"operand {operand} of {name!r} is spread over {layout.lanes} lanes",
                        expected=f"{self.lanes}, the lanes of a warp of {self.name}",
                    )

    @property
    def registers_per_lane(self) -> int:
        """32-bit registers that one lane can address."""
        return self.register_class("general").count

    def instruction(self, name: str) -> MatrixInstruction:
        """The instruction called `name`; UnsupportedError with the nearest ones otherwise."""
        if name in self.instructions:
            return self.instructions[name]
        raise UnsupportedError(
            f"{self.name} has no instruction {name!r}",
            where=f"machine {self.name}",
            nearest=nearest_names(name, self.instructions) or tuple(self.instructions),
        )
