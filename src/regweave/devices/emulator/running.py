"""Running a batch of workgroups: waves in lockstep, cohorts where their ways differ.

All waves start in one cohort. A branch that only some waves take splits it; the cohort that is farthest
behind runs first, so that ways which meet again become one cohort again. A barrier holds a wave until all
waves of its workgroup that have not ended stand at it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regweave.devices.emulator.instructions.control import require_quiet, taken
from regweave.devices.emulator.instructions.preparing import Action
from regweave.devices.emulator.program import Program
from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.lds import Lds
from regweave.devices.emulator.state.memory import Memory
from regweave.devices.emulator.state.registers import LANES, PLACES, Registers
from regweave.errors import KernelError

#: What registers hold that were never written, where that is no fault: nothing that looks right.
_RUBBISH = 0xFEEDF00D


@dataclass(frozen=True, eq=False)
class Launch:
    """What all batches of a run share.

    `actions` are what the steps do, `arguments` is the address of the kernel's arguments, `unit` the bytes of
    the smallest access to LDS, `budget` how many steps a batch may take.
    """

    program: Program
    actions: Sequence[Action | None]
    memory: Memory
    workgroup: tuple[int, int, int]
    arguments: int
    unit: int
    strict_buffers: bool
    strict_registers: bool
    budget: int

    @property
    def threads(self) -> int:
        """Work-items of a workgroup."""
        return math.prod(self.workgroup)

    @property
    def waves_per_group(self) -> int:
        """Waves of a workgroup; lanes of the last may lie beyond the work-items."""
        return -(-self.threads // LANES)


class Batch:
    """Workgroups that run together. `groups` are their numbers (x, y, z), `steps` how many were taken."""

    def __init__(self, launch: Launch, groups: Sequence[tuple[int, int, int]]) -> None:
        self.launch, self.groups, self.steps = launch, groups, 0
        self.program, self.memory = launch.program, launch.memory
        self.per_group = launch.waves_per_group
        waves = len(groups) * self.per_group
        self.group_of = np.repeat(np.arange(len(groups)), self.per_group)
        self.wave_of = np.tile(np.arange(self.per_group), len(groups)).astype(np.int16)
        self.registers = Registers.of(self.program, waves)
        self.lds = Lds(len(groups), self.program.lds_bytes, launch.unit)
        self.active = np.ones(waves, bool)
        self.waiting = np.full(waves, -1)
        if not launch.strict_registers:
            self.registers.fill(_RUBBISH)
        self._start()

    def place(self, wave: int) -> tuple[tuple[int, int, int], int]:
        """A wave's workgroup and its number there."""
        return self.groups[self.group_of[wave]], int(self.wave_of[wave])

    def _start(self) -> None:
        """What the processor puts into registers: the arguments' address, the workgroup's numbers, the
        work-items'; lanes beyond the last work-item are off."""
        registers, arguments, (x, y, _) = self.registers, self.launch.arguments, self.launch.workgroup
        numbers = np.array(self.groups)[self.group_of].T
        for word, at in self.program.starts:
            values = {at: numbers["xyz".find(word[-1])]}
            if word == "kernarg":
                values = {at: arguments & 0xFFFFFFFF, at + 1: arguments >> 32}
            for place, value in values.items():
                registers.scalars[place] = value
                registers.scalars_known[place] = True
        item = self.wave_of[:, None].astype(np.int64) * LANES + np.arange(LANES)
        numbers = [item % x, item // x % y, item // (x * y)]
        if self.program.machine.unified:
            packed = numbers[0].copy()
            for axis in range(1, 1 + self.program.thread_numbers):
                packed |= numbers[axis] << 10 * axis
            numbers = [packed]
        else:
            numbers = numbers[: 1 + self.program.thread_numbers]
        for at, value in enumerate(numbers):
            registers.values[at] = value
            registers.known[at] = True
            registers.whole[at] = True
        on = np.packbits(item < self.launch.threads, axis=-1, bitorder="little").view("<u4")
        for half in range(2):
            registers.scalars[PLACES["exec_lo"] + half] = on[:, half]
            registers.scalars_known[PLACES["exec_lo"] + half] = True

    def run(self) -> None:
        """Run all waves to their end. KernelError for what the kernel does wrong."""
        cohorts = [Cohort(self, np.arange(len(self.active)), 0)]
        while cohorts:
            cohorts.sort(key=lambda c: c.pc)
            first = cohorts.pop(0)
            same = [c for c in cohorts if c.pc == first.pc]
            if same:
                cohorts = [c for c in cohorts if c.pc != first.pc]
                numbers = np.sort(np.concatenate([c.numbers for c in (first, *same)]))
                first = Cohort(self, numbers, first.pc)
            cohorts += self._go(first, cohorts[0].pc if cohorts else len(self.launch.actions))
            if not cohorts:
                cohorts = self._release()

    def _go(self, c: Cohort, stop: int) -> list[Cohort]:
        """Run a cohort until its way parts, or it comes to where another one stands."""
        steps, actions, budget = self.program.steps, self.launch.actions, self.launch.budget
        while True:
            if c.pc >= len(steps):
                c.fault("is the last line, and the kernel does not end there", fix="end it with s_endpgm")
            step = c.step = steps[c.pc]
            action = actions[c.pc]
            self.steps += 1
            if self.steps > budget:
                self._exhausted(c)
            if action is not None:
                action(c)
                c.pc += 1
            else:
                parts = self._control(c)
                if parts is not None:
                    return parts
            if c.pc >= stop or (step.target >= 0 and c.pc != step.at + 1 and stop < len(steps)):
                return [c]

    def _control(self, c: Cohort) -> list[Cohort] | None:
        """A branch, a barrier, the end. The cohorts that go on; None if all of this one does."""
        step = c.step
        if step.name == "s_endpgm":
            self.active[c.numbers] = False
            return []
        if step.name == "s_barrier":
            if self.per_group == 1:
                c.pc += 1
                self.lds.forget_all(self.group_of[c.numbers])
                return None
            require_quiet(c)
            self.waiting[c.numbers] = step.at
            return self._meet()
        go = taken(c, step)
        if go.all() or not go.any():
            c.pc = step.target if go.all() else step.at + 1
            return None
        return [Cohort(self, c.numbers[go], step.target), Cohort(self, c.numbers[~go], step.at + 1)]

    def _meet(self) -> list[Cohort]:
        """Cohorts of the waves whose workgroups stand at a barrier with all their waves."""
        shape = (len(self.groups), self.per_group)
        active, waiting = self.active.reshape(shape), self.waiting.reshape(shape)
        held = active & (waiting >= 0)
        ready = held.any(axis=1) & (held == active).all(axis=1)
        found = []
        for group in np.flatnonzero(ready):
            places = np.unique(waiting[group][active[group]])
            if len(places) > 1:
                self._diverged(int(group), places)
        if ready.any():
            self.lds.forget_all(np.flatnonzero(ready))
            numbers = np.flatnonzero((ready[:, None] & active).reshape(-1))
            for place in np.unique(self.waiting[numbers]):
                found.append(Cohort(self, numbers[self.waiting[numbers] == place], int(place) + 1))
            self.waiting[numbers] = -1
        return found

    def _release(self) -> list[Cohort]:
        """Waves that a barrier holds although the others of their workgroup have ended go on."""
        return self._meet() if (self.waiting[self.active] >= 0).any() else []

    def _diverged(self, group: int, places: np.ndarray) -> None:
        lines = " and ".join(f"line {place}" for place in places)
        waves = " and ".join(
            f"wave {self.wave_of[np.flatnonzero((self.group_of == group) & (self.waiting == place))[0]]}"
            for place in places
        )
        raise KernelError(
            f"the waves of workgroup {self.groups[group]} stand at different barriers: {waves} at {lines}",
            where=self.program.name,
            fix="let all waves of a workgroup pass the same s_barrier",
        )

    def _exhausted(self, c: Cohort) -> None:
        group, wave = self.place(int(c.numbers[0]))
        raise KernelError(
            f"the kernel takes more than {self.launch.budget} steps; wave {wave} of workgroup {group} is at "
            f"{c.step}",
            where=f"{self.program.name}, line {c.step.at}",
            fix="look for a loop that does not end, or give a larger budget",
        )
