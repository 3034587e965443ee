"""The collector rests while plans are made, and only then."""

import gc

import pytest

import regweave
from regweave import InputError
from regweave.rearrangement import planner


@pytest.fixture
def collector():
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_left_as_it_was(on, monkeypatch):
    (gc.enable if on else gc.disable)()
    seen = []

    def proved(*arguments):
        seen.append(gc.isenabled())

    monkeypatch.setattr(planner, "prove_candidate", proved)
    regweave.rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A")
    assert seen == [False]
    assert gc.isenabled() is on
    with pytest.raises(InputError):
        regweave.rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="none")
    assert gc.isenabled() is on
