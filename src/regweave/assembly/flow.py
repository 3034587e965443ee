"""Where every variable is live: blocks, and a data-flow analysis over loops, branches and local routines.

A variable is live where its value may still be read. Sets of variables are integers; a block needs two
operations per round. A local routine (reached by `call`, ended by `ret`) is summarised first: what it may
read from its caller and what it always writes. Callers see the summary; then the routine itself is solved
with everything that is live after any of its calls as live at its end. So a routine's variables interfere
with whatever is live across its calls, and a call costs no spills.

    uses    acc  = 0b001 ...   live before = uses | (live after & ~defines)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from regweave.assembly.program import Program
from regweave.errors import AssemblyError, nearest_names
from regweave.values import frozen

#: How deep routines may call one another: analysis and proof follow the calls.
_DEEPEST = 100


@dataclass
class Block:
    """Operations start .. stop-1 without a way in or out between them."""

    start: int
    stop: int
    successors: tuple[int, ...] = ()
    control: str | None = None
    callee: int | None = None
    reads: int = 0
    writes: int = 0
    live_in: int = 0
    live_out: int = 0


@frozen
class Flow:
    """The solved program: its blocks with their live sets, and the block where each routine starts."""

    blocks: tuple[Block, ...]
    routines: tuple[int, ...] = field(default=())

    @property
    def live_at_entry(self) -> int:
        """What is live at the function's entry: its arguments, and whatever is read before it is written."""
        return self.blocks[0].live_in if self.blocks else 0


def solve(program: Program) -> Flow:
    """Blocks and live sets of a program.

    AssemblyError for unknown labels, recursion, or code that falls into a routine.
    """
    blocks = _blocks(program)
    routines = tuple(dict.fromkeys(b.callee for b in blocks if b.callee is not None))
    regions = {0: _region(program, blocks, 0)}
    for entry in routines:
        regions[entry] = _region(program, blocks, entry)
    owner: dict[int, int] = {}
    for entry, region in regions.items():
        for number in region:
            if owner.setdefault(number, entry) != entry:
                raise AssemblyError(
                    "code is reached both by running on and by a call",
                    where=f"{program.name}, {program.describe(blocks[number].start)}",
                    fix="end the code before a routine with a jump, ret or return",
                )
    order = _callees_first(program, blocks, regions)
    summaries: dict[int, tuple[int, int]] = {}
    for entry in order:
        region = regions[entry]
        _iterate(blocks, region, 0, summaries)
        summaries[entry] = (blocks[entry].live_in, _always_written(blocks, region, entry, summaries))
    at_end = dict.fromkeys(regions, 0)
    for entry in reversed(order):
        region = regions[entry]
        if entry != 0:
            _iterate(blocks, region, at_end[entry], summaries)
        for number in region:
            block = blocks[number]
            if block.callee is not None:
                at_end[block.callee] |= blocks[block.successors[0]].live_in
    return Flow(tuple(blocks), routines)


def _blocks(program: Program) -> list[Block]:
    """Cut the operations at labels and controls, and connect the pieces."""
    count = len(program.forms)
    cuts = {0, count, *program.labels.values(), *program.breaks}
    starts = sorted(cut for cut in cuts if cut < count)
    at = {start: number for number, start in enumerate(starts)}
    at[count] = len(starts)
    blocks = []
    uses, defines = program.uses, program.defines
    for number, start in enumerate(starts):
        stop = starts[number + 1] if number + 1 < len(starts) else count
        last = stop - 1
        block = Block(start, stop)
        following: tuple[int, ...] = (number + 1,)
        if last in program.controls:
            block.control = program.forms[last].control
            target = program.controls[last]
            place = None
            if target is not None:
                if target not in program.labels:
                    raise AssemblyError(
                        f"label {target!r} is not defined",
                        where=f"{program.name}, {program.describe(last)}",
                        nearest=nearest_names(target, program.labels),
                    )
                place = at[program.labels[target]]
            if block.control == "jump":
                following = (place,)  # type: ignore[assignment]
            elif block.control == "branch":
                following = (number + 1, place)  # type: ignore[assignment]
            elif block.control == "call":
                block.callee = place
            else:
                following = ()
        if any(successor >= len(starts) for successor in following) or block.callee == len(starts):
            raise AssemblyError(f"{program.name} runs off its end", fix="end it with return, ret or a jump")
        block.successors = following
        reads = writes = 0
        for i in range(last, start - 1, -1):
            d = defines[i]
            if d:
                writes |= d
                reads ^= reads & d
            reads |= uses[i]
        block.reads, block.writes = reads, writes
        blocks.append(block)
    return blocks


