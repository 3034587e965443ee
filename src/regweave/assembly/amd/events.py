"""What instructions did that later ones must keep away from: who wrote or reads a register, and how long ago.

    events["valu", "s4"] = {("", ""): (7, 3)}       a vector instruction, operation 3, wrote s4 at time 7

Times are wait states since the block began. Of matrix instructions and dot products the last one of each kind
is remembered, for what follows one of its own kind may come sooner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regweave.assembly.amd.concrete import Concrete

#: No distance is longer, so that older events are forgotten.
_LONGEST = 19
Event = tuple[int, int]  # time, operation
# (producer, register) -> what wrote it last; of matrix instructions and dot products, what of each kind did:
# (name, first register of the result)
Kind = tuple[str, str]
Events = dict[tuple[str, str], dict[Kind, Event]]
_ANY = ("", "")
MEMORY_UNITS = ("shared", "global", "flat", "buffer")


def aged(found: Mapping[Kind, Event], time: int) -> dict[Kind, Event]:
    """Events as the next block counts time, without those that are too old to matter."""
    return {kind: (at - time, i) for kind, (at, i) in found.items() if time - at <= _LONGEST + 1}


def merge(known: Events, left: Events) -> bool:
    """Take over what another way leaves; whether that changed anything."""
    changed = False
    for key, found in left.items():
        own = known.setdefault(key, {})
        for kind, event in found.items():
            if kind not in own or event[0] > own[kind][0]:
                own[kind] = event
                changed = True
    return changed


def note_events(operation: Concrete, events: Events, event: Event) -> None:
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
    elif unit in MEMORY_UNITS:
        if operation.shape.load:
            note("load", operation.writes)
        if unit != "shared":
            for registers in operation.slots.values():
                if len(registers) > 2 and registers[0] in operation.reads and registers[0][0] != "s":
                    note("wide_store", registers)
