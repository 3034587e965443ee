"""Where memory instructions reach: addresses of the scalar, global, flat and buffer units.

    global_load_dword v1, v2, s[4:5] offset:16       s[4:5] + v2 + 16
    buffer_load_dword v1, v2, s[8:11], s3 offen      base + s3 + v2, if v2 is within the buffer

A buffer's four scalar registers hold its address (48 bits), a stride (14), how many records it has, and
flags. Without a stride a record is a byte. An element beyond them reads as 0 and is not written.

Facts: "Buffer Addressing" and "Range Checking" in AMD's Vega, MI200 and MI300 manuals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.assembly.amd.lines import Operand
from regweave.devices.emulator.instructions.words import scalar_places, scalar_value, vector_places
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.errors import UnsupportedError

Array = Any
Address = Callable[[Cohort], Array]
_U32, _U64 = np.uint32, np.uint64


def scalar_pair(operand: Operand) -> Callable[[Cohort], Array]:
    """Two scalar registers as one number, [waves, 1]."""
    low, high = scalar_places(operand)[:2]
    return lambda c: c.read_scalar(low).astype(_U64) | c.read_scalar(high).astype(_U64) << _U64(32)


def vector_pair(program: Program, operand: Operand) -> Callable[[Cohort], Array]:
    """Two vector registers as one number, [waves, lanes]."""
    low, high = vector_places(program, operand)
    return lambda c: c.read(low).astype(_U64) | c.read(high).astype(_U64) << _U64(32)


def offset_of(step: Step, name: str = "offset") -> int:
    """A number in a step's modifiers, 0 without."""
    return int(step.modifiers.get(name) or "0", 0)


def scalar_address(step: Step) -> Address:
    """Of `s_load`: the two lowest bits do not count."""
    base, extra = scalar_pair(step.operands[1]), scalar_value(step.operands[2])
    offset = _U64(offset_of(step) & (1 << 64) - 1)
    if step.operands[2].kind == "number":
        number = _U64(int(step.operands[2].text, 0) & (1 << 64) - 1)
        return lambda c: (base(c) + number + offset) & ~_U64(3)
    return lambda c: (base(c) + extra(c).astype(_U64) + offset) & ~_U64(3)


def global_address(program: Program, step: Step, position: int) -> Address:
    """Of global and flat instructions, whose vector address is operand `position`."""
    offset = _U64(offset_of(step) & (1 << 64) - 1)
    operand, last = step.operands[position], step.operands[-1]
    if operand.stop - operand.first == 2:
        pair = vector_pair(program, operand)
        return lambda c: pair(c) + offset
    base = scalar_pair(last)
    (number,) = vector_places(program, operand)
    return lambda c: base(c) + c.read(number).astype(_U64) + offset


class Buffer:
    """The addressing of a buffer instruction; `position` is that of its vector offset."""

    def __init__(self, program: Program, step: Step, position: int) -> None:
        vector, resource, scalar = step.operands[position : position + 3]
        self.resource = scalar_places(resource)
        self.scalar = scalar_value(scalar)
        self.offset = offset_of(step)
        self.indexed, self.offen = "idxen" in step.modifiers, "offen" in step.modifiers
        self.vectors = vector_places(program, vector) if vector.kind == "register" else []
        if len(self.vectors) < self.indexed + self.offen:
            raise UnsupportedError(f"{step} lacks registers for idxen and offen", where=program.name)

    def find(self, c: Cohort, size: int) -> tuple[Array, Array]:
        """Addresses [waves, lanes] of an element of `size` bytes at the instruction's offset, and which lanes
        are within the buffer."""
        words = [c.read_scalar(place) for place in self.resource]
        base = words[0].astype(_U64) | (words[1].astype(_U64) & _U64(0xFFFF)) << _U64(32)
        stride, records = words[1] >> _U32(16) & _U32(0x3FFF), words[2].astype(np.int64)
        if (words[1] >> _U32(31)).any() or (words[3] >> _U32(23) & _U32(1)).any():
            c.fault("uses a buffer with swizzled addresses or added thread numbers, which is not emulated")
        vectors = [c.read(number).astype(np.int64) for number in self.vectors]
        index = vectors[0] if self.indexed else np.zeros((1, 1), np.int64)
        own = (vectors[int(self.indexed)] if self.offen else np.zeros((1, 1), np.int64)) + self.offset
        scalar = self.scalar(c).astype(np.int64)
        stride = stride.astype(np.int64)
        raw = own + size <= records - scalar
        structured = (index < records) & ((own + size <= stride) | (not self.indexed))
        inside = np.where(stride == 0, raw, structured)
        shape = (c.count, c.lanes.shape[1])
        place = np.broadcast_to(scalar + own + stride * index, shape)
        return base + place.astype(_U64), np.broadcast_to(inside, shape)
