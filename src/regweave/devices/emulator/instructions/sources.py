"""Operands that an instruction reads: from registers or numbers to arrays of the type that its meaning wants.

-v3         of type f32:   values[3] as floats, negated         [waves, 64]
s4          of type u32:   scalars[4]                           [waves, 1]
v2          of type 2f16:  its halves, as op_sel says           [2, waves, 64]
1.0         of type f16:   its bits in f16                      [1, 1]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.assembly.amd.lines import Operand
from regweave.devices.emulator.instructions.index_mode import read_relative
from regweave.devices.emulator.instructions.lanes import moved
from regweave.devices.emulator.instructions.words import (
    DTYPES,
    Source,
    make_mask,
    number_bits,
    scalar_places,
    vector_places,
)
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.errors import UnsupportedError

Array = Any
_SIGN = {16: 1 << 15, 32: 1 << 31, 64: 1 << 63}
_SELECTIONS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16),
               "WORD_1": (16, 16), "DWORD": (0, 32)}  # fmt: skip


def bits_in(text: str) -> list[int]:
    """The numbers in a modifier's brackets: `[0,1]`."""
    return [int(word) for word in text.strip("[]").split(",") if word]


def selection(word: str) -> tuple[int, int]:
    """First bit and width of a part of a register: `BYTE_1` is (8, 8)."""
    if word not in _SELECTIONS:
        raise UnsupportedError(f"the part {word!r} of a register is unknown", expected=", ".join(_SELECTIONS))
    return _SELECTIONS[word]


def _words(program: Program, operand: Operand) -> list[Source]:
    """The registers of an operand, each as a source of 32-bit words."""
    if operand.kind == "register" and operand.text in "va":
        return [lambda c, number=number: c.read(number) for number in vector_places(program, operand)]
    return [lambda c, place=place: c.read_scalar(place) for place in scalar_places(operand)]


def make_source(program: Program, step: Step, position: int, kind: str) -> Source:
    """What reads operand `position` of a step as `kind`."""
    operand = step.operands[position]
    if kind == "mask":
        return make_mask(operand)
    index = position - sum(bool(slot.role) for slot in step.slots)
    if operand.kind == "number":
        words = _number_words(step, operand, kind, index)
    else:
        words = _words(program, operand)
        if position in step.relative and operand.text == "v":
            words = [read_relative(number) for number in vector_places(program, operand)]
        if index == 0:
            words = [moved(step, word) for word in words]
        if f"src{index}_sel" in step.modifiers:
            words = [_selected(step, index, position in step.signed, words[0])]
    return _typed(step, operand, index, kind, words)


def _number_words(step: Step, operand: Operand, kind: str, index: int) -> list[Source]:
    if kind in ("2f32", "2b32"):
        bits = number_bits(operand.text, "f32")
        # repeated or extended by their sign, 0 and -1 are the same in both halves
        if _halves(step, index, 1) != (0, 0) and bits not in (0, 0xFFFFFFFF):
            raise UnsupportedError(
                f"{step} takes a number for both halves of a pair: what the high half gets is not documented",
                fix="move it to registers first, or let op_sel_hi choose the low half",
            )
        both = np.full((1, 1), bits, np.uint32)
        return [lambda c: both] * 2
    single = {"mix": "f32", "2f16": "f16", "2u16": "u32", "2i16": "u32"}.get(kind, kind)
    if kind == "mix" and _halves(step, index, 0)[1]:
        single = "f16"
    bits = number_bits(operand.text, single)
    parts = [bits & 0xFFFFFFFF, bits >> 32]
    arrays = [np.full((1, 1), part, np.uint32) for part in parts]
    return [lambda c, array=array: array for array in arrays]


def _selected(step: Step, index: int, signed: bool, word: Source) -> Source:
    """A part of a register, extended with zeros or its sign."""
    first, width = selection(step.modifiers[f"src{index}_sel"])

    def read(c: Cohort) -> Array:
        bits = word(c) >> np.uint32(first)
        if width == 32:
            return bits
        bits = bits & np.uint32((1 << width) - 1)
        if signed:
            sign = np.uint32(1 << width - 1)
            bits = (bits ^ sign) - sign
        return bits

    return read


