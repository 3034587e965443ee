"""Which function of a cohort a step becomes: by its unit, and by name where an instruction is special."""

from __future__ import annotations

from collections.abc import Callable

from regweave.devices.emulator.instructions.arithmetic import prepare_arithmetic
from regweave.devices.emulator.instructions.atomics import prepare_atomic
from regweave.devices.emulator.instructions.control import prepare_wait
from regweave.devices.emulator.instructions.global_memory import (
    CACHES,
    prepare_buffer,
    prepare_global,
    prepare_scalar_load,
)
from regweave.devices.emulator.instructions.lds_accesses import EXCHANGES, prepare_exchange, prepare_shared
from regweave.devices.emulator.instructions.matrices import prepare_matrix
from regweave.devices.emulator.instructions.store_hazard import guarded
from regweave.devices.emulator.instructions.to_lds import goes_to_lds, prepare_direct
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.machines.amd.assembly.meanings.memory import all_accesses

Action = Callable[[Cohort], None]


def prepare(program: Program, step: Step) -> Action | None:
    """What a step does to a cohort; None for those that decide where it goes on."""
    unit, name = step.instruction.unit, step.name
    if name == "s_waitcnt":
        return prepare_wait(step)
    if unit == "control":
        return _nothing if name == "s_nop" else None
    if name in CACHES:
        return _nothing
    if goes_to_lds(step):
        return prepare_direct(program, step)
    if name in EXCHANGES:
        return prepare_exchange(program, step)
    if unit == "matrix":
        return prepare_matrix(program, step)
    if unit == "scalar_memory":
        return prepare_scalar_load(program, step)
    access = all_accesses().get(name)
    if access is not None and access.kind == "atomic":
        return prepare_atomic(program, step)
    memories = {
        "shared": prepare_shared,
        "buffer": prepare_buffer,
        "global": prepare_global,
        "flat": prepare_global,
    }
    return guarded(program, step, memories.get(unit, prepare_arithmetic)(program, step))


def _nothing(c: Cohort) -> None:
    pass
