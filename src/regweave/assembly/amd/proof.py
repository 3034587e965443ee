"""Proof of a kernel's registers: the instructions are run on names instead of numbers.

Every register holds the part of a variable that was last written to it. The walk follows all ways through the
kernel and checks that each read finds its own part, and that a write that leaves some lanes or some registers
alone finds the part there that those are to keep. It knows nothing of liveness or interference, so it
catches their mistakes; every finished kernel has passed it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from regweave.assembly.amd.kernel_program import KernelProgram
from regweave.assembly.amd.masks import full_masks
from regweave.assembly.flow import Flow
from regweave.assembly.variables import Variable
from regweave.errors import VerificationError

Part = tuple[int, int]
#: What a register may hold, by the way that led here; `_NOTHING` where nobody wrote it.
Holders = frozenset[Part | None]
_NOTHING: Holders = frozenset({None})


@dataclass
class _State:
    """What each register may hold, and the parts that were written and then overwritten on some way."""

    held: dict[str, Holders]
    lost: set[Part] = field(default_factory=set)

    def copy(self) -> _State:
        return _State(dict(self.held), set(self.lost))

    def merge(self, other: _State) -> bool:
        """Take over what may be on another way; whether that changed anything."""
        changed = not other.lost <= self.lost
        self.lost |= other.lost
        for register in self.held.keys() | other.held.keys():
            known = self.held.get(register, _NOTHING)
            both = known | other.held.get(register, _NOTHING)
            if both != known:
                self.held[register] = both
                changed = True
        return changed


def prove_registers(
    program: KernelProgram,
    flow: Flow,
    registers: Mapping[Variable, tuple[str, ...]],
    given: Collection[str],
) -> int:
    """Check the registers of a kernel's variables; `given` hold something at the start.

    The number of reads checked, or VerificationError at the first that would find something else.
    """
    runs = {variable.id: run for variable, run in registers.items()}
    full = full_masks(program, flow)
    held = {
        register: frozenset({(variable.id, k)})
        for variable, run in registers.items()
        if variable in program.arguments
        for k, register in enumerate(run)
        if register in given
    }
    before = {0: _State(dict(held))} if flow.blocks else {}
    todo = list(before)
    checked = 0
    while todo:
        number = todo.pop()
        block = flow.blocks[number]
        state = before[number].copy()
        for i in range(block.start, block.stop):
            checked += _step(program, i, runs, state, full[i])
        for successor in block.successors:
            if successor not in before:
                before[successor] = state.copy()
                todo.append(successor)
            elif before[successor].merge(state):
                todo.append(successor)
    return checked


def _step(
    program: KernelProgram, i: int, runs: Mapping[int, tuple[str, ...]], state: _State, full: bool
) -> int:
    """Run one operation; how many registers it read."""
    shape = program.shapes[i]
    masked, scatters = shape.keeps or (shape.masked and not full), shape.scatters
    read, results = 0, []
    for touch in program.touches[i]:
        for k in range(touch.first, touch.stop):
            register, part = runs[touch.variable][k], (touch.variable, k)
            if touch.role != "=":
                read += 1
                _check(program, i, register, part, state.held.get(register, _NOTHING))
            if touch.role:
                results.append((register, part))
            kept = (masked and register[0] in "va") or (scatters and touch.stop > touch.first + 1)
            if touch.role and kept and part in state.lost:
                _check(program, i, register, part, state.held.get(register, _NOTHING) - {part})
    for register, part in results:
        others = state.held.get(register, _NOTHING) - {part, None}
        state.lost.update(other for other in others if other is not None)
    for register, part in results:
        state.held[register] = frozenset({part})
        state.lost.discard(part)
    return read


def _check(program: KernelProgram, i: int, register: str, part: Part, found: Holders) -> None:
    if found == {part}:
        return
    names = {variable.id: variable.name for variable in program.variables}
    words = ["nothing" if p is None else f"register {p[1]} of {names[p[0]]!r}" for p in found if p != part]
    raise VerificationError(
        f"{register} should hold register {part[1]} of {names[part[0]]!r} but may hold "
        f"{' or '.join(sorted(words)) or 'nothing'}",
        where=f"{program.name}, {program.describe(i)}",
    )
