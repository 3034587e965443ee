"""The fragments of single-block instructions against the layouts that Triton's attributes stand for."""

import numpy as np
import pytest

from regweave.machines.amd import INSTRUCTIONS
from regweave.machines.catalogue import find_layout

TYPES = {"e4m3fnuz": "f8E4M3FNUZ", "e5m2fnuz": "f8E5M2FNUZ", "e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}
TYPES |= {"f16": "f16", "bf16": "bf16", "s8": "i8", "f32": "f32", "tf32": "f32", "s32": "i32"}
SINGLE = [
    name
    for name in INSTRUCTIONS
    if name.startswith("v_mfma") and "b_" not in name and "f64" not in name and not name.endswith(".e2m1")
]


@pytest.mark.parametrize("name", SINGLE)
def test_mfma(name):
    entry = INSTRUCTIONS[name]
    version = 4 if "gfx950" in entry.support else 3
    parent = (
        f"#ttg.amd_mfma<{{version = {version}, warpsPerCTA = [1, 1], "
        f"instrShape = [{entry.m}, {entry.n}, {entry.k}], isTransposed = false}}>"
    )
    # f8f6f4 takes two runs of 16
    width = min(16, entry.fragments["A"].items)
    for operand, layout in entry.fragments.items():
        attribute = parent
        if operand in "AB":
            attribute = f"#ttg.dot_op<{{opIdx = {'AB'.index(operand)}, parent = {parent}, kWidth = {width}}}>"
        rows, columns = layout.shape
        theirs = find_layout(f"tensor<{rows}x{columns}x{TYPES[layout.dtype]}, {attribute}>")
        assert np.array_equal(theirs.table, layout.table), operand


def test_how_many_they_are():
    assert len(SINGLE) == 40
