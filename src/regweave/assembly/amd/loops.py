"""The loops of a kernel: a branch back to a place that every way to the branch leads through.

loop:                     head
  ...
  s_cbranch_scc1 rare     out of line, before the loop; what comes back from there is no loop of its own
  ...
  s_cbranch_scc1 loop     the branch back
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.flow import Block, Flow


def innermost_loops(flow: Flow) -> list[tuple[int, int]]:
    """The first and last operation of each loop without another inside, in program order."""
    above = _dominators(flow.blocks)
    found = []
    for number, block in enumerate(flow.blocks):
        for head in block.successors:
            if head <= number and above[number] >> head & 1:
                found.append((flow.blocks[head].start, block.stop - 1))
    return [
        loop
        for loop in found
        if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1] for other in found)
    ]


def _dominators(blocks: Sequence[Block]) -> list[int]:
    """For each block those that every way to it leads through, as bits; all where no way leads."""
    everything = (1 << len(blocks)) - 1
    above = [everything] * len(blocks)
    if blocks:
        above[0] = 1
    changed = True
    while changed:
        changed = False
        for number, block in enumerate(blocks):
            if above[number] == everything and number:
                continue
            for successor in block.successors:
                narrowed = above[successor] & (above[number] | 1 << successor)
                if narrowed != above[successor]:
                    above[successor] = narrowed
                    changed = True
    return above
