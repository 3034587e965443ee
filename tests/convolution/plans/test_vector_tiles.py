"""Tiles for vectors that a compiler writes: the measured best, or near it, of whole sweeps."""

import pytest

from regweave import plan_conv

#: shape, weights, stride, padding -> tiles within 10 % of the best of all, timed with AVX2 on a Zen 3.
CASES = {
    "3->16": ((1, 3, 1080, 1920), (16, 3, 3, 3), 1, 1, "none", {(3, 1, 4), (1, 2, 4), (2, 1, 4), (2, 1, 6)}),
    "8->8": ((1, 8, 1080, 1920), (8, 8, 3, 3), 1, 1, "none", {(3, 1, 4), (1, 2, 4), (2, 1, 4)}),
    "7x7": ((1, 3, 224, 224), (64, 3, 7, 7), 2, 3, "polyphase", {(2, 1, 4), (2, 1, 5), (1, 2, 5), (2, 1, 6)}),
    "64->64": ((1, 64, 56, 56), (64, 64, 3, 3), 1, 1, "polyphase", {(1, 2, 5), (1, 4, 3), (1, 2, 4)}),
    "32->32": ((1, 32, 512, 512), (32, 32, 3, 3), 1, 1, "polyphase", {(3, 1, 4), (3, 1, 3)}),
    "5x5": ((1, 1, 4096, 4096), (1, 1, 5, 5), 1, 2, "none", {(2, 4, 1), (2, 3, 1), (3, 3, 1), (2, 5, 1)}),
}


@pytest.mark.parametrize("name", CASES)
def test_with_16_registers_tiles_are_among_the_fastest(name):
    shape, weights, stride, padding, form, tiles = CASES[name]
    plan = plan_conv(shape, weights, stride, padding, machine="opencl-avx2")
    assert plan.form == form
    assert plan.outputs_per_thread in tiles
