"""Waiting, branching, ending: instructions that decide when and where a wave goes on.

A wait says up to which number the operations of a counter have arrived. Vector memory and LDS finish in the
order in which they were issued, each among themselves; scalar loads finish in any order, so that only a wait
for 0 says something about them; flat operations belong to both counters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from regweave.assembly.amd.waits import written_wait
from regweave.devices.emulator.program import Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import FLAT, LDS, PLACES, SCALAR_MEMORY, VECTOR_MEMORY

Action = Callable[[Cohort], None]


def prepare_wait(step: Step) -> Action:
    """`s_waitcnt`."""
    counts = written_wait(step.text)

    def action(c: Cohort) -> None:
        registers = c.registers
        issued, arrived = registers.issued, registers.arrived
        for name, kind in (("vmcnt", VECTOR_MEMORY), ("lgkmcnt", LDS)):
            if name in counts:
                known = issued[kind, c.waves] - counts[name]
                arrived[kind, c.waves] = np.maximum(arrived[kind, c.waves], known)
        if counts.get("lgkmcnt") == 0:
            arrived[SCALAR_MEMORY, c.waves] = issued[SCALAR_MEMORY, c.waves]
            if counts.get("vmcnt") == 0:
                arrived[FLAT, c.waves] = issued[FLAT, c.waves]
        registers.settle()

    return action


#: Branches: which scalar registers decide, and whether the branch is taken where they are all zero.
_TESTS = {
    "s_cbranch_scc0": (("scc",), True),
    "s_cbranch_scc1": (("scc",), False),
    "s_cbranch_vccz": (("vcc_lo", "vcc_hi"), True),
    "s_cbranch_vccnz": (("vcc_lo", "vcc_hi"), False),
    "s_cbranch_execz": (("exec_lo", "exec_hi"), True),
    "s_cbranch_execnz": (("exec_lo", "exec_hi"), False),
}


def taken(c: Cohort, step: Step) -> np.ndarray:
    """Which waves take a branch, one boolean each."""
    if step.name == "s_branch":
        return np.ones(c.count, bool)
    names, when_zero = _TESTS[step.name]
    set_bits = np.zeros(c.count, bool)
    for name in names:
        set_bits |= c.read_scalar(PLACES[name])[:, 0] != 0
    return ~set_bits if when_zero else set_bits


def require_quiet(c: Cohort) -> None:
    """KernelError if LDS operations are under way where a barrier stands."""
    late = c.registers.issued[LDS, c.waves] > c.registers.arrived[LDS, c.waves]
    if late.any():
        c.fault(
            "stands before LDS operations of the wave have finished",
            late[:, None],
            fix="put s_waitcnt lgkmcnt(0) before it",
        )
