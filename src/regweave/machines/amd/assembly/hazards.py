"""Distances between instructions that the processors do not keep by themselves, as data.

    >>> hazards_of("gfx90a").after_matrix("read", passes=16, double=False, fast=False, memory=False)
    19

A distance is a number of wait states: every instruction is one, `s_nop n` is n + 1. A `Distance` says: a
`consumer` that touches a register which a `producer` wrote so-and-so many wait states ago must keep away this
far. Those of matrix instructions depend on their passes.

Facts: LLVM's GCNHazardRecognizer, the tables "Manually inserted wait states" of AMD's Vega, MI200 and MI300
manuals, and measurements. s[n] means any scalar register, VCC too.
"""

from __future__ import annotations

from functools import lru_cache

from regweave.errors import AssemblyError
from regweave.values import frozen

_ALL = ("gfx906", "gfx90a", "gfx942")
#: What a rule may speak of. Producers and consumers are groups of instructions (see
#: `assembly.amd.distance_demands` and `events`).
PRODUCERS = ("valu", "valu_not_dot", "dot", "transcendental", "scalar", "partial", "setreg", "double_matrix",
             "hidden", "wide_store", "load")  # fmt: skip
CONSUMERS = ("memory", "vector_memory", "lane_select", "readlane", "rwlane", "div_fmas", "dpp", "matrix",
             "valu", "valu_not_transcendental", "m0_reader", "hardware_register", "fma_f64", "valu_writer",
             "other_dot", "same_dot_ab", "other_dot_writer")  # fmt: skip
REGISTERS = ("vector", "scalar", "exec", "vcc", "m0", "none")


@frozen
class Distance:
    """Wait states between a producer and a consumer of the same register, and why.

    `registers` says of which registers it speaks: `none` where any producer counts, whatever it wrote.
    """

    producer: str
    registers: str
    consumer: str
    states: int
    machines: tuple[str, ...]
    why: str

    def __post_init__(self) -> None:
        known = self.producer in PRODUCERS and self.consumer in CONSUMERS and self.registers in REGISTERS
        if not known or not 1 <= self.states <= 19 or not set(self.machines) <= set(_ALL):
            raise AssemblyError(f"distance {self} speaks of what is not known")


_NEW, _942 = _ALL[1:], _ALL[2:]
_DISTANCES = (
    Distance("valu", "scalar", "vector_memory", 5, _ALL, "a vector instruction wrote the scalar register"),
    Distance("valu", "exec", "vector_memory", 5, _ALL, "a vector instruction wrote EXEC"),
    Distance("valu", "scalar", "lane_select", 4, _ALL, "a vector instruction wrote the lane's number"),
    Distance("valu", "vcc", "div_fmas", 4, _ALL, "a vector instruction wrote VCC"),
    Distance("valu", "exec", "dpp", 5, _ALL, "a vector instruction wrote EXEC"),
    Distance("valu", "vector", "dpp", 2, _ALL, "a vector instruction wrote what DPP moves"),
    Distance("load", "vector", "dpp", 2, _ALL, "a load wrote what DPP moves"),
    Distance("scalar", "m0", "m0_reader", 1, _ALL, "a scalar instruction wrote M0"),
    Distance("setreg", "none", "hardware_register", 2, _ALL, "s_setreg has not arrived"),
    Distance("wide_store", "vector", "valu_writer", 1, _ALL[:2], "the store still reads its data"),
    Distance("wide_store", "vector", "valu_writer", 2, _942, "the store still reads its data"),
    Distance("valu", "exec", "matrix", 4, _NEW, "a vector instruction wrote EXEC"),
    Distance("valu_not_dot", "vector", "matrix", 2, _NEW, "a vector instruction wrote an operand"),
    Distance("dot", "vector", "other_dot", 3, _NEW, "a dot product wrote the operand"),
    Distance("dot", "vector", "same_dot_ab", 3, _NEW, "a dot product wrote the factor"),
    Distance("dot", "vector", "memory", 3, _NEW, "a dot product wrote the operand"),
    Distance("dot", "vector", "other_dot_writer", 3, _NEW, "a dot product writes the same register"),
    Distance("double_matrix", "none", "fma_f64", 2, _NEW, "an f64 matrix instruction is under way"),
    Distance("hidden", "vector", "memory", 2, ("gfx90a",), "an f64 matrix instruction hides a write"),
    Distance("transcendental", "vector", "valu_not_transcendental", 1, _942, "a special function is slower"),
    Distance("partial", "vector", "valu", 1, _942, "the register was written in part"),
    Distance("partial", "vector", "valu_writer", 1, _942, "the register was written in part"),
    Distance("valu", "scalar", "valu", 2, _942, "a vector instruction wrote the scalar register"),
    Distance("valu", "vector", "readlane", 1, _942, "a vector instruction wrote what is read across lanes"),
    Distance("valu", "exec", "rwlane", 4, _942, "a vector instruction wrote EXEC"),
)

# gfx90a, by passes: a result as the next C (f64 next), as A or B, by vector or memory; overwriting C's source
_AS_C = {2: 2, 8: 8, 16: 16}
_AS_AB = {2: 5, 8: 11, 16: 19}
_OVER_C = {2: 1, 4: 3, 8: 7, 16: 15}
#: The same for f64, by passes: as an overlapping C, as A or B of a matrix instruction, by vector, by memory.
_DOUBLE = {4: (4, 6, 6, 9), 8: (9, 11, 11, 18)}


@frozen(eq=False)
class Hazards:
    """The distances of one machine."""

    machine: str
    distances: tuple[Distance, ...]

    def after_matrix(self, use: str, *, passes: int, double: bool, fast: bool, memory: bool) -> int:
        """Wait states from a matrix instruction that wrote a register to what `use`s it.

        `use` is "read" (by a vector instruction, or with `memory` by a load or store), "write", or "factor"
        (A or B of a matrix instruction). `passes`, `double`, `fast` are the writer's.
        """
        if double:
            _, factor, vector, by_memory = _DOUBLE[passes]
            return factor if use == "factor" else by_memory if memory and use == "read" else vector
        if self.machine == "gfx942":
            return passes + (3 if fast else 2)
        return _AS_AB[passes]

    def matrix_to_sum(
        self, *, passes: int, double: bool, fast: bool, same: bool, to_double: bool, to_fast: bool
    ) -> int:
        """Wait states from a matrix instruction to one whose C overlaps its result.

        `same`: C is exactly the result. `to_double` and `to_fast` say what the reader is.
        """
        newer = self.machine == "gfx942"
        if double and not to_double and not newer:
            return 0
        if same:
            return 4 if double and to_double and passes == 4 else 2 if newer and passes == 2 else 0
        if double:
            return 0 if to_fast or (not newer and not to_double) else _DOUBLE[passes][0]
        if newer:
            return 0 if to_fast and not fast else passes + (1 if fast else 0)
        return _AS_C[passes] + (1 if to_double else 0)

    def over_sum(self, *, passes: int, double: bool, fast: bool) -> int:
        """Wait states until a vector instruction may overwrite the C that a matrix instruction reads."""
        if double or (self.machine == "gfx942" and not fast):
            return 0
        return _OVER_C[passes]


@lru_cache
def hazards_of(machine: str) -> Hazards:
    """The distances of `gfx906`, `gfx90a` or `gfx942`."""
    return Hazards(machine, tuple(entry for entry in _DISTANCES if machine in entry.machines))
