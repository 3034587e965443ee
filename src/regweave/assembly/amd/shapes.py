"""Shapes: one instruction with everything but the choice of registers.

A generator writes the same instruction a thousand times on different variables. Its shape is worked out once
for each combination of operand kinds and kept: which operands it reads and writes (the instruction table
says), the form that prints, allocation and proof understand, and where registers are named outright.

    v_fma_f32 %0, %1, %2, %0  of two vectors and a scalar
        form    v_fma_f32 %=0, %1, %2, %0
        places  (0, "=") (1, "") (2, "") (0, "")
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from regweave.assembly.amd.signatures import (
    Bound,
    check_constants,
    check_number,
    choose_signature,
    given_words,
)
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly.table import SPECIAL, GcnInstruction
from regweave.machines.amd.assembly.targets import GcnMachine
from regweave.machines.forms import Form
from regweave.machines.instructions import Pattern
from regweave.values import frozen

#: DPP controls that may leave lanes without a source; the others find one for every lane.
_OPEN_ENDED = ("row_shl", "row_shr", "wave_shl", "wave_shr", "row_bcast", "row_newbcast")
_DPP = (*_OPEN_ENDED, "quad_perm", "row_ror", "row_mirror", "row_half_mirror", "wave_rol", "wave_ror")
_PACKED = re.compile(r"v_pk_(\w+_f32|mov_b32)\Z")
#: Instructions that choose halves of their sources by op_sel_hi.
_HALVED = ("v_pk_", "v_fma_mix", "v_dot2_")
_LATE = ("scalar_memory", "shared", "global", "flat", "buffer")
_BITS = re.compile(r"\[[01](,[01])*\]\Z")


@frozen
class Place:
    """Registers that an instruction touches: of variable number `variable` of the operation's own ones
    (`first` up to `stop`), or, if that is -1, `registers` by name. `slot` is the operand's number, -1 for
    what the instruction touches without naming it."""

    slot: int
    role: str
    variable: int
    first: int = 0
    stop: int = 1
    registers: tuple[str, ...] = ()


@frozen(eq=False)
class Shape:
    """One instruction: `form` prints it, `places` are what it reads and writes, in the operands' order.

    `masked` says that it leaves lanes alone which EXEC switches off; `dpp` that it moves data between lanes;
    `scatters` that it writes one of the registers of its result, M0 says which; `keeps` that it writes a part
    of its result's register and leaves the rest alone.
    """

    instruction: GcnInstruction
    form: Form
    places: tuple[Place, ...]
    modifiers: tuple[str, ...]
    masked: bool
    dpp: bool
    scatters: bool
    keeps: bool

    @property
    def load(self) -> bool:
        """Whether a result arrives in a register later, when a counter says so."""
        memory = self.instruction.unit in _LATE
        return memory and any(place.role and place.slot >= 0 for place in self.places)

    @property
    def to_lds(self) -> bool:
        """Whether it brings data from memory to LDS, past the registers."""
        return "lds" in self.modifiers or "_load_lds_" in self.instruction.name

    @property
    def partial(self) -> bool:
        """Whether LLVM takes it for one that shifts its result's bits: it may write a part of the register,
        or is packed and takes the high half of its result from the high half of its first source."""
        name, words = self.instruction.name, self.modifiers
        if name.startswith(_HALVED):
            high = next((word for word in words if word.startswith("op_sel_hi:")), None)
            return high.startswith("op_sel_hi:[1") if high else "_mix" not in name
        selected = any(word.startswith("dst_sel:") and word != "dst_sel:DWORD" for word in words)
        return selected or any(word.startswith("op_sel:") for word in words)


def make_shape(
    machine: GcnMachine, instruction: GcnInstruction, bound: Sequence[Bound], modifiers: str, ending: str = ""
) -> Shape:
    """The shape of an instruction on operands whose kinds are known; `ending` names an encoding (`_e64`)."""
    words = tuple(modifiers.split())
    slots = choose_signature(instruction, bound, words)
    dpp = any(word.partition(":")[0] in _DPP for word in words)
    partial = dpp and _leaves_lanes(words)
    places, texts = [], []
    for number, (slot, given) in enumerate(zip(slots, bound, strict=True)):
        role = "+" if slot.role and partial and "v" in slot.letters else slot.role
        found = _places(machine, number, role, given, relative=slot.relative or given.relative)
        places += found if role or given.relative else _half(instruction, words, number, found)
        texts.append(_text(role, given))
    reads = instruction.reads_beside(words)
    if any(given.relative for given in bound):
        reads = (*reads, "m0")
    for role, names in (("", reads), ("=", instruction.writes)):
        for name in names:
            places.append(Place(-1, role, -1, registers=SPECIAL[name]))
    for given in bound:
        if given.operand.kind == "number":
            check_number(instruction, given.operand.text)
    check_constants(instruction, slots, bound)
    head = instruction.mnemonic + ending
    line = f"{head} {', '.join(texts)}".rstrip() + (f" {modifiers}" if modifiers else "")
    own = {given.variable: given for given in bound if given.variable >= 0}
    operands = " ".join(f"o{number}:{own[number].letter}{own[number].count}" for number in sorted(own))
    pattern = Pattern(operands, line, control=instruction.control)
    kinds = [own[number].letter for number in sorted(own)]
    form = Form(instruction.name, pattern, kinds, {}, frozenset())
    masked = instruction.unit in ("vector", "shared", "global", "flat", "buffer")
    scatters = any(
        slot.role and (slot.relative or given.relative) for slot, given in zip(slots, bound, strict=True)
    )
    return Shape(
        instruction, form, tuple(places), words, masked, dpp, scatters, instruction.keeps or _preserves(words)
    )


def _preserves(words: Sequence[str]) -> bool:
    """Whether SDWA modifiers write a part of the result's register and keep the rest, as they do unless told
    otherwise."""
    part = any(word.startswith("dst_sel:") and word != "dst_sel:DWORD" for word in words)
    filled = "dst_unused:UNUSED_PAD" in words or "dst_unused:UNUSED_SEXT" in words
    return part and not filled


def _half(instruction: GcnInstruction, words: Sequence[str], number: int, places: list[Place]) -> list[Place]:
    """What a packed f32 instruction reads of a pair: one of the two registers, if op_sel and op_sel_hi (by
    default the low one for the low half, the high one for the high half) choose it for both halves."""
    if not _PACKED.match(instruction.name) or not places:
        return places
    chosen = []
    for name, default in (("op_sel:", 0), ("op_sel_hi:", 1)):
        text = next((word.removeprefix(name) for word in words if word.startswith(name)), None)
        if text is not None and not _BITS.match(text):
            raise AssemblyError(f"{name}{text} cannot be read", expected=f"like {name}[0,1]")
        bits = [int(bit) for bit in text.strip("[]").split(",")] if text else []
        chosen.append(bits[number - 1] if number <= len(bits) else default)
    (place,) = places
    if chosen[0] != chosen[1]:
        return places
    if place.variable < 0:
        return [replace(place, registers=place.registers[chosen[0] : chosen[0] + 1])]
    first = place.first + chosen[0]
    return [replace(place, first=first, stop=first + 1)]


def _leaves_lanes(words: Sequence[str]) -> bool:
    """Whether a DPP instruction may keep its destination's old value in some lanes."""
    masks = [word for word in words if word.startswith(("row_mask:", "bank_mask:"))]
    bounded = any(word.startswith("bound_ctrl") for word in words)
    open_ended = any(word.startswith(_OPEN_ENDED) for word in words) and not bounded
    return open_ended or any(mask.partition(":")[2] not in ("0xf", "0xF", "15") for mask in masks)


