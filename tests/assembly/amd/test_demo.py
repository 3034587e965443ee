"""The product of the demo: 2,000 instructions, and no register more than its values need."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from regweave.machines.amd.assembly import TARGETS, GcnMachine

DEMO = Path(__file__).parents[3] / "demo" / "gcn_product.py"


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_two_thousand_instructions(machine: GcnMachine):
    finished = runpy.run_path(str(DEMO))["kernel"](machine).finish()
    assert len(finished.operations) > 2000
    assert finished.used == finished.bound
    loop = finished.inner_loop()
    assert loop is not None
    assert loop["fma_share"] > 0.9
    assert loop["nops"] == 0
