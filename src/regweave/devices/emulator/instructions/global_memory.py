"""Loads and stores of global memory and of scalars.

A load writes its registers at once; they count as under way until `s_waitcnt` covers them. Elements narrower
than a register are extended, or go to one half of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.devices.emulator.instructions.addresses import (
    Buffer,
    global_address,
    scalar_address,
    scalar_pair,
)
from regweave.devices.emulator.instructions.words import scalar_places, scalar_value, vector_places
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import FLAT, SCALAR_MEMORY, VECTOR_MEMORY
from regweave.errors import UnsupportedError
from regweave.machines.amd.assembly.meanings.memory import Access, all_accesses

Array = Any
Action = Callable[[Cohort], None]
_U32 = np.uint32
#: Modifiers that concern caches and order, not values, and those that addresses are made of.
_IGNORED = ("glc", "slc", "dlc", "scc", "sc0", "sc1", "nt", "offset", "offen", "idxen", "offset0", "offset1",
            "lds")  # fmt: skip
#: Instructions that look after caches.
CACHES = ("s_dcache_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_wbl2", "buffer_inv", "buffer_invl2")


def access_of(program: Program, step: Step) -> Access:
    """What a memory instruction moves. UnsupportedError if it is not emulated."""
    access = all_accesses().get(step.name)
    unknown = [word for word in step.modifiers if word not in _IGNORED]
    if access is None or unknown:
        why = f"with {unknown[0]!r} " if unknown else ""
        raise UnsupportedError(f"{step} {why}is not emulated", where=program.name)
    return access


def extend(access: Access, value: Array) -> Array:
    """An element as 32 bits."""
    if not access.signed:
        return value
    sign = _U32(1 << 8 * access.size - 1)
    return (value ^ sign) - sign


def receive(
    c: Cohort, number: int, value: Array, kind: int, access: Access, lanes: Array | None = None
) -> None:
    """A loaded element goes to a vector register, where it arrives later."""
    if number in c.registers.flying:
        late = c.on_its_way(number) & ((c.registers.kind[number, c.waves] != kind) | (kind == FLAT))
        if late.any():
            c.require_arrived(number, "loads to")
    value = extend(access, value)
    if access.half is not None:
        mask = _U32(0xFFFF) << _U32(16 * access.half)
        old = c.registers.values[number, c.waves]
        value = (value << _U32(16 * access.half) & mask) | (old & ~mask)
    c.put(number, value, lanes)
    c.send(number, kind)


def given(c: Cohort, number: int, access: Access) -> Array:
    """An element to store."""
    value = c.read(number)
    return value >> _U32(16) if access.half else value


def prepare_global(program: Program, step: Step) -> Action:
    """A load or store of the global or flat unit."""
    access = access_of(program, step)
    kind = FLAT if step.instruction.unit == "flat" else VECTOR_MEMORY
    results = sum(bool(slot.role) for slot in step.slots)
    address = global_address(program, step, results)
    data = step.operands[0] if access.kind == "load" else step.operands[1]
    numbers = vector_places(program, data)
    unit = min(access.size, 4)

    def load(c: Cohort) -> None:
        memory, lanes = c.batch.memory, c.lanes
        places = memory.find(c, address(c), access.bytes, lanes, unit=unit, writes=False)
        c.issue(kind)
        for k, number in enumerate(numbers):
            receive(c, number, memory.load(c, places + k * access.size, access.size, lanes), kind, access)

    def store(c: Cohort) -> None:
        memory, lanes = c.batch.memory, c.lanes
        values = [given(c, number, access) for number in numbers]
        places = memory.find(c, address(c), access.bytes, lanes, unit=unit, writes=True)
        c.issue(kind)
        for k, value in enumerate(values):
            memory.store(places + k * access.size, access.size, lanes, value)

    return load if access.kind == "load" else store


def prepare_buffer(program: Program, step: Step) -> Action:
    """A load or store through a buffer's description: each element within the buffer, or 0."""
    access = access_of(program, step)
    buffer = Buffer(program, step, 1)
    numbers = vector_places(program, step.operands[0])

    def each(c: Cohort) -> list[Any]:
        found = []
        for k, number in enumerate(numbers):
            addresses, inside = buffer.find(c, access.size * (k + 1))
            lanes = c.lanes & inside
            if c.batch.launch.strict_buffers and (c.lanes & ~inside).any():
                c.fault("reaches beyond its buffer", c.lanes & ~inside)
            found.append((number, addresses + np.uint64(access.size * k), lanes))
        return found

    def load(c: Cohort) -> None:
        memory = c.batch.memory
        c.issue(VECTOR_MEMORY)
        for number, addresses, lanes in each(c):
            places = memory.find(c, addresses, access.size, lanes, unit=access.size, writes=False)
            value = memory.load(c, places, access.size, lanes)
            receive(c, number, np.where(lanes, value, _U32(0)), VECTOR_MEMORY, access)

    def store(c: Cohort) -> None:
        memory = c.batch.memory
        c.issue(VECTOR_MEMORY)
        for number, addresses, lanes in each(c):
            value = given(c, number, access)
            places = memory.find(c, addresses, access.size, lanes, unit=access.size, writes=True)
            memory.store(places, access.size, lanes, value)

    return load if access.kind == "load" else store


def prepare_scalar_load(program: Program, step: Step) -> Action:
    """`s_load_dword` and `s_buffer_load_dword`, which reads 0 beyond its buffer."""
    access = access_of(program, step)
    targets = scalar_places(step.operands[0])
    buffered = step.name.startswith("s_buffer")
    address = None if buffered else scalar_address(step)
    resource = scalar_places(step.operands[1])
    extra = scalar_value(step.operands[2])
    base = scalar_pair(step.operands[1])

    def action(c: Cohort) -> None:
        memory, every = c.batch.memory, np.ones((c.count, 1), bool)
        limit = None
        if address is not None:
            start = address(c)
        else:
            offset = extra(c).astype(np.uint64) & ~np.uint64(3)
            start = (base(c) & np.uint64(0xFFFF_FFFF_FFFF)) + offset
            words = [c.read_scalar(place) for place in resource]
            stride = (words[1] >> _U32(16) & _U32(0x3FFF)).astype(np.int64)
            limit = words[2].astype(np.int64) * np.maximum(stride, 1) - offset.astype(np.int64)
        c.issue(SCALAR_MEMORY)
        for k, target in enumerate(targets):
            lanes = every if limit is None else every & (4 * (k + 1) <= limit)
            addresses = start + np.uint64(4 * k)
            places = memory.find(c, addresses, 4, lanes, unit=4, writes=False)
            value = memory.load(c, places, access.size, lanes)
            key = target + len(c.registers.whole)
            if key in c.registers.flying:
                c.require_arrived(key, "loads to")
            c.put_scalar(target, np.where(lanes, value, _U32(0)))
            c.send(key, SCALAR_MEMORY)

    return action
