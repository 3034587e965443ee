"""Every kind of plan compiled for every target: nothing spills, there are as many exchanges as planned."""

from dataclasses import replace

import pytest

from regweave import rearrange
from regweave.benchmarks import ROWS
from regweave.emitters import emit_trial
from regweave.layouts import Layout
from regweave.rearrangement import layout


def candidates(family, target):
    """All ways that apply for all rows of a family, planned for a target, by names of kernels."""
    found = {}
    for number, row in enumerate(row for row in ROWS if row.machine.startswith(family)):
        sides = [
            side if isinstance(side, Layout) else layout(side, tile=row.tile)
            for side in (row.source, row.destination)
        ]
        plan = rearrange(*sides, machine=target)
        for index, way in enumerate(way for way in plan.candidates if way.applies):
            found[f"trial_{number}_{index}"] = way
    return found


def compiled(ways, language, target, inspect):
    texts = [
        emit_trial(replace(way.program, name=f"do_{name}"), language, name=name) for name, way in ways.items()
    ]
    return zip(ways.values(), inspect("\n".join(texts), target, *ways), strict=True)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120"])
def test_on_nvidia(target, inspect_cuda):
    for way, listing in compiled(candidates("sm_", target), "cuda", target, inspect_cuda):
        assert listing.count("local") == 0, way.name
        assert listing.count("exchange") == way.cost.exchanges, way.name
        if way.strategy != "shared":
            assert listing.count("shared_store") == listing.count("shared_load") == 0, way.name


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_on_amd(target, inspect_hip):
    for way, listing in compiled(candidates("gfx", target), "hip", target, inspect_hip):
        assert listing.count("local") == 0, way.name
        # a DPP move may become part of the instruction that uses it
        assert listing.count("exchange") <= way.cost.exchanges, way.name
        if way.strategy != "shared":
            assert listing.count("shared_store") == listing.count("shared_load") == 0, way.name
