"""Scalar and vector instructions: operands to their meaning, results to registers.

`prepare` makes of each step a function of a cohort, once, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.assembly.amd.lines import Operand
from regweave.devices.emulator.instructions import fp8
from regweave.devices.emulator.instructions.indexing import prepare_mode, prepare_movrel
from regweave.devices.emulator.instructions.lanes import dpp_lanes
from regweave.devices.emulator.instructions.results import make_implied, make_result
from regweave.devices.emulator.instructions.sources import make_source
from regweave.devices.emulator.instructions.words import (
    Source,
    make_mask,
    scalar_places,
    scalar_value,
    vector_places,
)
from regweave.devices.emulator.program import Program, Step
from regweave.devices.emulator.state.cohort import Cohort
from regweave.devices.emulator.state.registers import LANES, PLACES
from regweave.errors import UnsupportedError
from regweave.machines.amd.assembly.meanings import all_meanings

Array = Any
Action = Callable[[Cohort], None]
#: Modifiers that change what is computed, and that are understood.
_UNDERSTOOD = (
    "clamp", "mul", "div", "op_sel", "op_sel_hi", "neg_lo", "neg_hi", "row_mask", "bank_mask", "bound_ctrl",
    "quad_perm", "row_shl", "row_shr", "row_ror", "wave_shl", "wave_rol", "wave_shr", "wave_ror",
    "row_mirror", "row_half_mirror",
    "row_bcast", "row_newbcast", "dst_sel", "dst_unused", "src0_sel", "src1_sel",
)  # fmt: skip


def prepare_arithmetic(program: Program, step: Step) -> Action:
    """The action of a scalar or vector instruction. UnsupportedError if it is not emulated."""
    special = _SPECIAL.get(step.name)
    if special is not None:
        return special(program, step)
    entry = all_meanings().get(step.name) or fp8.MEANINGS.get(step.name)
    unknown = [word for word in step.modifiers if word not in _UNDERSTOOD]
    if entry is None or unknown:
        why = f"with {unknown[0]!r} " if unknown else ""
        raise UnsupportedError(f"{step} {why}is not emulated", where=program.name)
    instruction = step.instruction
    implied = dict(zip(_implied(instruction), entry.implied, strict=True))
    sources: list[Source] = []
    results = []
    for position, (slot, kind) in enumerate(zip(step.slots, entry.types, strict=True)):
        if slot.role != "=":
            sources.append(make_source(program, step, position, kind))
        if slot.role:
            results.append(make_result(program, step, position, kind))
    sources += [_implied_source(name, implied[name]) for name in instruction.reads]
    results += [make_implied(name, implied[name]) for name in instruction.writes]
    function = entry.function
    integer = "clamp" in step.modifiers and "f" not in entry.types[0]
    if integer:
        if entry.limited is None:
            raise UnsupportedError(f"{step} under clamp is not emulated", where=program.name)
        function = entry.limited
    lanes = dpp_lanes(step)
    if len(results) == 1:
        (result,) = results

        def one(c: Cohort) -> None:
            result(c, function(*[source(c) for source in sources]), lanes(c) if lanes else None)

        return one

    def several(c: Cohort) -> None:
        chosen = lanes(c) if lanes else None
        values = function(*[source(c) for source in sources])
        for result, value in zip(results, values, strict=True):
            result(c, value, chosen)

    return several


def _implied(instruction: Any) -> list[str]:
    """Registers that an instruction touches without naming them, in the order of the row."""
    return list(dict.fromkeys((*instruction.writes, *instruction.reads)))


def _implied_source(name: str, kind: str) -> Source:
    if kind == "mask":
        return make_mask(Operand("special", name))
    if kind == "scc":
        return lambda c: c.read_scalar(PLACES["scc"]) != 0
    low, high = scalar_places(Operand("special", name))

    def pair(c: Cohort) -> Array:
        return c.read_scalar(low).astype(np.uint64) | c.read_scalar(high).astype(np.uint64) << np.uint64(32)

    return pair


def _nothing(program: Program, step: Step) -> Action:
    return lambda c: None


def _read_first(program: Program, step: Step) -> Action:
    """The lowest active lane's value; lane 0's if none is active."""
    (number,) = vector_places(program, step.operands[1])
    (place,) = scalar_places(step.operands[0])

    def action(c: Cohort) -> None:
        first = np.argmax(c.lanes, axis=1)
        c.write_scalar(place, _one_lane(c, number, first))

    return action


def _one_lane(c: Cohort, number: int, lane: Array) -> Array:
    needed = np.zeros((c.count, LANES), bool)
    needed[np.arange(c.count), lane] = True
    return c.read(number, needed)[np.arange(c.count), lane][:, None]


def _read_lane(program: Program, step: Step) -> Action:
    (number,) = vector_places(program, step.operands[1])
    (place,) = scalar_places(step.operands[0])
    lane = scalar_value(step.operands[2])

    def action(c: Cohort) -> None:
        c.write_scalar(place, _one_lane(c, number, lane(c)[:, 0] & np.uint32(LANES - 1)))

    return action


def _write_lane(program: Program, step: Step) -> Action:
    """Writes one lane, active or not."""
    (number,) = vector_places(program, step.operands[0])
    value, lane = (scalar_value(operand) for operand in step.operands[1:])

    def action(c: Cohort) -> None:
        mask = np.zeros((c.count, LANES), bool)
        mask[np.arange(c.count), lane(c)[:, 0] & np.uint32(LANES - 1)] = True
        c.write(number, value(c), mask)

    return action


_SPECIAL: dict[str, Callable[[Program, Step], Action]] = {
    **dict.fromkeys(("s_movrels_b32", "s_movrels_b64", "s_movreld_b32", "s_movreld_b64"), prepare_movrel),
    **dict.fromkeys([f"s_set_gpr_idx_{word}" for word in ("on", "idx", "mode", "off")], prepare_mode),
    "v_nop": _nothing,
    "s_sleep": _nothing,
    "s_setprio": _nothing,
    "s_icache_inv": _nothing,
    "v_readfirstlane_b32": _read_first,
    "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
}
