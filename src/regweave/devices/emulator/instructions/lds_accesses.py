"""LDS instructions: reads and writes of all widths, and those that only move data between lanes.

`ds_permute_b32`, `ds_bpermute_b32` and `ds_swizzle_b32` touch no memory, but their results arrive as those of
a read do, and must be waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.devices.emulator.instructions import lanes as patterns
from regweave.devices.emulator.instructions.addresses import offset_of
from regweave.devices.emulator.instructions.global_memory import access_of, given, receive
from regweave.devices.emulator.instructions.words import vector_places
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import LANES, LDS
from regweave.errors import UnsupportedError
from regweave.machines.amd.assembly.meanings.memory import Access, all_accesses

Array = Any
Action = Callable[[Cohort], None]
_WORD = Access("load", 4)
#: Instructions that move data between lanes, past memory.
EXCHANGES = ("ds_permute_b32", "ds_bpermute_b32", "ds_swizzle_b32")


def smallest_access(program: Program) -> int:
    """The bytes of the smallest LDS access of a program."""
    sizes = [
        all_accesses()[step.name].size
        for step in program.steps
        if step.instruction.unit == "shared" and step.name in all_accesses()
    ]
    return min(sizes, default=4)


def prepare_shared(program: Program, step: Step) -> Action:
    """A load or store of LDS."""
    access = access_of(program, step)
    loads = access.kind == "load"
    (address,) = vector_places(program, step.operands[int(loads)])
    if access.step:
        offsets = [offset_of(step, "offset0") * access.step, offset_of(step, "offset1") * access.step]
    else:
        offsets = [offset_of(step)]
    data = step.operands[:1] if loads else step.operands[1:]
    numbers = [number for operand in data for number in vector_places(program, operand)]
    parts = len(numbers) // len(offsets)
    size = access.bytes
    unit = 16 if size > 8 else size
    verb = "reads" if loads else "writes"

    def find(c: Cohort, offset: int) -> Array:
        return c.batch.lds.find(c, c.read(address) + np.uint32(offset), size, c.lanes, unit=unit, verb=verb)

    def load(c: Cohort) -> None:
        lds, lanes = c.batch.lds, c.lanes
        found = [find(c, offset) for offset in offsets]
        c.issue(LDS)
        for at, places in enumerate(found):
            lds.note_read(c, places, size, lanes)
            for k in range(parts):
                value = lds.load(places + k * access.size, access.size)
                receive(c, numbers[at * parts + k], value, LDS, access)

    def store(c: Cohort) -> None:
        lds, lanes = c.batch.lds, c.lanes
        values = [given(c, number, access) for number in numbers]
        found = [find(c, offset) for offset in offsets]
        c.issue(LDS)
        for at, places in enumerate(found):
            lds.note_write(c, places, size, lanes, atomic=False)
            for k in range(parts):
                lds.store(c, places + k * access.size, access.size, lanes, values[at * parts + k])

    return load if loads else store


def prepare_exchange(program: Program, step: Step) -> Action:
    """`ds_permute_b32`, `ds_bpermute_b32`, `ds_swizzle_b32`: a lane that takes from none, or from a lane that
    is switched off, gets 0."""
    (result,) = vector_places(program, step.operands[0])
    sources = [vector_places(program, operand)[0] for operand in step.operands[1:]]
    if step.name == "ds_swizzle_b32":
        taken = patterns.swizzle(_swizzle_offset(step))

        def swizzle(c: Cohort) -> None:
            _take(c, result, sources[0], np.broadcast_to(taken, (c.count, LANES)))

        return swizzle
    offset = offset_of(step)
    if step.name == "ds_bpermute_b32":

        def take(c: Cohort) -> None:
            lane = (c.read(sources[0]) + np.uint32(offset) >> np.uint32(2)) & np.uint32(LANES - 1)
            _take(c, result, sources[1], lane.astype(np.int64))

        return take

    def send(c: Cohort) -> None:
        lane = (c.read(sources[0]) + np.uint32(offset) >> np.uint32(2)) & np.uint32(LANES - 1)
        value = c.read(sources[1])
        rows, columns = np.nonzero(c.lanes)
        moved = np.zeros((c.count, LANES), np.uint32)
        moved[rows, lane[rows, columns]] = value[rows, columns]
        c.issue(LDS)
        receive(c, result, moved, LDS, _WORD)

    return send


def _take(c: Cohort, result: int, source: int, lane: Array) -> None:
    rows = np.arange(c.count)[:, None]
    active = c.lanes & c.lanes[rows, lane]
    needed = np.zeros((c.count, LANES), bool)
    where, columns = np.nonzero(active)
    needed[where, lane[where, columns]] = True
    value = c.read(source, needed)[rows, lane]
    c.issue(LDS)
    receive(c, result, np.where(active, value, np.uint32(0)), LDS, _WORD)


def _swizzle_offset(step: Step) -> int:
    """The offset, a number or written as a pattern: `swizzle(QUAD_PERM,1,0,3,2)`."""
    text = step.modifiers.get("offset", "0")
    if not text.startswith("swizzle("):
        return int(text, 0)
    kind, *words = text.removeprefix("swizzle(").removesuffix(")").replace('"', "").split(",")
    if kind == "QUAD_PERM":
        return 1 << 15 | sum(int(word) << 2 * place for place, word in enumerate(words))
    if kind == "BITMASK_PERM":
        return _mask_pattern(words[0])
    size = int(words[0])
    if kind == "SWAP":
        return size << 10 | 31
    if kind == "REVERSE":
        return size - 1 << 10 | 31
    if kind == "BROADCAST":
        return int(words[1]) << 5 | 32 - size
    raise UnsupportedError(f"{step} is not emulated")


def _mask_pattern(pattern: str) -> int:
    """Five signs, highest bit first: 0 and 1 set a bit, p keeps it, i inverts it."""
    kept = ones = flipped = 0
    for sign in pattern:
        kept, ones, flipped = kept << 1, ones << 1, flipped << 1
        kept |= sign in "pi"
        ones |= sign == "1"
        flipped |= sign == "i"
    return flipped << 10 | ones << 5 | kept
