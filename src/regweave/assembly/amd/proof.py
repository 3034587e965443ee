"""Proof of a kernel's registers: the instructions are run on names instead of numbers.

Every register holds the part of a variable that was last written to it. The walk follows all ways through the
kernel and checks that each read finds its own part, and that a write that leaves a part of a register or some
registers alone finds there what those are to keep. A register that is written under a mask, and where the
part's former value is lost, holds it in that mask's lanes: it may be read until others are switched on. The
walk knows nothing of liveness or interference, so it catches their mistakes; every finished kernel has passed
it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from regweave.assembly.amd.kernel_program import KernelProgram
from regweave.assembly.amd.masks import ALL, Mask, Masks, Stack, follow_masks
from regweave.assembly.amd.shapes import Shape
from regweave.assembly.flow import Flow
from regweave.assembly.variables import Variable
from regweave.errors import VerificationError

Part = tuple[int, int]
#: What a register may hold, by the way that led here; `_NOTHING` where nobody wrote it.
Holders = frozenset[Part | None]
_NOTHING: Holders = frozenset({None})
#: A mask that is on no stack.
_GONE: Mask = ("gone", 0)


@dataclass
class _State:
    """What each register may hold, where only in the lanes of some masks, and the parts that were written and
    then overwritten on some way."""

    held: dict[str, Holders]
    lost: set[Part] = field(default_factory=set)
    within: dict[str, frozenset[Mask]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.held), set(self.lost), dict(self.within))

    def enter(self, block: int, stack: Stack, head: Stack) -> None:
        """Go from the end of a block, with its masks, to the head of another. Where that has a mask of its
        own for the lanes that are on, what holds in these lanes holds in that mask."""
        own: Mask = ("join", block)
        if head[-1] != own:
            return
        for register, masks in self.within.items():
            self.within[register] = frozenset(
                mask if mask in head[:-1] else own if mask in stack else _GONE for mask in masks
            )

    def renew(self, mask: Mask) -> None:
        """From here on a mask's name means another one."""
        for register, masks in self.within.items():
            if mask in masks:
                self.within[register] = masks - {mask} | {_GONE}

    def merge(self, other: _State) -> bool:
        """Take over what may be on another way; whether that changed anything."""
        changed = not other.lost <= self.lost
        self.lost |= other.lost
        for register, masks in other.within.items():
            known = self.within.get(register, frozenset())
            if not masks <= known:
                self.within[register] = known | masks
                changed = True
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
    masks = follow_masks(program, flow)
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
            checked += _step(program, i, runs, state, masks)
            if masks.after[i][-1] == ("op", i):
                state.renew(("op", i))
        for successor in block.successors:
            left = state.copy()
            left.enter(successor, masks.after[block.stop - 1], masks.heads[successor])
            if successor not in before:
                before[successor] = left
                todo.append(successor)
            elif before[successor].merge(left):
                todo.append(successor)
    return checked


def _step(
    program: KernelProgram, i: int, runs: Mapping[int, tuple[str, ...]], state: _State, masks: Masks
) -> int:
    """Run one operation; how many registers it read."""
    shape, stack = program.shapes[i], masks.before[i]
    narrow = shape.masked and stack != (ALL,)
    read, results = 0, []
    for touch in program.touches[i]:
        for k in range(touch.first, touch.stop):
            register, part = runs[touch.variable][k], (touch.variable, k)
            if touch.role != "=":
                read += 1
                _check(program, i, register, part, state.held.get(register, _NOTHING))
                _check_lanes(program, i, register, part, state, stack, shape)
            if touch.role:
                results.append((register, part))
            kept = (shape.keeps and register[0] in "va") or (shape.scatters and touch.stop > touch.first + 1)
            if touch.role and kept and part in state.lost:
                _check(program, i, register, part, state.held.get(register, _NOTHING) - {part})
                _check_lanes(program, i, register, part, state, stack, shape)
    for register, part in results:
        _hold(state, register, part, stack if narrow and register[0] in "va" else (ALL,))
    for register, part in results:
        others = state.held.get(register, _NOTHING) - {part, None}
        state.lost.update(other for other in others if other is not None)
    for register, part in results:
        state.held[register] = frozenset({part})
        state.lost.discard(part)
    return read


def _hold(state: _State, register: str, part: Part, stack: Stack) -> None:
    """Note in which lanes only a register holds a part that is written under the last mask of a stack."""
    within = state.within.get(register, frozenset())
    alone = state.held.get(register, _NOTHING) == {part}
    if stack == (ALL,) or (part not in state.lost and not (alone and within)):
        state.within.pop(register, None)
    elif not (alone and within <= set(stack)):
        state.within[register] = frozenset({stack[-1]})


def _check_lanes(
    program: KernelProgram, i: int, register: str, part: Part, state: _State, stack: Stack, shape: Shape
) -> None:
    """VerificationError if a register holds a part in other lanes only than those that are read."""
    within = state.within.get(register, frozenset())
    across = within and (not shape.masked or "lane" in shape.instruction.name)
    if across or not within <= set(stack):
        name = next(variable.name for variable in program.variables if variable.id == part[0])
        raise VerificationError(
            f"{register} should hold register {part[1]} of {name!r} in all lanes that are read, but in some "
            "it may hold what was there before",
            where=f"{program.name}, {program.describe(i)}",
        )


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
