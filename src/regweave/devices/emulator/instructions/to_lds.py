"""Loads that bring data from memory to LDS, past the registers.

Lane i of a wave writes the word at M0 + offset + 4 i of LDS. The data are there when `s_waitcnt vmcnt` of the
loading wave covers the load; whoever reads them before is at fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.devices.emulator.instructions.addresses import Buffer, global_address, offset_of
from regweave.devices.emulator.instructions.global_memory import access_of, extend
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import LANES, PLACES, VECTOR_MEMORY

Array = Any


def goes_to_lds(step: Step) -> bool:
    """Whether an instruction loads to LDS."""
    return "lds" in step.modifiers or "_load_lds_" in step.name


def prepare_direct(program: Program, step: Step) -> Callable[[Cohort], None]:
    """The action of a load to LDS."""
    access = access_of(program, step)
    buffer = Buffer(program, step, 0) if step.instruction.unit == "buffer" else None
    address = None if buffer is not None else global_address(program, step, 0)
    offset = offset_of(step)
    lane = 4 * np.arange(LANES, dtype=np.int64)

    def action(c: Cohort) -> None:
        memory, lds, lanes = c.batch.memory, c.batch.lds, c.lanes
        if buffer is not None:
            addresses, inside = buffer.find(c, access.size)
        else:
            assert address is not None, "every other unit has one"
            addresses, inside = address(c), lanes
        reached = lanes & inside
        found = memory.find(c, addresses, access.size, reached, unit=access.size, writes=False)
        value = np.where(reached, extend(access, memory.load(c, found, access.size, reached)), np.uint32(0))
        start = (c.read_scalar(PLACES["m0"]) & np.uint32(0xFFFF)).astype(np.int64) + offset
        places = lds.find(c, (start + lane).astype(np.uint32), 4, lanes, unit=4, verb="writes")
        c.issue(VECTOR_MEMORY)
        lds.note_write(c, places, 4, lanes, atomic=False)
        lds.store(c, places, 4, lanes, value)
        lds.expect(c, places, lanes)

    return action
