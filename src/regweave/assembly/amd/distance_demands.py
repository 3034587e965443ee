"""What an instruction demands of those before it: wait states since each of them, and why.

The machine's table of distances speaks of groups of instructions (`consumer_groups`) and of registers; what
follows a matrix instruction depends on its passes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from regweave.assembly.amd.concrete import Concrete
from regweave.assembly.amd.events import MEMORY_UNITS, Event, Events
from regweave.assembly.amd.shapes import Shape
from regweave.machines.amd.assembly.hazards import Distance, Hazards

_STARTS = {
    "vector": ("v", "a"),
    "scalar": ("s", "vcc", "m0"),
    "vcc": ("vcc",),
    "exec": ("exec",),
    "m0": ("m0",),
}
_EXEC = ("exec_lo", "exec_hi")
#: Wait states, since which event, and why.
Demand = tuple[int, Event, str]


def table_demands(operation: Concrete, events: Events, hazards: Hazards) -> Iterator[Demand]:
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
    groups = consumer_groups(shape)
    return tuple(rule for rule in hazards.distances if rule.consumer in groups)


def consumer_groups(shape: Shape) -> set[str]:
    instruction = shape.instruction
    name, unit = instruction.name, instruction.unit
    groups = set()
    if unit in MEMORY_UNITS:
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


def matrix_demands(
    operation: Concrete,
    operations: Sequence[Concrete],
    events: Events,
    hazards: Hazards,
) -> Iterator[Demand]:
    """What matrix instructions on the way ask of an operation that touches their registers."""
    reader = operation.instruction
    if reader.unit not in ("vector", "matrix", *MEMORY_UNITS):
        return
    memory = reader.unit in MEMORY_UNITS
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
