"""Keeping away: how many no-ops must stand before an instruction, by the machine's table of distances.

Every instruction is one wait state, `s_nop n` is n + 1. The walk remembers, for what an instruction wrote or
still reads, how long ago that was: along every way through the kernel, the shortest time counts.

    v_cmp_lt_f32 s[4:5], a, b          a vector instruction writes s[4:5]
    s_nop 4                            five states
    global_load_dword v0, v1, s[4:5]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from regweave.assembly.amd.concrete import Concrete
from regweave.assembly.amd.shapes import Shape
from regweave.assembly.flow import Flow
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly.hazards import Distance, Hazards
from regweave.values import frozen

#: No distance is longer, so that older events are forgotten.
_LONGEST = 19
#: States that one s_nop can stand for.
NOP = 8
Event = tuple[int, int]  # time, operation
# (producer, register) -> what wrote it last; of matrix instructions and dot products, what of each kind did:
# (name, first register of the result)
Kind = tuple[str, str]
Events = dict[tuple[str, str], dict[Kind, Event]]
_ANY = ("", "")
_MEMORY = ("shared", "global", "flat", "buffer")
_STARTS = {
    "vector": ("v", "a"),
    "scalar": ("s", "vcc", "m0"),
    "vcc": ("vcc",),
    "exec": ("exec",),
    "m0": ("m0",),
}
_EXEC = ("exec_lo", "exec_hi")


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
            _note(operation, events, (time, i))
            time += _states(operation)
        left = {key: _aged(found, time) for key, found in events.items()}
        for successor in block.successors:
            if successor not in before:
                before[successor] = {}
                todo.append(successor)
            if _merge(before[successor], left) and successor not in todo:
                todo.append(successor)
    return gaps


def _aged(found: Mapping[Kind, Event], time: int) -> dict[Kind, Event]:
    """Events as the next block counts time, without those that are too old to matter."""
    return {kind: (at - time, i) for kind, (at, i) in found.items() if time - at <= _LONGEST + 1}


def _merge(known: Events, left: Events) -> bool:
    """Take over what another way leaves; whether that changed anything."""
    changed = False
    for key, found in left.items():
        own = known.setdefault(key, {})
        for kind, event in found.items():
            if kind not in own or event[0] > own[kind][0]:
                own[kind] = event
                changed = True
    return changed


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
    demands = _distances(operation, events, hazards)
    for states, (at, source), why in (*demands, *_matrix(operation, operations, events, hazards)):
        short = states - (time - at - 1)
        if short > 0 and (worst is None or short > worst.states):
            worst = Gap(short, source, why)
    return worst


Demand = tuple[int, tuple[int, int], str]


def _distances(operation: Concrete, events: Events, hazards: Hazards) -> Iterator[Demand]:
    """What the table of distances asks of an operation."""
    own = operation.instruction.name
    for rule in _rules(operation.shape, hazards):
        starts = _STARTS.get(rule.registers, ())
        for register in _exposed(operation, rule):
            if starts and not register.startswith(starts):
                continue
            for (name, _), event in events.get((rule.producer, register), {}).items():
                if rule.producer != "dot" or (name == own) == (rule.consumer == "same_dot_ab"):
                    yield rule.states, event, rule.why


@lru_cache(maxsize=4096)
def _rules(shape: Shape, hazards: Hazards) -> tuple[Distance, ...]:
    """The distances that speak of an instruction as the later one."""
    groups = _consumer_groups(shape)
    return tuple(rule for rule in hazards.distances if rule.consumer in groups)


def _consumer_groups(shape: Shape) -> set[str]:
    instruction = shape.instruction
    name, unit = instruction.name, instruction.unit
    groups = set()
    if unit in _MEMORY:
        groups |= {"memory"} if unit == "shared" else {"memory", "vector_memory"}
        if shape.load:
            groups.add("other_dot_writer")
        if shape.to_lds:
            groups.add("m0_reader")
    if unit == "matrix":
        groups |= {"matrix", "valu", "valu_not_transcendental", "valu_writer"}
    if unit == "vector":
        groups |= {"valu", "valu_writer", "other_dot", "other_dot_writer"}
        if not instruction.transcendental:
            groups.add("valu_not_transcendental")
        if instruction.dot:
            groups.add("same_dot_ab")
        if shape.dpp:
            groups.add("dpp")
        if name in ("v_readlane_b32", "v_writelane_b32"):
            groups.add("lane_select")
        if name in ("v_readlane_b32", "v_readfirstlane_b32"):
            groups.add("readlane")
        if name in ("v_readlane_b32", "v_readfirstlane_b32", "v_writelane_b32"):
            groups.add("rwlane")
        if name.startswith("v_div_fmas"):
            groups.add("div_fmas")
        if name in ("v_fma_f64", "v_fmac_f64"):
            groups.add("fma_f64")
    if name.startswith(("s_movrel", "s_sendmsg")):
        groups.add("m0_reader")
    if name.startswith(("s_getreg", "s_setreg")):
        groups.add("hardware_register")
    return groups


def _exposed(operation: Concrete, rule: Distance) -> Sequence[str]:
    """The registers of the later operation that a rule is about."""
    if rule.registers == "none":
        return ("",)
    if rule.registers == "exec":
        return _EXEC
    if rule.consumer == "lane_select":
        return operation.slots.get(2, ())
    if rule.consumer == "same_dot_ab":
        return (*operation.slots.get(1, ()), *operation.slots.get(2, ()))
    return operation.writes if rule.consumer.endswith("writer") else operation.reads


def _matrix(
    operation: Concrete,
    operations: Sequence[Concrete],
    events: Events,
    hazards: Hazards,
) -> Iterator[Demand]:
    """What matrix instructions on the way ask of an operation that touches their registers."""
    reader = operation.instruction
    if reader.unit not in ("vector", "matrix", *_MEMORY):
        return
    memory = reader.unit in _MEMORY
    if reader.unit == "matrix":
        uses = [(r, "factor") for slot in (1, 2) for r in operation.slots.get(slot, ())]
        uses += [(r, "sum") for r in operation.slots.get(3, ())]
    else:
        uses = [(r, "read") for r in operation.reads] + [(r, "write") for r in operation.writes]
    for register, use in uses:
        for event in events.get(("matrix", register), {}).values():
            writer = operations[event[1]].instruction
            about = {"passes": writer.passes, "double": writer.double, "fast": writer.fast}
            if use == "sum":
                same = operations[event[1]].slots[0] == operation.slots[3]
                states = hazards.matrix_to_sum(
                    **about, same=same, to_double=reader.double, to_fast=reader.fast
                )
            else:
                states = hazards.after_matrix(use, **about, memory=memory)
            yield states, event, "the matrix instruction's result is not there yet"
        if use != "write":
            continue
        for event in events.get(("sum", register), {}).values():
            writer = operations[event[1]].instruction
            states = hazards.over_sum(passes=writer.passes, double=writer.double, fast=writer.fast)
            yield states, event, "the matrix instruction still reads its sum"


def _note(operation: Concrete, events: Events, event: Event) -> None:
    """Remember what an operation wrote and still reads."""
    instruction = operation.instruction
    unit = instruction.unit

    def note(producer: str, registers: Sequence[str], kind: Kind = _ANY) -> None:
        for register in registers:
            events[producer, register] = {kind: event}

    if unit == "vector":
        producers = ["valu"]
        if not instruction.dot:
            producers.append("valu_not_dot")
        if instruction.transcendental:
            producers.append("transcendental")
        if operation.shape.partial:
            producers.append("partial")
        for producer in producers:
            note(producer, operation.writes)
        if instruction.dot:
            note("dot", operation.writes, (instruction.name, ""))
    elif unit == "matrix":
        kind = (instruction.name, operation.slots[0][0])
        note("matrix", operation.slots[0], kind)
        note("sum", operation.slots.get(3, ()), kind)
        if instruction.double:
            note("double_matrix", ("",))
            events |= {("hidden", key[1]): dict(found) for key, found in events.items() if key[0] == "valu"}
    elif unit == "scalar":
        if "m0" in operation.writes:
            note("scalar", ("m0",))
        if instruction.name.startswith("s_setreg"):
            note("setreg", ("",))
    elif unit in _MEMORY:
        if operation.shape.load:
            note("load", operation.writes)
        if unit != "shared":
            for registers in operation.slots.values():
                if len(registers) > 2 and registers[0] in operation.reads and registers[0][0] != "s":
                    note("wide_store", registers)
