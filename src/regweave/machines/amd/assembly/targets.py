"""The GCN and CDNA machines that kernels are written for in assembly: gfx906, gfx90a, gfx942.

    >>> GFX90A.occupancy(vectors=100, accumulators=64, scalars=40)
    2
    >>> GFX90A.vector_limit(occupancy=4)
    128

Registers are handed out from the lowest number, since what counts is the highest one in use. Tuples of
vector registers start anywhere on gfx906 and at even numbers from gfx90a on; scalar pairs start at even
numbers, larger scalar tuples at multiples of four. From gfx90a on vector and accumulation registers share one
file of 512 per lane, in which the accumulators begin at a multiple of four (`accum_offset`).

Keywords are the registers that hold something when a kernel starts: the address of its arguments, the
workgroup's numbers, the work-item's. gfx90a and gfx942 pack a work-item's three numbers into one register,
ten bits each.

Facts: LLVM's AMDGPUUsage (initial register state, granules, kernel descriptor) and the vendor's manuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.machines.machine import RegisterClass
from regweave.machines.target import AssemblyMachine
from regweave.values import frozen

if TYPE_CHECKING:
    from regweave.machines.amd.assembly.hazards import Hazards
    from regweave.machines.amd.assembly.table import GcnTable
    from regweave.machines.table import Table

#: Scalar registers that a program may name; VCC and others lie beyond them.
_SCALARS = 102
_SPECIAL = ("vcc_lo", "vcc_hi", "exec_lo", "exec_hi", "m0", "scc")
#: Waves per SIMD by scalar registers in use, VCC and its neighbours included: up to 80 all, then fewer.
_SCALAR_STEPS = ((80, 10), (96, 9), (112, 8))


@frozen
class Keyword:
    """A reserved keyword: `count` registers of a class from `register` on, filled when the kernel starts."""

    name: str
    letter: str
    count: int
    register: str
    help: str


@frozen(eq=False)
class GcnMachine(AssemblyMachine):
    """A machine with scalar, vector and (`unified`) accumulation registers.

    `granule` vector registers are allocated together, `waves` fit on a SIMD at most, `vector_file` registers
    per lane are shared by the waves of a SIMD. `features` are what the target's name may say on or off;
    `shared_bytes` of LDS belong to a workgroup at most, in steps of `shared_granule`; `barriers` are how many
    workgroups of more than one wave fit on a compute unit. `limits` are the highest values of the wait
    counters. `architected` machines set up flat scratch themselves.
    """

    granule: int = field(kw_only=True)
    waves: int = field(kw_only=True)
    vector_file: int = field(kw_only=True)
    unified: bool = field(kw_only=True)
    architected: bool = field(kw_only=True)
    keywords: tuple[Keyword, ...] = field(kw_only=True)
    shared_bytes: int = 65536
    shared_granule: int = 512
    barriers: int = 16
    limits: tuple[int, int] = (63, 15)

    @cached_property
    def instructions(self) -> GcnTable:
        """The instructions by name."""
        from regweave.machines.amd.assembly.table import make_table

        return make_table(self.name)

    @cached_property
    def hazards(self) -> Hazards:
        """The distances that must be kept between instructions."""
        from regweave.machines.amd.assembly.hazards import hazards_of

        return hazards_of(self.name)

    @property
    def target_id(self) -> str:
        """The name of the target that objects are made for: without XNACK, so that no registers go to it."""
        return f"{self.name}:xnack-"

    def keyword(self, name: str) -> Keyword | None:
        """The reserved keyword of this name, if it is one."""
        return next((entry for entry in self.keywords if entry.name == name), None)

    def alignment(self, letter: str, count: int) -> int:
        """What the first number of a tuple of `count` registers is a multiple of."""
        if letter == "s":
            return 1 if count == 1 else 2 if count == 2 else 4
        return 2 if self.unified and count > 1 else 1

    def run(self, registers: Sequence[str]) -> str:
        """`v[4:7]`, or `v4` alone; special registers by the name of the pair."""
        first, last = registers[0], registers[-1]
        if len(registers) == 1:
            return first
        if first in _SPECIAL:
            return first.removesuffix("_lo")
        return f"{first[0]}[{first[1:]}:{last[1:]}]"

    def accumulation_offset(self, vectors: int) -> int:
        """Where the accumulation registers begin in a lane's file."""
        return max(4, -(-vectors // 4) * 4)

    def registers_in_file(self, vectors: int, accumulators: int) -> int:
        """Registers of a lane's file that a wave takes, in whole granules."""
        total = vectors
        if self.unified:
            total = self.accumulation_offset(vectors) + accumulators
        return max(1, -(-total // self.granule)) * self.granule

    def occupancy(self, *, vectors: int, accumulators: int = 0, scalars: int = 0) -> int:
        """Waves per SIMD that the registers in use allow; LDS is not looked at."""
        by_vectors = self.vector_file // self.registers_in_file(vectors, accumulators)
        return min(self.waves, by_vectors, self._waves_by_scalars(scalars))

    def vector_limit(self, occupancy: int) -> int:
        """Vector registers (with accumulators, where they share a file) that allow `occupancy` waves."""
        if not 1 <= occupancy <= self.waves:
            raise InputError(
                f"occupancy {occupancy} of {self.name}", expected=f"1 to {self.waves} waves per SIMD"
            )
        return self.vector_file // occupancy // self.granule * self.granule

    def scalar_limit(self, occupancy: int) -> int:
        """Scalar registers that a program may name if `occupancy` waves are to fit."""
        extra = 2  # VCC
        fitting = [most for most, waves in _SCALAR_STEPS if waves >= min(occupancy, 10)]
        return _SCALARS if self.unified else min(_SCALARS, max(fitting) - extra) if fitting else _SCALARS

    def _waves_by_scalars(self, scalars: int) -> int:
        if self.unified:
            return self.waves
        return next((waves for most, waves in _SCALAR_STEPS if scalars <= most), 7)

    def address(self, base: str, index: str | None, scale: int, offset: int) -> str:
        """Operands of memory instructions are written out one by one: there is no such text."""
        raise UnsupportedError(f"{self.name} has no memory operands", fix="give base and offset apart")


def _machine(
    name: str, title: str, *, waves: int, granule: int, unified: bool, architected: bool = False
) -> GcnMachine:
    alignment = 2 if unified else 1
    vectors = tuple(f"v{i}" for i in range(256))
    accumulators = tuple(f"a{i}" for i in range(256)) if unified else ()

    def make_forms() -> Table:
        from regweave.machines.table import Table

        return Table(name, (), {})

    classes = [RegisterClass("vector", "v", vectors, 32, alignment)]
    if unified:
        classes.append(RegisterClass("accumulation", "a", accumulators, 32, alignment))
    classes += [
        RegisterClass("scalar", "s", tuple(f"s{i}" for i in range(_SCALARS)), 32),
        RegisterClass("special", "x", _SPECIAL, 32),
    ]
    keywords = [
        Keyword("kernarg", "s", 2, "s0", "the address of the kernel's arguments"),
        Keyword("group_x", "s", 1, "s2", "the workgroup's number along x"),
        Keyword("group_y", "s", 1, "s3", "the workgroup's number along y"),
        Keyword("group_z", "s", 1, "s4", "the workgroup's number along z"),
    ]
    if unified:
        keywords.append(Keyword("thread", "v", 1, "v0", "the work-item's numbers, ten bits each: x, y, z"))
    else:
        keywords += [
            Keyword(f"thread_{axis}", "v", 1, f"v{i}", f"the work-item's number along {axis}")
            for i, axis in enumerate("xyz")
        ]
    return GcnMachine(
        name,
        "amd",
        title,
        64,
        tuple(classes),
        make_table=make_forms,
        views={},
        arguments=(),
        mask_class="scalar",
        repeats=1,
        frame_register="",
        result="",
        granule=granule,
        waves=waves,
        vector_file=512 if unified else 256,
        unified=unified,
        architected=architected,
        keywords=tuple(keywords),
    )


GFX906 = _machine("gfx906", "AMD Vega 20 (MI50, MI60)", waves=10, granule=4, unified=False)
GFX90A = _machine("gfx90a", "AMD CDNA 2 (MI200)", waves=8, granule=8, unified=True)
GFX942 = _machine("gfx942", "AMD CDNA 3 (MI300)", waves=8, granule=8, unified=True, architected=True)
#: Machines by name. The Hygon DCU follows gfx906.
TARGETS = {machine.name: machine for machine in (GFX906, GFX90A, GFX942)}


def find_target(name: str) -> GcnMachine:
    """The machine of this name; InputError with the ones there are otherwise."""
    if name in TARGETS:
        return TARGETS[name]
    raise InputError(
        f"kernels in assembly cannot be written for {name!r}",
        where="machine",
        expected="one of " + ", ".join(TARGETS),
        nearest=nearest_names(name, TARGETS),
    )
