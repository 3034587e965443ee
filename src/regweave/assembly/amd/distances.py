"""Keeping away: how many no-ops must stand before an instruction, by the machine's table of distances.

Every instruction is one wait state, `s_nop n` is n + 1. The walk remembers, for what an instruction wrote or
still reads, how long ago that was: along every way through the kernel, the shortest time counts.

    v_cmp_lt_f32 s[4:5], a, b          a vector instruction writes s[4:5]
    s_nop 4                            five states
    global_load_dword v0, v1, s[4:5]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regweave.assembly.amd.concrete import Concrete
from regweave.assembly.amd.distance_demands import matrix_demands, table_demands
from regweave.assembly.amd.events import Events, aged, merge, note_events
from regweave.assembly.flow import Flow
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly.hazards import Hazards
from regweave.values import frozen

#: States that one s_nop can stand for.
NOP = 8


@frozen
class Gap:
    """States that are missing before an operation: because of which earlier one, and why."""

    states: int
    source: int
    why: str


def needed_gaps(
    operations: Sequence[Concrete], flow: Flow, hazards: Hazards, waits: Mapping[int, object]
) -> dict[int, Gap]:
    """The missing states by operation. `waits` are operations with an inserted s_waitcnt before them, which
    is a state too."""
    gaps: dict[int, Gap] = {}
    before: dict[int, Events] = {0: {}} if flow.blocks else {}
    todo = list(before)
    while todo:
        number = todo.pop()
        block = flow.blocks[number]
        events, time = {key: dict(found) for key, found in before[number].items()}, 0
        for i in range(block.start, block.stop):
            operation = operations[i]
            time += i in waits
            gap = _missing(operation, operations, events, time, hazards)
            if gap is not None and (i not in gaps or gap.states > gaps[i].states):
                gaps[i] = gap
            time += gaps[i].states if i in gaps else 0
            note_events(operation, events, (time, i))
            time += _states(operation)
        left = {key: aged(found, time) for key, found in events.items()}
        for successor in block.successors:
            if successor not in before:
                before[successor] = {}
                todo.append(successor)
            if merge(before[successor], left) and successor not in todo:
                todo.append(successor)
    return gaps


def require_kept(operations: Sequence[Concrete], gaps: Mapping[int, Gap], name: str) -> None:
    """AssemblyError for the first gap that is too small, with both lines."""
    for i, gap in sorted(gaps.items()):
        raise AssemblyError(
            f"{operations[i].text!r} comes {gap.states} wait states too early after "
            f"{operations[gap.source].text!r}: {gap.why}",
            where=f"{name}, operations {gap.source} and {i}",
            fix=f"put {' and '.join(map(repr, nops(gap.states)))} or other instructions between them",
        )


def nops(states: int) -> list[str]:
    """The no-ops that fill so many states."""
    whole, rest = divmod(states, NOP)
    return [f"s_nop {NOP - 1}"] * whole + ([f"s_nop {rest - 1}"] if rest else [])


def _states(operation: Concrete) -> int:
    if operation.gone:
        return 0
    if operation.instruction.name == "s_nop":
        return int(operation.text.partition(" ")[2], 0) + 1
    return 1


def _missing(
    operation: Concrete,
    operations: Sequence[Concrete],
    events: Events,
    time: int,
    hazards: Hazards,
) -> Gap | None:
    """The largest gap before an operation that is issued at `time`."""
    worst: Gap | None = None
    if operation.instruction.unit in ("control", "scalar_memory"):
        return None
    demands = table_demands(operation, events, hazards)
    for states, (at, source), why in (*demands, *matrix_demands(operation, operations, events, hazards)):
        short = states - (time - at - 1)
        if short > 0 and (worst is None or short > worst.states):
            worst = Gap(short, source, why)
    return worst
