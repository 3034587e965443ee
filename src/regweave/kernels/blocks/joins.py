"""Joining images along their channels while they are blocked, where the parts do not fill their blocks.

Parts of 24 channels occupy a block of 16 and half of the next one, so one behind the other they do not lie as
the joined image must. Everything moves in halves of a block:

    24 + 24 channels    a: [a0 a1][a2 --]    b: [b0 b1][b2 --]    joined: [a0 a1][a2 b0][b1 b2]

A half is half a cache line of every pixel. Both halves of a line of the result are written one after the
other, so each line is written once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.arguments import arguments_type, field_offset
from regweave.machines.x86 import VectorMachine


def can_join(channels: Sequence[int], machine: VectorMachine) -> bool:
    """Whether parts of these numbers of channels can be joined: whole halves of blocks as wide as a
    vector."""
    return all(count % (machine.lanes // 2) == 0 for count in channels) and len(channels) > 1


def join_arguments(parts: int) -> type[ctypes.Structure]:
    """The structure that a kernel joining `parts` images takes: x is the first, extras are the others."""
    return arguments_type(parts - 1, 0)


@lru_cache(maxsize=32)
def join_kernel(channels: tuple[int, ...], machine: VectorMachine) -> Listing:
    """The kernel `void f(const Args *, size_t part)`; a part does a range of pixels of every image."""
    return _Join(channels, machine).write()


class _Join:
    def __init__(self, channels: tuple[int, ...], machine: VectorMachine) -> None:
        assert can_join(channels, machine), "the engine asks first"
        self.channels, self.line = channels, machine.vector_bytes
        half = machine.lanes // 2
        self.b = Builder(machine, name="rw_join", arguments=("args", "part"))
        self.type = join_arguments(len(channels))
        self.halves = [(part, index) for part, count in enumerate(channels) for index in range(count // half)]
        self.sources = [self.b.general(f"x{part}") for part in range(len(channels))]

    def write(self) -> Listing:
        b = self.b
        first, last, pitch = b.general("first"), b.general("last"), b.general("pitch")
        to, images, mask = b.general("to"), b.general("images"), b.mask("lower")
        done, image = b.fresh_label("done"), b.fresh_label("image")
        self._range(first, last, pitch)
        b.emit("cmp", first, last)
        b.emit("jump_greater_equal", done)
        b.emit("mov", images, self._field("batch"))
        b.emit("test", images, images)
        b.emit("jump_less_equal", done)
        for part, source in enumerate(self.sources):
            b.emit("mov", source, self._field("x") if part == 0 else self._field("extras", part - 1))
        b.emit("mov", to, self._field("y"))
        b.emit("mov", images, self._field("batch"))
        count = b.general("count")
        b.emit("mov", count, self.line // 8)
        b.emit("mask_from_count", mask, count)
        b.label(image)
        for start in range(0, len(self.halves), 2):
            self._block(self.halves[start : start + 2], to, first, last, pitch, mask)
            b.emit("add", to, pitch)
        for part, source in enumerate(self.sources):
            blocks = b.general("blocks")
            b.emit("imul", blocks, pitch, -(-self.channels[part] * 4 // self.line))
            b.emit("add", source, blocks)
        b.emit("dec", images)
        b.emit("jump_nonzero", image)
        b.label(done)
        return b.finish()

    def _field(self, name: str, index: int = 0) -> Memory:
        return self.b.at("args", field_offset(self.type, name, index))

    def _range(self, first: Variable, last: Variable, pitch: Variable) -> None:
        """The part's pixels as byte offsets into a block's plane, and the bytes of one."""
        b, per, parts = self.b, self.b.general("per"), self.b.general("parts")
        b.emit("mov", pitch, self._field("rows"))
        b.emit("mov", parts, self._field("parts"))
        b.emit("lea", per, b.at(pitch, -1, index=parts))
        b.emit("divide_unsigned", first, per, parts)
        b.emit("mov", per, first)
        b.emit("imul", first, b["part"])
        b.emit("mov", last, first)
        b.emit("add", last, per)
        b.emit("min", last, pitch)
        for value in (first, last, pitch):
            b.emit("imul", value, value, self.line)

    def _block(
        self,
        halves: Sequence[tuple[int, int]],
        to: Variable,
        first: Variable,
        last: Variable,
        pitch: Variable,
        mask: Variable,
    ) -> None:
        """One block of the result: pixel by pixel the two halves, zeros where there is no second one."""
        b, at = self.b, self.b.general("at")
        starts = [self._half(part, index, pitch) for part, index in halves]
        pixel = b.fresh_label("pixel")
        b.emit("mov", at, first)
        b.label(pixel)
        for place in range(2):
            value = b.vector("half")
            if place < len(starts):
                b.emit("load_masked", value, b.at(starts[place], index=at), mask)
            else:
                b.emit("zero", value)
            b.emit("store_masked", b.at(to, place * self.line // 2, index=at), value, mask)
        b.emit("add", at, self.line)
        b.emit("cmp", at, last)
        b.emit("jump_less", pixel)

    def _half(self, part: int, index: int, pitch: Variable) -> Variable:
        start = self.b.general("start")
        self.b.emit("imul", start, pitch, index // 2)
        self.b.emit("add", start, self.sources[part])
        if index % 2:
            self.b.emit("add", start, self.line // 2)
        return start
