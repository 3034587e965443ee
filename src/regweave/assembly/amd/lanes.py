"""What must be kept in lanes that an instruction does not write: liveness by masks.

    s_and_saveexec_b64 saved, vcc
    v_mov_b32 x, 1                  x is read below in all lanes: the former x lives on
    v_mov_b32 t, 2                  t is read in these lanes only: no former t
    v_add_u32 y, y, t
    s_mov_b64 exec, saved
    v_add_u32 y, y, x

Beside each mask of the stack (see `masks`) stands what is read later in lanes of that mask that the next one
leaves out; beside the last, what is read in the lanes that are on. An instruction writes in the latter, and
needs the former value of what stands beside another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regweave.assembly.amd.kernel_program import KernelProgram
from regweave.assembly.amd.masks import Masks, Stack, common
from regweave.assembly.flow import Block, Flow

Levels = tuple[int, ...]


def needed_beside(
    program: KernelProgram, flow: Flow, masks: Masks, uses: Sequence[int], defines: Sequence[int]
) -> dict[int, int]:
    """For each operation that writes the lanes that are on, which of the registers that it writes are read in
    other lanes. `uses` and `defines` are those of registers that have lanes."""
    search = _Search(program, masks, uses, defines)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(flow.blocks))):
            if number in masks.heads:
                levels = search.levels_before(flow.blocks[number])
                changed |= search.heads.get(number) != levels
                search.heads[number] = levels
    return search.needed


@dataclass
class _Search:
    """The levels at the heads of blocks as far as they are known, and what is `needed` by operation."""

    program: KernelProgram
    masks: Masks
    uses: Sequence[int]
    defines: Sequence[int]
    heads: dict[int, Levels] = field(default_factory=dict)
    needed: dict[int, int] = field(default_factory=dict)

    def levels_before(self, block: Block) -> Levels:
        """What is read later at the head of a block; notes what its operations need."""
        before, after = self.masks.before, self.masks.after
        levels = self._levels_after(block)
        for i in range(block.stop - 1, block.start - 1, -1):
            if after[i] != before[i]:
                levels = _before_change(levels, after[i], before[i])
            shape = self.program.shapes[i]
            born, used = self.defines[i], self.uses[i]
            if shape.masked:
                beside = 0
                for level in levels[:-1]:
                    beside |= level
                if born & beside:
                    self.needed[i] = born & beside
                levels[-1] &= ~born
            else:
                levels = [level & ~born for level in levels]
            if shape.masked and not _across(shape.instruction.name):
                levels[-1] |= used
            else:
                levels = [level | used for level in levels]
        return tuple(levels)

    def _levels_after(self, block: Block) -> list[int]:
        stack = self.masks.after[block.stop - 1]
        levels = [0] * len(stack)
        for successor in block.successors:
            if successor in self.heads:
                way = _before_way(self.heads[successor], self.masks.heads[successor], stack, successor)
                levels = [a | b for a, b in zip(levels, way, strict=True)]
        return levels


def _across(name: str) -> bool:
    """Whether an instruction may read lanes that are off."""
    return "lane" in name


def _before_change(levels: Sequence[int], after: Stack, before: Stack) -> list[int]:
    """The levels before an operation that changes the mask."""
    shared = common(after, before, -1)
    inside = 0
    for level in levels[shared - 1 :]:
        inside |= level
    return [*levels[: shared - 1], *[inside] * (len(before) - shared + 1)]


def _before_way(levels: Levels, head: Stack, stack: Stack, block: int) -> list[int]:
    """The levels at the end of a block whose way leads to another; the lanes that are on stay the same."""
    shared = common(stack, head, block)
    if shared == len(head) == len(stack):
        return list(levels)
    outside = [*levels[:shared], *[levels[shared - 1]] * (len(stack) - shared)]
    return [*outside[:-1], levels[-1]]