def _region(program: Program, blocks: list[Block], entry: int) -> list[int]:
    """The blocks reached from `entry` without entering the routines it calls, in program order."""
    seen, stack = {entry}, [entry]
    while stack:
        block = blocks[stack.pop()]
        if block.control == ("return" if entry == 0 else "leave"):
            word, right = ("ret", "return") if entry == 0 else ("return", "ret")
            raise AssemblyError(
                f"{word!r} {'outside' if entry == 0 else 'inside'} a routine",
                where=f"{program.name}, {program.describe(block.stop - 1)}",
                fix=f"write {right!r}",
            )
        for successor in block.successors:
            if successor not in seen:
                seen.add(successor)
                stack.append(successor)
    return sorted(seen)


def _callees_first(program: Program, blocks: list[Block], regions: dict[int, list[int]]) -> list[int]:
    """The regions so that every callee stands before its callers; recursion and deep nesting are refused."""
    order: list[int] = []
    state: dict[int, int] = {}

    def visit(entry: int, depth: int = 0) -> None:
        state[entry] = 1
        for number in regions[entry]:
            callee = blocks[number].callee
            if callee is None:
                continue
            if state.get(callee) == 1:
                raise AssemblyError(
                    "a routine calls itself",
                    where=f"{program.name}, {program.describe(blocks[number].stop - 1)}",
                    fix="registers are assigned once: recursion cannot work",
                )
            if depth == _DEEPEST:
                raise AssemblyError(
                    f"routines call one another more than {_DEEPEST} deep",
                    where=f"{program.name}, {program.describe(blocks[number].stop - 1)}",
                )
            if callee not in state:
                visit(callee, depth + 1)
        state[entry] = 2
        order.append(entry)

    visit(0)
    return order


def _iterate(
    blocks: list[Block], region: list[int], at_end: int, summaries: dict[int, tuple[int, int]]
) -> None:
    """Solve one region's live sets, backwards, to a fixed point; `at_end` is live where a routine returns."""
    changed = True
    while changed:
        changed = False
        for number in reversed(region):
            block = blocks[number]
            if block.control == "return":
                out = at_end
            else:
                out = 0
                for successor in block.successors:
                    out |= blocks[successor].live_in
                if block.callee is not None:
                    reads, writes = summaries[block.callee]
                    out = reads | (out & ~writes)
            before = block.reads | (out & ~block.writes)
            block.live_out = out
            if before != block.live_in:
                block.live_in = before
                changed = True


def _always_written(
    blocks: list[Block], region: list[int], entry: int, summaries: dict[int, tuple[int, int]]
) -> int:
    """The variables that a routine writes on every way from its entry to its end."""
    everything = -1
    written_in = dict.fromkeys(region, everything)
    written_in[entry] = 0
    changed = True
    result = everything
    while changed:
        changed, result = False, everything
        for number in region:
            block = blocks[number]
            out = written_in[number] | block.writes
            if block.callee is not None:
                out |= summaries[block.callee][1]
            if block.control == "return":
                result &= out
            for successor in block.successors:
                merged = written_in[successor] & out
                if successor != entry and merged != written_in[successor]:
                    written_in[successor] = merged
                    changed = True
    return 0 if result == everything else result
