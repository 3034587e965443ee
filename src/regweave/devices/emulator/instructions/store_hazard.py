"""Stores of more than two registers, whose data a vector instruction may not overwrite at once.

    global_store_dwordx4 v0, v[4:7], s[0:1]
    v_mov_b32 v6, 0                              too early: the store still reads v6

The machine's table of distances says how many wait states must lie between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort

Action = Callable[[Cohort], None]


def guarded(program: Program, step: Step, action: Action) -> Action:
    """The action of a store, or one that says which line overwrites its data too early."""
    data = _data(step)
    early = _overwriter(program, step, data) if len(data) > 2 else None
    if early is None:
        return action

    def fault(c: Cohort) -> None:
        c.fault(f"still reads its data when {early} overwrites it", fix="put s_nop 1 between the two")

    return fault


def _data(step: Step) -> set[tuple[str, int]]:
    """The registers that a store reads its data from."""
    if step.instruction.unit not in ("global", "flat", "buffer") or any(slot.role for slot in step.slots):
        return set()
    position = 0 if step.instruction.unit == "buffer" else 1
    return _registers(step, [position]) if len(step.operands) > position else set()


def _registers(step: Step, positions: Any) -> set[tuple[str, int]]:
    named = [step.operands[position] for position in positions]
    return {(o.text, i) for o in named if o.kind == "register" for i in range(o.first, o.stop)}


def _overwriter(program: Program, step: Step, data: set[tuple[str, int]]) -> Step | None:
    """The vector instruction that follows too early; lines are taken in the order in which they stand."""
    rules = [rule for rule in program.machine.hazards.distances if rule.producer == "wide_store"]
    states = max((rule.states for rule in rules), default=0)
    for later in program.steps[step.at + 1 :]:
        if states <= 0 or later.instruction.control is not None:
            return None
        if later.instruction.unit == "vector":
            written = [position for position, slot in enumerate(later.slots) if slot.role]
            if _registers(later, written) & data:
                return later
        states -= int(later.operands[0].text, 0) + 1 if later.name == "s_nop" else 1
    return None
