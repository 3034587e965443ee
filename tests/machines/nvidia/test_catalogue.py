"""Machines and fragments by name, and descriptions that refuse to be wrong."""

from dataclasses import replace

import pytest

from regweave.errors import InputError, UnsupportedError
from regweave.machines.catalogue import find_layout, find_machine, fragment_names
from regweave.machines.nvidia import (
    INSTRUCTIONS,
    MACHINES,
    SM_75,
    SM_80,
    SM_90A,
    SM_100A,
    SM_120,
)


def test_machines_by_name():
    assert find_machine("sm_80") is SM_80
    assert set(MACHINES.values()) == {SM_75, SM_80, SM_90A, SM_100A, SM_120}
    assert SM_80.lanes == 32
    assert SM_80.registers_per_lane == 255
    with pytest.raises(InputError, match=r"unknown machine 'sm_81'.*sm_80"):
        find_machine("sm_81")


@pytest.mark.parametrize(
    "name", ["mma.m16n8k8.tf23:C", "mma.m16n8k8.tf32:X", "mma.m16n8k8.tf32", "nonsense", ""]
)
def test_a_wrong_fragment_lists_the_nearest(name):
    with pytest.raises(InputError) as caught:
        find_layout(name)
    assert caught.value.nearest
    assert set(caught.value.nearest) <= set(fragment_names())


def test_older_machines_lack_instructions():
    assert "mma.m16n8k8.f16:C" in fragment_names(SM_75)
    assert "mma.m16n8k8.tf32:C" not in fragment_names(SM_75)
    with pytest.raises(UnsupportedError, match=r"sm_75 has no mma\.m16n8k8\.tf32.*one of sm_80"):
        find_layout("mma.m16n8k8.tf32:C", SM_75)
    with pytest.raises(UnsupportedError, match=r"sm_80 has no instruction 'mma\.m16n8k9'"):
        SM_80.instruction("mma.m16n8k9")
    assert SM_80.instruction("mma.m16n8k8.tf32").mnemonic.startswith("mma.sync.aligned.m16n8k8")


def test_instructions_validate_themselves():
    entry = INSTRUCTIONS["mma.m16n8k8.tf32"]
    with pytest.raises(InputError, match="operand A"):
        replace(entry, k=16)
    with pytest.raises(InputError, match="operands"):
        replace(entry, fragments={"A": entry.fragments["A"]})
    with pytest.raises(InputError, match="operand B"):
        replace(entry, fragments={**entry.fragments, "B": entry.fragments["A"]})


def test_machines_validate_themselves():
    with pytest.raises(InputError, match="cannot have"):
        replace(SM_75, instructions=INSTRUCTIONS)
    with pytest.raises(InputError, match="spread over 32 lanes"):
        replace(SM_80, lanes=64)
    with pytest.raises(InputError, match="cost shuffle"):
        replace(SM_80.costs, shuffle=0)
