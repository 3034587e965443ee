"""LDS: the memory of each workgroup, and who touched what since the last barrier.

Two waves that touch one place, one of them writing, without a barrier between them, race: the order in which
they do so is not promised. For every place there are kept the wave that wrote it last and the one that read
it (or that there were several), with the steps; a barrier forgets them. A place is as small as the smallest
access of the program.

Within one wave LDS operations happen in order. Two lanes of one instruction that write different values to
one place are a race too; atomic operations are none among themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import VECTOR_MEMORY

Array = Any
_NOBODY, _SEVERAL = -1, -2


class Lds:
    """The LDS of `groups` workgroups, `size` bytes each; `unit` bytes (1, 2 or 4) are a place."""

    def __init__(self, groups: int, size: int, unit: int) -> None:
        self.size, self.unit = size, unit
        self.shift = unit.bit_length() - 1
        self.span = -(-size // 8) * 8
        self.octets = np.zeros(groups * self.span, np.uint8)
        places = groups * self.span >> self.shift
        self.known = np.zeros(places, bool)
        self.writer = np.full(places, _NOBODY, np.int16)
        self.atomic = np.zeros(places, bool)
        self.reader = np.full(places, _NOBODY, np.int16)
        self.write_step = np.zeros(places, np.int32)
        self.read_step = np.zeros(places, np.int32)
        # of loads that go straight to LDS: the operation and the wave that it belongs to
        self.due: Array | None = None
        self.due_wave = np.zeros(0, np.int32)
        self.views = {1: self.octets, 2: self.octets.view(np.uint16), 4: self.octets.view(np.uint32)}

    def forget_all(self, groups: Array) -> None:
        """A barrier of these workgroups: what came before it is in order with what comes after."""
        if self.span:
            for table in (self.writer, self.reader):
                table.reshape(-1, self.span >> self.shift)[groups] = _NOBODY

    def find(self, c: Cohort, addresses: Array, size: int, lanes: Array, *, unit: int, verb: str) -> Array:
        """The places in `octets` of `size` bytes at addresses [waves, lanes]; KernelError if one is
        misaligned or beyond the workgroup's LDS."""
        wrong = lanes & (addresses.astype(np.int64) + size > self.size)
        if wrong.any():
            first = int(addresses[tuple(np.argwhere(wrong)[0])])
            c.fault(f"{verb} {size} bytes at {first} of LDS, of which there are {self.size} bytes", wrong)
        misaligned = lanes & (addresses & np.uint32(unit - 1) != 0)
        if misaligned.any():
            first = int(addresses[tuple(np.argwhere(misaligned)[0])])
            c.fault(f"{verb} {size} bytes at {first} of LDS, no multiple of {unit}", misaligned)
        base = (c.batch.group_of[c.waves] * self.span)[:, None]
        return np.where(lanes, base + addresses.astype(np.int64), base)

    def note_read(self, c: Cohort, places: Array, size: int, lanes: Array) -> None:
        """KernelError if a place was never written, or another wave wrote it since the last barrier."""
        own = np.broadcast_to(c.batch.wave_of[c.waves][:, None], lanes.shape)
        for offset in range(0, size, self.unit):
            index = places + offset >> self.shift
            missing = lanes & ~self.known[index]
            if missing.any():
                first = tuple(np.argwhere(missing)[0])
                place = int(places[first]) + offset - int(c.batch.group_of[c.waves][first[0]]) * self.span
                c.fault(f"reads byte {place} of LDS, which was never written", missing)
            writer = self.writer[index]
            race = lanes & (writer != _NOBODY) & (writer != own)
            if race.any():
                self._race(c, "reads", index, self.write_step, "wrote", race)
            if self.due is not None:
                late = lanes & (self.due[index] > c.registers.arrived[VECTOR_MEMORY, self.due_wave[index]])
                if late.any():
                    self._late(c, index, late)
            chosen, waves = index[lanes], own[lanes]
            before = self.reader[chosen]
            self.reader[chosen] = np.where((before == _NOBODY) | (before == waves), waves, _SEVERAL)
            # lanes of several waves may read one place in this very instruction
            self.reader[chosen[self.reader[chosen] != waves]] = _SEVERAL
            self.read_step[chosen] = c.step.at

    def note_write(self, c: Cohort, places: Array, size: int, lanes: Array, *, atomic: bool) -> None:
        """KernelError if another wave touched a place since the last barrier."""
        own = np.broadcast_to(c.batch.wave_of[c.waves][:, None], lanes.shape)
        for offset in range(0, size, self.unit):
            index = places + offset >> self.shift
            writer, reader = self.writer[index], self.reader[index]
            race = lanes & (writer != _NOBODY) & (writer != own)
            if atomic:
                race &= ~self.atomic[index]
            if race.any():
                self._race(c, "writes", index, self.write_step, "wrote", race)
            race = lanes & (reader != _NOBODY) & (reader != own)
            if race.any():
                self._race(c, "writes", index, self.read_step, "read", race)
            chosen, waves = index[lanes], own[lanes]
            self.writer[chosen] = waves
            clash = self.writer[chosen] != waves
            if clash.any() and not atomic:
                both = np.zeros_like(lanes)
                both[lanes] = clash
                self._race(c, "writes", index, self.write_step, "writes", both, same=True)
            self.atomic[chosen] = atomic
            self.write_step[chosen] = c.step.at
            self.known[chosen] = True

    def expect(self, c: Cohort, places: Array, lanes: Array) -> None:
        """The words at places arrive with the vector memory operation that was just counted."""
        if self.due is None:
            self.due = np.zeros(len(self.known), np.int64)
            self.due_wave = np.zeros(len(self.known), np.int32)
        issued = np.broadcast_to(c.registers.issued[VECTOR_MEMORY, c.waves][:, None], lanes.shape)
        waves = np.broadcast_to(c.numbers[:, None], lanes.shape)
        for offset in range(0, 4, self.unit):
            chosen = (places + offset >> self.shift)[lanes]
            self.due[chosen], self.due_wave[chosen] = issued[lanes], waves[lanes]

    def _late(self, c: Cohort, index: Array, late: Array) -> None:
        place = int(index[tuple(np.argwhere(late)[0])])
        source = c.program.steps[int(self.write_step[place])]
        c.fault(
            f"reads LDS before {source} has brought it",
            late,
            fix="put s_waitcnt vmcnt(0) behind the load, before the barrier",
        )

    def _race(
        self, c: Cohort, verb: str, index: Array, steps: Array, other: str, race: Array, *, same: bool = False
    ) -> None:
        first = tuple(np.argwhere(race)[0])
        place = int(index[first])
        group = int(c.batch.group_of[c.waves][first[0]])
        at = (place << self.shift) - group * self.span
        source = c.step if same else c.program.steps[int(steps[place])]
        c.fault(
            f"{verb} byte {at} of LDS, which another wave {other} in {source}, without a barrier between",
            race,
            fix="put s_waitcnt lgkmcnt(0) and s_barrier between the two",
        )

    def load(self, places: Array, size: int) -> Array:
        """`size` (1, 2 or 4) bytes at places."""
        return self.views[size][places >> size.bit_length() - 1].astype(np.uint32)

    def store(self, c: Cohort, places: Array, size: int, lanes: Array, values: Array) -> None:
        """Write `size` bytes where `lanes` is set; KernelError if two lanes write different values to one
        place."""
        view = self.views[size]
        chosen = (places >> size.bit_length() - 1)[lanes]
        wanted = np.broadcast_to(values, lanes.shape)[lanes].astype(view.dtype)
        view[chosen] = wanted
        differs = view[chosen] != wanted
        if differs.any():
            both = np.zeros_like(lanes)
            both[lanes] = differs
            c.fault("writes different values to one place of LDS from several lanes", both)
