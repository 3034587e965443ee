"""Live ranges of whole variables, from what instructions do to parts of them.

Sixteen accumulators are cleared one after the other, read together, stored four at a time. So liveness is
solved for every register of every tuple first; then each operation is told what it does to the variable as a
whole. It begins the variable's life if none of its other registers is alive; otherwise it lives on:

    v_mov_b32 acc.0, 0      nothing of acc is alive: acc begins
    v_mov_b32 acc.1, 0      acc.0 is alive: acc lives on, it is read and written
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import reduce
from operator import or_

from regweave.assembly.amd.kernel_program import KernelProgram, Touch
from regweave.assembly.amd.lanes import needed_beside
from regweave.assembly.amd.masks import follow_masks
from regweave.assembly.flow import Flow, solve
from regweave.errors import AssemblyError
from regweave.values import frozen

#: Classes whose registers have lanes.
_MASKED = ("vector", "accumulation")


@frozen(eq=False)
class Parts:
    """Liveness by single registers: bit `base[v] + k` stands for register k of variable v."""

    base: tuple[int, ...]
    uses: tuple[int, ...]
    defines: tuple[int, ...]
    flow: Flow

    def bits(self, touch: Touch) -> int:
        """The registers that a touch means."""
        return (1 << touch.stop) - (1 << touch.first) << self.base[touch.variable]

    def live_after(self) -> list[int]:
        """What is alive behind each operation."""
        after = [0] * len(self.uses)
        for block in self.flow.blocks:
            live = block.live_out
            for i in range(block.stop - 1, block.start - 1, -1):
                after[i] = live
                live = (live & ~self.defines[i]) | self.uses[i]
        return after


def solve_parts(program: KernelProgram, given: Collection[str]) -> Parts:
    """Liveness of single registers; `given` are the registers that hold something at the start.

    AssemblyError for a register that may be read before it is written.
    """
    base, at = [], 0
    for variable in program.variables:
        base.append(at)
        at += variable.count
    draft = Parts(tuple(base), (), (), Flow(()))
    uses, defines = [], []
    for touches in program.touches:
        used = born = 0
        for touch in touches:
            bits = draft.bits(touch)
            if touch.role != "=":
                used |= bits
            if touch.role:
                born |= bits
        uses.append(used)
        defines.append(born)
    flow = solve(replace(program, uses=uses, defines=defines))
    _check_written(program, draft, uses, flow.live_at_entry, given)
    kept = _kept(program, draft, flow, uses, defines)
    if kept:
        for i, bits in kept.items():
            uses[i] |= bits
        flow = solve(replace(program, uses=uses, defines=defines))
    return Parts(draft.base, tuple(uses), tuple(defines), flow)


def whole_variables(program: KernelProgram, parts: Parts) -> KernelProgram:
    """The program with its uses and definitions by whole variables."""
    after = parts.live_after()
    uses, defines = [], []
    for i, touches in enumerate(program.touches):
        used = born = 0
        for touch in touches:
            variable = program.variables[touch.variable]
            mine = (1 << variable.count) - 1 << parts.base[touch.variable]
            if parts.uses[i] & mine or (after[i] & mine & ~parts.defines[i]):
                used |= variable.bit
            if touch.role:
                born |= variable.bit
        uses.append(used)
        defines.append(born)
    return replace(program, uses=tuple(uses), defines=tuple(defines))


def _check_written(
    program: KernelProgram, parts: Parts, uses: list[int], at_entry: int, given: Collection[str]
) -> None:
    """AssemblyError for what is alive at the entry without being given there."""
    for variable in program.variables:
        pinned = variable.pinned
        for k in range(variable.count):
            bit = 1 << parts.base[variable.id] + k
            if at_entry & bit and not (pinned and pinned[k] in given):
                first = next(i for i, used in enumerate(uses) if used & bit)
                part = f" (register {k} of {variable.count})" if variable.count > 1 else ""
                raise AssemblyError(
                    f"{program.name} may read {variable.name!r}{part} before it is written",
                    where=program.describe(first),
                    fix="write it on every way that leads there, or reserve a keyword",
                )


def _kept(
    program: KernelProgram, parts: Parts, flow: Flow, uses: list[int], defines: list[int]
) -> dict[int, int]:
    """Operations that write some lanes, a part of a register, or one of some registers, with those of their
    registers that may hold something already which is read later."""
    masks = follow_masks(program, flow)
    partial = {
        i: _partly(program, parts, i)
        for i, shape in enumerate(program.shapes)
        if shape.keeps or shape.scatters
    }
    narrow = len({*masks.before, *masks.after}) > 1
    if not (partial or narrow):
        return {}
    written = _maybe_written(flow, defines)
    found = {i: bits & written[i] for i, bits in partial.items() if bits & written[i]}
    if narrow:
        lanes = sum(
            (1 << v.count) - 1 << parts.base[v.id]
            for v in program.variables
            if v.register_class.name in _MASKED
        )
        own = [bits & lanes for bits in defines]
        for i, bits in found.items():  # what is kept anyway begins nothing
            own[i] &= ~bits
        reads = [bits & lanes for bits in uses]
        for i, bits in needed_beside(program, flow, masks, reads, own).items():
            if bits & written[i]:
                found[i] = found.get(i, 0) | (bits & written[i])
    return found


def _partly(program: KernelProgram, parts: Parts, i: int) -> int:
    """The registers of operation i that it writes in part, or one of."""
    shape, bits = program.shapes[i], 0
    for touch in program.touches[i]:
        name = program.variables[touch.variable].register_class.name
        if touch.role and (name in _MASKED if shape.keeps else touch.stop > touch.first + 1):
            bits |= parts.bits(touch)
    return bits


def _maybe_written(flow: Flow, defines: list[int]) -> list[int]:
    """What may have been written before each operation, on some way there."""
    before = [0] * len(flow.blocks)
    own = [reduce(or_, defines[block.start : block.stop], 0) for block in flow.blocks]
    todo = list(range(len(flow.blocks)))[::-1]
    while todo:
        number = todo.pop()
        held = before[number] | own[number]
        for successor in flow.blocks[number].successors:
            if held & ~before[successor]:
                before[successor] |= held
                todo.append(successor)
    found = [0] * len(defines)
    for block, held in zip(flow.blocks, before, strict=True):
        for i in range(block.start, block.stop):
            found[i] = held
            held |= defines[i]
    return found
