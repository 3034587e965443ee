"""Registers that M0 chooses while the kernel runs: index mode of vector registers, `s_movrel` of scalar ones.

In index mode M0 is added to the numbers of some operands' registers; each wave has an M0 of its own.

Facts: AMD's "Vega 7nm" manual, "VGPR indexing": the index stands in bits 0 to 7 of M0, the mode in 12 to 15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.devices.emulator.instructions.index_mode import parts
from regweave.devices.emulator.instructions.words import scalar_places, scalar_value
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import PLACES

Array = Any
Action = Callable[[Cohort], None]
_M0 = PLACES["m0"]
_MODES = {"SRC0": 1, "SRC1": 2, "SRC2": 4, "DST": 8}
#: Scalar registers that `s_movrel` may reach.
_SCALARS = 102


def prepare_mode(program: Program, step: Step) -> Action:
    """`s_set_gpr_idx_on`, `_idx`, `_mode`, `_off`: what they do to M0."""
    index = scalar_value(step.operands[0]) if step.name in ("s_set_gpr_idx_on", "s_set_gpr_idx_idx") else None
    words = step.text.partition("gpr_idx(")[2].rstrip(")").replace(" ", "").split(",")
    bits = np.uint32(sum(_MODES.get(word, 0) for word in words) << 12)

    def action(c: Cohort) -> None:
        if step.name == "s_set_gpr_idx_off":
            return
        if step.name == "s_set_gpr_idx_on":
            assert index is not None, "it has an operand"
            c.write_scalar(_M0, index(c) & np.uint32(255) | bits)
        elif index is not None:
            c.write_scalar(_M0, index(c) & np.uint32(255) | c.read_scalar(_M0) & np.uint32(0xFFFFFF00))
        else:
            c.write_scalar(_M0, c.read_scalar(_M0) & np.uint32(0xFFFF0FFF) | bits)

    return action


def prepare_movrel(program: Program, step: Step) -> Action:
    """`s_movrels` reads the register so many behind the named one, `s_movreld` writes it."""
    target, source = scalar_places(step.operands[0]), step.operands[1]
    reads = step.name.startswith("s_movrels")
    places = scalar_places(source) if source.kind != "number" else []
    value = scalar_value(source) if not places else None

    def action(c: Cohort) -> None:
        offset = c.read_scalar(_M0)[:, 0].astype(np.int64)
        base = places if reads else target
        wrong = offset + base[-1] >= _SCALARS
        if wrong.any():
            c.fault(f"reaches beyond s{_SCALARS - 1}: M0 is {int(offset[wrong][0])}", wrong[:, None])
        words = [_gather(c, place, offset) if reads else c.read_scalar(place) for place in places]
        if value is not None:
            words = [value(c), *[np.zeros((c.count, 1), np.uint32)] * (len(target) - 1)]
        for place, word in zip(target, words, strict=True):
            if reads:
                c.write_scalar(place, word)
            else:
                _scatter(c, place, offset, word)

    return action


def _gather(c: Cohort, place: int, offset: Array) -> Array:
    found = np.zeros((c.count, 1), np.uint32)
    for number, part in parts(offset):
        found[part] = c.part(part).read_scalar(place + number)
    return found


def _scatter(c: Cohort, place: int, offset: Array, word: Array) -> None:
    for number, part in parts(offset):
        c.part(part).write_scalar(place + number, word[part])
