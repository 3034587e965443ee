"""How long a wave keeps its unit busy with an instruction: clocks for issue, as an estimate.

    >>> table = make_table("gfx906")
    >>> issue_clocks(table["v_fma_f32"], "gfx906"), issue_clocks(table["v_exp_f32"], "gfx906")
    (4, 16)

A vector unit has 16 lanes, so that a wave of 64 takes four clocks, or four times as many where the unit does
a quarter of the work per clock (special functions, 32-bit integer products). f64 runs at half rate on gfx906
and at full rate from gfx90a on. A matrix instruction takes four clocks per pass. Waiting is not counted.

Facts: the rates in AMD's "Vega 7nm", "MI200" and "MI300" manuals and product descriptions.
"""

from __future__ import annotations

import re

from regweave.machines.amd.assembly.table import GcnInstruction

_WAVE = 4
_QUARTER = re.compile(r"v_mul_(lo|hi)_[ui]32$|v_mad_[ui]64_[ui]32|v_(rcp|rsq|sqrt)_f64")
_DOUBLE = re.compile(r"v_(\w+_)?f64$")


def issue_clocks(instruction: GcnInstruction, machine: str) -> int:
    """Clocks for which `instruction` occupies its unit on `machine`."""
    if instruction.unit == "matrix":
        return _WAVE * instruction.passes
    if instruction.unit != "vector":
        return _WAVE
    if instruction.transcendental or _QUARTER.match(instruction.name):
        return 4 * _WAVE
    if _DOUBLE.match(instruction.name) and machine == "gfx906":
        return 2 * _WAVE
    return _WAVE
