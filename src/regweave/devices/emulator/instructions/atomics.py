"""Atomic operations: every lane takes its turn, in the order of waves and lanes.

Where no two lanes meet at one address, all take their turn at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.devices.emulator.instructions.addresses import Buffer, global_address, offset_of
from regweave.devices.emulator.instructions.global_memory import access_of, receive
from regweave.devices.emulator.instructions.words import vector_places
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import FLAT, LDS, VECTOR_MEMORY
from regweave.machines.amd.assembly.meanings.memory import Access

Array = Any
_WORD = Access("load", 4)


def prepare_atomic(program: Program, step: Step) -> Callable[[Cohort], None]:
    """The action of an atomic instruction of LDS, global memory or a buffer."""
    access = access_of(program, step)
    unit = step.instruction.unit
    returns = any(slot.role for slot in step.slots)
    kind = {"shared": LDS, "flat": FLAT}.get(unit, VECTOR_MEMORY)
    results, operands = _operands(program, step, unit, returns, access)
    width = access.bytes
    buffer = Buffer(program, step, 1) if unit == "buffer" else None
    address = None
    if unit in ("global", "flat"):
        address = global_address(program, step, int(returns))
    (place,) = vector_places(program, step.operands[int(returns)]) if unit == "shared" else (0,)
    offset = np.uint32(offset_of(step) & 0xFFFFFFFF)

    def action(c: Cohort) -> None:
        lanes = c.lanes
        values = [_value(c, numbers, access) for numbers in operands]
        if unit == "shared":
            lds = c.batch.lds
            places = lds.find(c, c.read(place) + offset, width, lanes, unit=width, verb="changes")
            _require_known(c, places, lanes)
            lds.note_write(c, places, width, lanes, atomic=True)
            octets = lds.octets
        else:
            memory = c.batch.memory
            if buffer is not None:
                addresses, inside = buffer.find(c, width)
                lanes = lanes & inside
            else:
                assert address is not None, "every other unit has one"
                addresses = address(c)
            places = memory.find(c, addresses, width, lanes, unit=width, writes=True)
            for part in range(0, width, 4):
                memory.load(c, places + part, 4, lanes)
            octets = memory.octets
        former = _apply(octets, places, lanes, values, access)
        c.issue(kind)
        for number, word in zip(results, _words(former), strict=False):
            receive(c, number, word, kind, _WORD, lanes)

    return action


def _operands(
    program: Program, step: Step, unit: str, returns: bool, access: Access
) -> tuple[list[int], list[list[int]]]:
    """The registers that get the former value, and those of each value that is given."""
    width = access.bytes // 4
    if unit == "buffer":
        given = [step.operands[0]]
        results = vector_places(program, step.operands[0])[:width] if returns else []
    else:
        results = vector_places(program, step.operands[0]) if returns else []
        given = [o for o in step.operands[1 + returns :] if o.kind == "register" and o.text in "va"]
    numbers = [number for operand in given for number in vector_places(program, operand)]
    return results, [numbers[at : at + width] for at in range(0, len(numbers), width)]


def _value(c: Cohort, numbers: list[int], access: Access) -> Array:
    words = [c.read(number) for number in numbers]
    if len(words) == 2:
        return (words[0].astype(np.uint64) | words[1].astype(np.uint64) << np.uint64(32)).view(access.dtype)
    return words[0].view(access.dtype)


def _words(former: Array) -> list[Array]:
    if former.dtype.itemsize == 4:
        return [former.view(np.uint32)]
    bits = former.view(np.uint64)
    return [bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)]


def _apply(octets: Array, places: Array, lanes: Array, values: list[Array], access: Access) -> Array:
    """Every lane's turn; what was there before each."""
    assert access.operation is not None, "only atomic operations come here"
    view = octets.view(access.dtype)
    former = np.zeros(lanes.shape, access.dtype)
    left = np.flatnonzero(lanes)
    index = (places // access.bytes).reshape(-1)
    flat = [np.ascontiguousarray(np.broadcast_to(value, lanes.shape)).reshape(-1) for value in values]
    before = former.reshape(-1)
    while left.size:
        _, first = np.unique(index[left], return_index=True)
        turn = left[first]
        old = view[index[turn]]
        before[turn] = old
        view[index[turn]] = access.operation(old, *(value[turn] for value in flat))
        left = np.delete(left, first)
    return former


def _require_known(c: Cohort, places: Array, lanes: Array) -> None:
    lds = c.batch.lds
    missing = lanes & ~lds.known[places >> lds.shift]
    if missing.any():
        c.fault("changes a place of LDS that was never written", missing)
