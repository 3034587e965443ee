"""The registers of many waves at once, and what is known of them.

    values[7]           v7 of all waves: an array [waves, 64 lanes]
    scalars[2]          s2 of all waves: an array [waves]

Beside every value stands whether it was ever written. Loads write at once, but their registers count as under
way until a wait covers them: each load has a number among those of its counter (vector memory, LDS, scalar
memory, flat), and a wave knows up to which number they have arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from regweave.devices.emulator.program import Program, Step

LANES = 64
#: Where the scalar registers with names of their own stand behind s0 to s101.
PLACES = {"vcc_lo": 106, "vcc_hi": 107, "m0": 124, "exec_lo": 126, "exec_hi": 127, "scc": 128}
SCALARS = 129
#: Kinds of operations that finish later, each with its own count.
VECTOR_MEMORY, LDS, SCALAR_MEMORY, FLAT = range(4)


#: What a register holds at first: as a float, or as either half of one, no number. An instruction that writes
#: a half makes the register known, and the other half is seen in the results.
_NEVER = 0x7FC1FDAD


@dataclass(eq=False)
class Registers:
    """The registers of `waves` waves. Accumulation registers stand behind the vector registers."""

    waves: int
    vectors: int
    accumulators: int
    values: np.ndarray = field(init=False)
    known: np.ndarray = field(init=False)
    whole: list[bool] = field(init=False)
    scalars: np.ndarray = field(init=False)
    scalars_known: np.ndarray = field(init=False)
    #: Registers that may be under way, with the step of the load. Scalar registers are counted behind.
    flying: dict[int, Step] = field(default_factory=dict)
    due: np.ndarray = field(init=False)
    kind: np.ndarray = field(init=False)
    issued: np.ndarray = field(init=False)
    arrived: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        count = self.vectors + self.accumulators
        self.values = np.full((count, self.waves, LANES), _NEVER, np.uint32)
        self.known = np.zeros((count, self.waves, LANES), bool)
        self.whole = [False] * count
        self.scalars = np.zeros((SCALARS, self.waves), np.uint32)
        self.scalars_known = np.zeros((SCALARS, self.waves), bool)
        self.due = np.zeros((count + SCALARS, self.waves), np.int64)
        self.kind = np.zeros((count + SCALARS, self.waves), np.int8)
        self.issued = np.zeros((4, self.waves), np.int64)
        self.arrived = np.zeros((4, self.waves), np.int64)

    @classmethod
    def of(cls, program: Program, waves: int) -> Registers:
        """As many as a program names."""
        return cls(waves, program.vectors, program.accumulators)

    def name(self, number: int) -> str:
        """The name of a register by its number, scalar registers behind the vector registers."""
        count = self.vectors + self.accumulators
        if number >= count:
            number -= count
            return next((name for name, place in PLACES.items() if place == number), f"s{number}")
        return f"v{number}" if number < self.vectors else f"a{number - self.vectors}"

    def fill(self, pattern: int) -> None:
        """Let all registers hold something, as if it had been written."""
        self.values[:], self.scalars[:] = pattern, pattern
        self.known[:], self.scalars_known[:] = True, True
        self.whole[:] = [True] * len(self.whole)

    def settle(self) -> None:
        """Forget registers whose loads have arrived in all waves."""
        every = np.arange(self.waves)
        for number in list(self.flying):
            if not (self.due[number] > self.arrived[self.kind[number], every]).any():
                del self.flying[number]
