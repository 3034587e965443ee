"""What an instruction writes: arrays of a meaning's types, back to registers.

Floats under `clamp` are kept within 0 .. 1 (a NaN becomes 0), `mul` and `div` scale them. A result per lane
goes to the active lanes only; a mask has zeros for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.devices.emulator.instructions.index_mode import write_relative
from regweave.devices.emulator.instructions.sources import bits_in, selection
from regweave.devices.emulator.instructions.words import DTYPES, scalar_places, vector_places
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort, bits_of_lanes
from regweave.devices.emulator.state.registers import PLACES

Array = Any
Result = Callable[[Cohort, Array, Array | None], None]
_U32, _U64 = np.uint32, np.uint64


def make_result(program: Program, step: Step, position: int, kind: str) -> Result:
    """What writes operand `position` of a step as `kind`; called with the values and the lanes to write."""
    operand = step.operands[position]
    if operand.kind == "special" or operand.text == "s":
        places = scalar_places(operand)
        return make_mask_result(places) if kind == "mask" else _scalar(places, kind)
    numbers = vector_places(program, operand)
    finish = _finisher(step, kind)
    part = _part(step, kind)
    relative = position in step.relative

    def write(c: Cohort, value: Array, lanes: Array | None) -> None:
        words = split(finish(value) if finish else value, kind)
        for number, word in zip(numbers, words, strict=True):
            if relative:
                write_relative(c, number, word, lanes, part)
            else:
                c.write(number, part(c, number, word) if part else word, lanes)

    return write


def make_implied(name: str, kind: str) -> Result:
    """What writes a register that the instruction does not name."""
    places = [PLACES[name]] if name in PLACES else [PLACES[f"{name}_lo"], PLACES[f"{name}_hi"]]
    return make_mask_result(places) if kind == "mask" else _scalar(places, kind)


def split(value: Array, kind: str) -> list[Array]:
    """The 32-bit words of values of a type."""
    if kind in ("2f32", "2b32"):
        return list(np.ascontiguousarray(value).view(_U32))
    if kind[0] == "2":
        low, high = np.ascontiguousarray(value).view(np.uint16).astype(_U32)
        return [low | high << _U32(16)]
    if kind == "scc":
        return [np.asarray(value).astype(_U32)]
    dtype = np.dtype(DTYPES[kind])
    value = np.asarray(value, dtype)
    if dtype.itemsize == 8:
        bits = value.view(_U64)
        return [bits.astype(_U32), (bits >> _U64(32)).astype(_U32)]
    return [value.view(_U32) if dtype.itemsize == 4 else value.view(np.uint16).astype(_U32)]


def make_mask_result(places: list[int]) -> Result:
    """What writes one boolean per lane to a pair of scalar registers."""

    def write(c: Cohort, value: Array, lanes: Array | None) -> None:
        words = bits_of_lanes(np.broadcast_to(value, c.lanes.shape) & c.lanes)
        for place, word in zip(places, words.T, strict=True):
            c.write_scalar(place, word[:, None])

    return write


def _scalar(places: list[int], kind: str) -> Result:
    def write(c: Cohort, value: Array, lanes: Array | None) -> None:
        for place, word in zip(places, split(value, kind), strict=True):
            c.write_scalar(place, word)

    return write


def _finisher(step: Step, kind: str) -> Callable[[Array], Array] | None:
    """Scaling and clamping of floats."""
    if "f" not in kind or not {"mul", "div", "clamp"} & step.modifiers.keys():
        return None
    factor = float(step.modifiers.get("mul", 1)) / float(step.modifiers.get("div", 1))
    clamp = "clamp" in step.modifiers

    def finish(value: Array) -> Array:
        one = value.dtype.type
        value = value * one(factor) if factor != 1 else value
        return np.where(value > 0, np.minimum(value, one(1)), one(0)) if clamp else value

    return finish


def _part(step: Step, kind: str) -> Callable[[Cohort, int, Array], Array] | None:
    """Where a result is only a part of its register: what the register becomes."""
    if "dst_sel" in step.modifiers and step.modifiers["dst_sel"] != "DWORD":
        first, width = selection(step.modifiers["dst_sel"])
        rest = step.modifiers.get("dst_unused", "UNUSED_PRESERVE")
    elif kind in ("f16", "u16", "i16") and step.instruction.keeps:
        high = bits_in(step.modifiers.get("op_sel", ""))
        first, width = (16 if len(high) == len(step.operands) and high[-1] else 0), 16
        rest = "UNUSED_PRESERVE"
    else:
        return None
    mask = _U32((1 << width) - 1 << first)

    def place(c: Cohort, number: int, word: Array) -> Array:
        moved = word << _U32(first) & mask
        if rest == "UNUSED_PAD":
            return moved
        if rest == "UNUSED_SEXT":
            sign = _U32(1 << width - 1)
            return ((word & (mask >> _U32(first)) ^ sign) - sign) << _U32(first)
        old = c.registers.values[number, c.waves]
        return moved | old & ~mask

    return place
