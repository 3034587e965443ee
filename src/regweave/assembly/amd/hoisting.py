"""Waits that only the first round of a loop needs stand before the loop.

    s_load_dwordx2 base, ...
                                  <- s_waitcnt lgkmcnt(0) here, once
    loop:
      global_load_dword x, at, base      instead of here, in every round

A loop is the blocks from its head to the last block that goes back to it. For each loop and counter the waits
are worked out once more as if everything had arrived on the ways that enter the loop; where that leaves fewer
waits inside, those ways get one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regweave.assembly.amd.concrete import Concrete
from regweave.assembly.amd.waits import COUNTERS, Drained, Wait, needed_waits
from regweave.assembly.flow import Flow
from regweave.values import frozen


@frozen(eq=False)
class Placed:
    """The waits of a kernel: `before` an operation, and `behind` one that runs on into a loop."""

    before: dict[int, Wait]
    behind: dict[int, Wait]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.before) + len(self.behind)


def place_waits(operations: Sequence[Concrete], flow: Flow, limits: tuple[int, int]) -> Placed:
    """All waits that a kernel needs, each where it runs as seldom as its loops allow."""
    drained: dict[tuple[int, int], str] = {}
    best = needed_waits(operations, flow, limits)
    placed = Placed({}, {})
    for head, last, ways in _loops(flow):
        inside = range(flow.blocks[head].start, flow.blocks[last].stop)
        for counter in COUNTERS:
            if not any(getattr(best[i], counter) is not None for i in inside if i in best):
                continue
            if any((way, head) in drained for way in ways):
                continue
            trial: Drained = drained | {(way, head): counter for way in ways}
            waits = needed_waits(operations, flow, limits, trial)
            if sum(i in waits for i in inside) < sum(i in best for i in inside):
                drained, best = dict(trial), waits
                for way in ways:
                    _put(flow, way, counter, placed)
    for i, wait in best.items():
        placed.before[i] = _both(wait, placed.before[i]) if i in placed.before else wait
    return placed


def _loops(flow: Flow) -> Iterator[tuple[int, int, list[int]]]:
    """Each loop's first and last block, and the blocks from which it is entered."""
    entering: dict[int, list[int]] = {}
    for number, block in enumerate(flow.blocks):
        for successor in block.successors:
            entering.setdefault(successor, []).append(number)
    for head, ways in sorted(entering.items()):
        back = [way for way in ways if way >= head]
        outside = [way for way in ways if way < head]
        # a block that goes back to another loop runs in that loop's every round
        busy = any(successor <= way for way in outside for successor in flow.blocks[way].successors)
        if back and outside and not busy:
            yield head, max(back), outside


def _put(flow: Flow, way: int, counter: str, placed: Placed) -> None:
    """One wait at the end of a block: before the branch that ends it, or behind its last operation."""
    block = flow.blocks[way]
    wait = Wait(0 if counter == "vmcnt" else None, 0 if counter == "lgkmcnt" else None, -1, "")
    place, found = block.stop - 1, placed.behind if block.control is None else placed.before
    found[place] = _both(wait, found[place]) if place in found else wait


def _both(a: Wait, b: Wait) -> Wait:
    """One wait for what two wait for."""
    least = {}
    for name in COUNTERS:
        counts = [count for count in (getattr(a, name), getattr(b, name)) if count is not None]
        least[name] = min(counts, default=None)
    return Wait(least["vmcnt"], least["lgkmcnt"], a.source, a.register)