def _places(
    machine: GcnMachine, number: int, role: str, bound: Bound, *, relative: bool = False
) -> list[Place]:
    """The registers that an operand means; all from its first one on, if M0 chooses among them."""
    operand = bound.operand
    if relative and operand.kind in ("special", "register"):
        raise AssemblyError(
            "M0 is added to the register's number, and which registers may be meant is not known",
            where=given_words(bound),
            fix="name a part of a variable: those from there to its last one may be meant",
        )
    if operand.kind == "special":
        return [Place(number, role, -1, registers=SPECIAL[operand.text])]
    if operand.kind == "register":
        names = tuple(f"{operand.text}{i}" for i in range(operand.first, operand.stop))
        _check_alignment(machine, operand.text, operand.first, len(names), names[0])
        return [Place(number, role, -1, registers=names)]
    if operand.kind != "reference":
        return []
    stop = operand.stop or bound.count
    if stop > bound.count:
        raise AssemblyError(
            f"register {stop - 1} of {operand.text!r} is beyond its last", expected=f"0 to {bound.count - 1}"
        )
    if operand.stop:
        taken = stop - operand.first
        _check_alignment(machine, bound.letter, operand.first, taken, f"%{operand.text}.{operand.first}")
    stop = bound.count if relative else stop
    return [Place(number, role, bound.variable, operand.first, stop)]


def _check_alignment(machine: GcnMachine, letter: str, first: int, count: int, what: str) -> None:
    step = machine.alignment(letter, count)
    if first % step:
        raise AssemblyError(
            f"{count} registers from {what} on are not aligned",
            where=machine.name,
            expected=f"a multiple of {step}",
        )


def _text(role: str, bound: Bound) -> str:
    operand = bound.operand
    core = operand.text
    if operand.kind == "register":
        count = operand.stop - operand.first
        first = operand.first
        core = f"{core}{first}" if count == 1 else f"{core}[{first}:{operand.stop - 1}]"
    elif operand.kind == "reference":
        part = f".{operand.first}" if operand.stop else ""
        if operand.stop > operand.first + 1:
            part += f":{operand.stop - 1}"
        core = f"%{role}{bound.variable}{part}"
    return f"{operand.before}{core}{operand.after}"
