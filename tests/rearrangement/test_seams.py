"""The seams of whole chains, as the fuse verb shows them."""

import pytest

from regweave.errors import InputError, UnsupportedError
from regweave.machines.nvidia import SM_80
from regweave.rearrangement import SeamStrategy, seam_strategy


@pytest.mark.parametrize(("dtype", "strategy"), [("tf32", "fold"), ("f16", "identity"), ("bf16", "identity")])
def test_one_strategy_per_seam(dtype, strategy):
    seams = seam_strategy((192, 384, 192, 64), dtype, "sm_80")
    assert all(isinstance(seam, SeamStrategy) for seam in seams)
    assert [(seam.width, seam.strategy) for seam in seams] == [(384, strategy), (192, strategy)]


def test_reasons_say_what_happens():
    (seam,) = seam_strategy((64, 100, 64), "tf32", SM_80)
    assert "the order 0,2,4,6,1,3,5,7 of every 8" in seam.reason
    assert "width 100 is padded to 104" in seam.reason
    (forced,) = seam_strategy((64, 64, 64), "tf32", "sm_80", strategy="direct")
    assert forced.strategy == "exchange"
    assert "4 exchanges, 8 selects" in forced.reason
    assert forced.plan.rounds == 4


@pytest.mark.parametrize(
    ("widths", "dtype", "words"),
    [
        ((64, 64), "tf32", "has no seam"),
        ((64, 0, 64), "tf32", "widths of at least 1"),
        ((64, 64, 64), "tf23", "no instruction for 'tf23'.*nearest: tf32"),
    ],
)
def test_chains_that_are_none(widths, dtype, words):
    with pytest.raises(InputError, match=words):
        seam_strategy(widths, dtype)


@pytest.mark.parametrize(
    ("dtype", "machine", "strategy"),
    [
        ("f16", "gfx942", "swap"),
        ("bf16", "gfx90a", "swap"),
        ("f64", "gfx942", "swap"),
        ("f64", "sm_80", "fold"),
        ("s8", "sm_80", "fold"),
        ("fp8", "sm_89", "fold"),
    ],
)
def test_machines_and_types_with_native_instructions(dtype, machine, strategy):
    (seam,) = seam_strategy((128, 128, 128), dtype, machine)
    assert seam.strategy == strategy
    assert seam.plan.machine.name == machine


def test_machines_that_lack_the_instruction():
    with pytest.raises(UnsupportedError, match="sm_75"):
        seam_strategy((64, 64, 64), "tf32", "sm_75")
