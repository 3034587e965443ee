"""Signatures: which of the ways to write an instruction's operands is meant, and numbers that it can hold.

    v_mul_f32 %0, 1, %1       of a vector and a pair: operand 2 is one register or a number
    v_mul_f32 %0, 3.5, %1     of a vector and a scalar: a literal and a scalar are one too many

Both are refused, with these words.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.amd.lines import Operand
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly.table import SPECIAL, GcnInstruction, Slot
from regweave.values import frozen

_WORDS = {"v": "a vector register", "s": "a scalar register", "a": "an accumulation register",
          "i": "a number", "o": "off", "l": "a label", "x": "words of its own"}  # fmt: skip
_INLINE = {"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"}


@frozen
class Bound:
    """An operand as it is known when its instruction is recorded: read text, and for a variable its number
    among the operation's own ones, its letter and how many registers it has in all. `relative` says that M0
    is added to its register's number."""

    operand: Operand
    variable: int = -1
    letter: str = ""
    count: int = 0
    relative: bool = False

    @property
    def taken(self) -> int:
        """How many registers of the variable are meant."""
        return self.operand.stop - self.operand.first if self.operand.stop else self.count


def choose_signature(
    instruction: GcnInstruction, bound: Sequence[Bound], words: Sequence[str]
) -> tuple[Slot, ...]:
    """The way to write the operands that fits beside the modifiers `words`; AssemblyError with those that
    there are otherwise."""
    for slots in instruction.ways(words):
        if len(slots) == len(bound) and all(map(_fits, slots, bound)):
            return slots
    several = instruction.ways(words)
    if len(several) == 1 and len(several[0]) == len(bound):
        number = next(n for n, pair in enumerate(zip(several[0], bound, strict=True)) if not _fits(*pair))
        raise AssemblyError(
            f"{instruction.name!r} does not take {given_words(bound[number])} as operand {number}",
            expected=_say(several[0][number]),
        )
    ways = [", ".join(map(_say, slots)) or "no operands" for slots in several]
    other = next(
        (
            way.word
            for way in instruction.worded
            if len(way.slots) == len(bound) and all(map(_fits, way.slots, bound))
        ),
        None,
    )
    raise AssemblyError(
        f"{instruction.name!r} does not take ({', '.join(map(given_words, bound)) or 'no operands'})",
        expected=" or ".join(ways),
        fix=f"add {other}" if other is not None and other not in words else None,
    )


def _fits(slot: Slot, bound: Bound) -> bool:
    operand = bound.operand
    if operand.kind == "number":
        return "i" in slot.letters or "x" in slot.letters
    if operand.kind == "off":
        return "o" in slot.letters
    if operand.kind == "word":
        return "l" in slot.letters or "x" in slot.letters
    if operand.kind == "special":
        return "s" in slot.letters and len(SPECIAL[operand.text]) == slot.count and operand.text != "scc"
    if operand.kind == "register":
        return operand.text in slot.letters and operand.stop - operand.first == slot.count
    return bound.letter in slot.letters and bound.taken == slot.count


def check_constants(instruction: GcnInstruction, slots: Sequence[Slot], bound: Sequence[Bound]) -> None:
    """A vector instruction reads one scalar register (pair) or one literal."""
    if instruction.unit not in ("vector", "matrix") or instruction.name == "v_writelane_b32":
        return
    found = {name for name in instruction.reads if name == "vcc"}
    for slot, given in zip(slots, bound, strict=True):
        operand = given.operand
        if slot.role == "=":
            continue
        if operand.kind == "special" or "s" in (given.letter, operand.kind == "register" and operand.text):
            found.add(f"{operand.text if given.variable < 0 else given.variable} {operand.first}")
        elif operand.kind == "number" and not _is_inline(operand.text):
            found.add(operand.text)
    if len(found) > 1:
        raise AssemblyError(
            f"{instruction.name!r} reads {len(found)} scalar registers or literals",
            expected="one at most",
            fix="move one to a vector register first",
        )


def check_number(instruction: GcnInstruction, text: str) -> None:
    """AssemblyError for a number that is not in 32 bits, or a float that its type does not hold."""
    try:
        fits = -(1 << 31) <= int(text, 0) < 1 << 32
    except ValueError:
        if text.startswith("src_"):
            return
        most = 1.8e308 if "f64" in instruction.name else 3.4028236e38
        fits = abs(float(text)) < most
    if not fits:
        raise AssemblyError(
            f"{instruction.name!r} cannot hold the number {text}",
            expected="32 bits, or a float that is finite",
        )


def _is_inline(text: str) -> bool:
    try:
        return -16 <= int(text, 0) <= 64
    except ValueError:
        return text in _INLINE


def _say(slot: Slot) -> str:
    words = [_WORDS[letter] for letter in slot.letters]
    return f"{' / '.join(words)}{f' x{slot.count}' if slot.count > 1 else ''}"


def given_words(bound: Bound) -> str:
    operand = bound.operand
    letter, taken = bound.letter, bound.taken
    if operand.kind == "register":
        letter, taken = operand.text, operand.stop - operand.first
    elif operand.kind != "reference":
        return "a number" if operand.kind == "number" else repr(operand.text)
    size = f" x{taken}" if taken > 1 else ""
    return f"{_WORDS.get(letter, 'an unknown variable')}{size}"
