"""Waves that stand at the same step: what reads and writes their registers, and says what was wrong.

One instruction is one NumPy operation over all waves of a cohort. `waves` chooses them among those of the
registers: everything, where no wave has gone its own way, so that nothing is copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.registers import LANES, PLACES, Registers
from regweave.errors import KernelError

Array = Any
_EXEC = PLACES["exec_lo"]


class Cohort:
    """Waves in lockstep. `numbers` are theirs among the registers' waves, `pc` the step that comes next."""

    def __init__(self, batch: Any, numbers: Array, pc: int) -> None:
        self.batch = batch
        self.registers: Registers = batch.registers
        self.program: Program = batch.program
        self.step: Step = self.program.steps[min(pc, len(self.program.steps) - 1)]
        self.pc = pc
        self.numbers = numbers
        self.all = len(numbers) == self.registers.waves
        self.waves: Any = slice(None) if self.all else numbers
        self.count = len(numbers)
        self.look_at_exec()

    def look_at_exec(self) -> None:
        """Take over EXEC: `lanes` are the active ones, `full` says that all are."""
        low, high = self.registers.scalars[_EXEC : _EXEC + 2, self.waves]
        self.full = bool((low == 0xFFFFFFFF).all() and (high == 0xFFFFFFFF).all())
        self.lanes = lanes_of(low, high)

    def part(self, which: Array) -> Cohort:
        """Some of the waves, by their place here, at the same step."""
        if len(which) == self.count:
            return self
        part = Cohort(self.batch, self.numbers[which], self.pc)
        part.step = self.step
        return part

    # -- vector registers

    def read(self, number: int, needed: Array | None = None) -> Array:
        """A vector register, [waves, lanes]; it must have arrived, and be written where `needed` (by default
        in the active lanes)."""
        registers = self.registers
        if number in registers.flying:
            self.require_arrived(number, "reads")
        value = registers.values[number] if self.all else registers.values[number, self.waves]
        if not registers.whole[number]:
            self._require_written(number, self.lanes if needed is None else needed)
        return value

    def _require_written(self, number: int, needed: Array) -> None:
        registers = self.registers
        missing = needed & ~registers.known[number, self.waves]
        if missing.any():
            self.fault(
                f"reads {registers.name(number)}, which was never written there",
                missing,
                fix="write the register before, in all lanes that are active here",
            )
        if registers.known[number].all():
            registers.whole[number] = True

    def write(self, number: int, bits: Array, lanes: Array | None = None) -> None:
        """Write a vector register where `lanes` (by default the active ones) are set."""
        registers = self.registers
        if number in registers.flying:
            self.require_arrived(number, "writes")
        self.put(number, bits, lanes)

    def put(self, number: int, bits: Array, lanes: Array | None = None) -> None:
        """Write a vector register, whatever is under way to it."""
        registers = self.registers
        if lanes is None and self.full:
            if self.all:
                registers.values[number] = bits
                if not registers.whole[number]:
                    registers.known[number] = True
                    registers.whole[number] = True
            else:
                registers.values[number, self.waves] = bits
                if not registers.whole[number]:
                    registers.known[number, self.waves] = True
            return
        mask = self.lanes if lanes is None else lanes
        if self.all:
            np.copyto(registers.values[number], bits, where=mask)
        else:
            registers.values[number, self.waves] = np.where(mask, bits, registers.values[number, self.waves])
        if not registers.whole[number]:
            registers.known[number, self.waves] |= mask

    # -- scalar registers

    def read_scalar(self, number: int) -> Array:
        """A scalar register, [waves, 1]."""
        registers = self.registers
        key = number + len(registers.whole)
        if key in registers.flying:
            self.require_arrived(key, "reads")
        missing = ~registers.scalars_known[number, self.waves]
        if missing.any():
            self.fault(f"reads {registers.name(key)}, which was never written", missing[:, None])
        return registers.scalars[number, self.waves][:, None]

    def write_scalar(self, number: int, bits: Array) -> None:
        """Write a scalar register: [waves, 1], or one value for all."""
        registers = self.registers
        key = number + len(registers.whole)
        if key in registers.flying:
            self.require_arrived(key, "writes")
        self.put_scalar(number, bits)

    def put_scalar(self, number: int, bits: Array) -> None:
        """Write a scalar register, whatever is under way to it."""
        registers = self.registers
        bits = np.broadcast_to(bits, (self.count, 1))[:, 0]
        registers.scalars[number, self.waves] = bits
        registers.scalars_known[number, self.waves] = True
        if number in (_EXEC, _EXEC + 1):
            self.look_at_exec()

    # -- what is under way

    def issue(self, kind: int) -> None:
        """Count an operation that finishes later."""
        self.registers.issued[kind, self.waves] += 1

    def send(self, number: int, kind: int) -> None:
        """The operation that was just counted will bring a register, scalar ones behind the others."""
        registers = self.registers
        registers.due[number, self.waves] = registers.issued[kind, self.waves]
        registers.kind[number, self.waves] = kind
        registers.flying[number] = self.step

    def on_its_way(self, number: int) -> Array:
        """In which waves a load of a register has not arrived."""
        registers = self.registers
        kind = registers.kind[number, self.waves]
        return registers.due[number, self.waves] > registers.arrived[kind, self.numbers]

    def require_arrived(self, number: int, verb: str) -> None:
        """KernelError if a load of a register is under way."""
        late = self.on_its_way(number)
        if late.any():
            source = self.registers.flying[number]
            self.fault(
                f"{verb} {self.registers.name(number)} before {source} has brought it",
                late[:, None],
                fix="put the s_waitcnt that covers it before this line",
            )

    # -- faults

    def fault(self, what: str, where: Array | None = None, *, fix: str | None = None) -> None:
        """Raise a KernelError: what the step does wrong, in which lane of which wave first."""
        place = ""
        if where is not None:
            found = np.argwhere(np.broadcast_to(where, (self.count, where.shape[-1])))
            wave, lane = (int(number) for number in found[0])
            group, own = self.batch.place(int(self.numbers[wave]))
            lanes = f", lane {lane} ({len(found)} lanes in all)" if where.shape[-1] == LANES else ""
            place = f"; first in workgroup {group}, wave {own}{lanes}"
        raise KernelError(
            f"{self.step} {what}{place}", where=f"{self.program.name}, line {self.step.at}", fix=fix
        )


def lanes_of(low: Array, high: Array) -> Array:
    """The bits of pairs of 32-bit numbers [waves] as booleans [waves, 64]."""
    words = np.stack([low, high], axis=-1).astype("<u4")
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").view(bool)


def bits_of_lanes(lanes: Array) -> Array:
    """Booleans [waves, 64] as two 32-bit numbers [waves, 2]."""
    return np.packbits(lanes, axis=-1, bitorder="little").view("<u4")
