"""Which lane a lane takes its operand from: DPP, its controls, and the patterns of `ds_swizzle_b32`.

    >>> moves("row_shr", "1")[0][:4]
    array([-1,  0,  1,  2])

A row is 16 lanes, a bank four of them. -1 stands for no lane.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from regweave.devices.emulator.instructions.words import Source
from regweave.devices.emulator.program import Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.errors import AssemblyError

_LANE = np.arange(64)
_ROW, _IN_ROW = _LANE & ~15, _LANE & 15
#: Controls with the reach within which they move, and by which sign.
_SHIFTS = {"row_shl": (16, 1), "row_shr": (16, -1), "wave_shl": (64, 1), "wave_shr": (64, -1)}
_TURNS = {"row_ror": (16, -1), "wave_rol": (64, 1), "wave_ror": (64, -1)}
CONTROLS = (*_SHIFTS, *_TURNS, "quad_perm", "row_mirror", "row_half_mirror", "row_bcast", "row_newbcast")


def moves(control: str, text: str) -> tuple[np.ndarray, np.ndarray]:
    """For each lane the lane that it takes from (-1: none), and whether the control writes it at all."""
    every = np.ones(64, bool)
    if control == "quad_perm":
        chosen = np.array([int(word) for word in text.strip("[]").split(",")])
        return (_LANE & ~3) + chosen[_LANE & 3], every
    if control == "row_mirror":
        return _ROW + 15 - _IN_ROW, every
    if control == "row_half_mirror":
        return (_LANE & ~7) + 7 - (_LANE & 7), every
    number = int(text, 0)
    if control in _SHIFTS:
        reach, sign = _SHIFTS[control]
        place = (_LANE & reach - 1) + sign * number
        return np.where((place >= 0) & (place < reach), (_LANE & -reach) + place, -1), every
    if control in _TURNS:
        reach, sign = _TURNS[control]
        return (_LANE & -reach) + ((_LANE & reach - 1) + sign * number) % reach, every
    if control == "row_newbcast":
        return _ROW + number, every
    if control == "row_bcast" and number in (15, 31):
        # the last lane of a row (of the first half) goes to all lanes of the next row (half)
        source = (_LANE & -(number + 1)) - 1
        written = _ROW // 16 % 2 == 1 if number == 15 else _LANE >= 32
        return source, written
    raise AssemblyError(f"the control {control}:{text} is unknown", expected=", ".join(CONTROLS))


def masked(rows: str, banks: str) -> np.ndarray:
    """The lanes that a row mask and a bank mask leave on."""
    row, bank = int(rows, 0), int(banks, 0)
    return ((row >> _LANE // 16 & 1) & (bank >> (_LANE & 15) // 4 & 1)) == 1


def swizzle(offset: int) -> np.ndarray:
    """For each lane the lane that `ds_swizzle_b32` with this offset takes from."""
    if offset >> 15 & 1:
        if offset & 0x7F00:
            raise AssemblyError(
                f"swizzle mode {offset:#x} is unknown", expected="a permutation of quads, or masks"
            )
        return (_LANE & ~3) + (offset >> 2 * (_LANE & 3) & 3)
    kept, ones, flipped = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return (_LANE & 32) + ((_LANE & 31 & kept | ones) ^ flipped)


def moved(step: Step, word: Source) -> Source:
    """A source whose lanes DPP moves; nothing else where the step has no such control."""
    control = next((name for name in CONTROLS if name in step.modifiers), None)
    if control is None:
        return word
    taken, _ = moves(control, step.modifiers[control])
    there = taken >= 0

    def read(c: Cohort) -> np.ndarray:
        active = c.lanes
        needed = np.zeros_like(active)
        rows, columns = np.nonzero(active & there & active[:, taken])
        needed[rows, taken[columns]] = True
        kept = c.lanes
        c.lanes = needed  # only lanes that are taken from must hold something
        try:
            value = word(c)
        finally:
            c.lanes = kept
        return np.where(there & active[:, taken], value[:, taken], np.uint32(0))

    return read


def dpp_lanes(step: Step) -> Callable[[Cohort], np.ndarray] | None:
    """The lanes that a DPP instruction writes; None for other instructions."""
    control = next((name for name in CONTROLS if name in step.modifiers), None)
    if control is None:
        return None
    taken, written = moves(control, step.modifiers[control])
    on = written & masked(step.modifiers.get("row_mask", "15"), step.modifiers.get("bank_mask", "15"))
    zeros = "bound_ctrl" in step.modifiers
    there = taken >= 0

    def find(c: Cohort) -> np.ndarray:
        if zeros:
            return c.lanes & on
        return c.lanes & on & there & c.lanes[:, taken]

    return find