def _halves(step: Step, index: int, high: int) -> tuple[int, int]:
    """Which half of operand `index` the low and the high half of the result take."""
    chosen = []
    for name, default in (("op_sel", 0), ("op_sel_hi", high)):
        bits = bits_in(step.modifiers.get(name, ""))
        chosen.append(bits[index] if 0 <= index < len(bits) else default)
    return chosen[0], chosen[1]


def _flips(step: Step, index: int) -> tuple[bool, bool]:
    """Whether the low and the high half are negated."""
    found = []
    for name in ("neg_lo", "neg_hi"):
        bits = bits_in(step.modifiers.get(name, ""))
        found.append(bool(bits[index]) if 0 <= index < len(bits) else False)
    return found[0], found[1]


def _typed(step: Step, operand: Operand, index: int, kind: str, words: list[Source]) -> Source:
    """The registers of an operand as an array of a type, with the signs that are written around it."""
    if kind[0] in "248":
        return _packed(step, index, kind, words)
    if kind == "mix":
        low, high = _halves(step, index, 0)
        kind, low = ("f16", low) if high else ("f32", 0)
        read = _plain(words, kind, low)
        inner = _signs(operand, kind, read)
        return lambda c: inner(c).astype(np.float32)
    half = _halves(step, index, 0)[0] if kind in ("f16", "u16", "i16") else 0
    return _signs(operand, kind, _plain(words, kind, half))


def _plain(words: list[Source], kind: str, half: int) -> Source:
    dtype = DTYPES[kind]
    width = 8 * np.dtype(dtype).itemsize
    if width == 64:
        low, high = words[0], words[1]

        def read(c: Cohort) -> Array:
            return (low(c).astype(np.uint64) | high(c).astype(np.uint64) << np.uint64(32)).view(dtype)

        return read
    (word,) = words[:1]
    if width == 32:
        return word if dtype is np.uint32 else lambda c: word(c).view(dtype)
    return lambda c: (word(c) >> np.uint32(16 * half)).astype(np.uint16).view(dtype)


def _signs(operand: Operand, kind: str, read: Source) -> Source:
    """Minus and absolute value, on the sign bit."""
    negated, absolute = _around(operand)
    if not (negated or absolute):
        return read
    dtype = np.dtype(DTYPES[kind])
    word = np.dtype(f"u{dtype.itemsize}").type
    sign = word(_SIGN[8 * dtype.itemsize])

    def signed(c: Cohort) -> Array:
        bits = read(c).view(word)
        bits = bits & ~sign if absolute else bits
        return (bits ^ sign if negated else bits).view(dtype)

    return signed


def _around(operand: Operand) -> tuple[bool, bool]:
    before = operand.before
    return before.startswith(("-", "neg(")), "|" in before or "abs(" in before


def _packed(step: Step, index: int, kind: str, words: list[Source]) -> Source:
    count, part = int(kind[0]), kind[1:]
    if part in ("f32", "b32"):
        return _pair(step, index, words, np.float32 if part == "f32" else np.uint32)
    if count == 2:
        halves, flips, dtype = _halves(step, index, 1), _flips(step, index), DTYPES[part]

        def read(c: Cohort) -> Array:
            word = words[0](c)
            found = [(word >> np.uint32(16 * half)).astype(np.uint16) for half in halves]
            found = [x ^ np.uint16(0x8000) if flip else x for x, flip in zip(found, flips, strict=True)]
            return np.stack(found).view(dtype)

        return read
    width = 32 // count
    shifts = np.arange(0, 32, width, dtype=np.uint32)[:, None, None]
    ones, sign = np.uint32((1 << width) - 1), np.int32(1 << width - 1)

    def digits(c: Cohort) -> Array:
        found = (words[0](c) >> shifts & ones).astype(np.int32)
        return (found ^ sign) - sign if part[0] == "i" else found

    return digits


def _pair(step: Step, index: int, words: list[Source], dtype: Any) -> Source:
    halves, flips = _halves(step, index, 1), _flips(step, index)

    def read(c: Cohort) -> Array:
        found = [words[half](c) for half in halves]
        found = [x ^ np.uint32(_SIGN[32]) if flip else x for x, flip in zip(found, flips, strict=True)]
        return np.stack(found).view(dtype)

    return read
