"""Machines and fragments by name, and descriptions that refuse to be wrong."""

from dataclasses import replace

import pytest

from regweave.errors import InputError, UnsupportedError
from regweave.machines.catalogue import find_instruction, find_layout, find_machine, fragment_names
from regweave.machines.nvidia import (
    INSTRUCTIONS,
    MACHINES,
    SM_70,
    SM_75,
    SM_80,
    SM_89,
    SM_90A,
    SM_100A,
    SM_120,
    SM_120A,
)
from regweave.machines.nvidia.targets import TARGETS, support


def test_machines_by_name():
    assert find_machine("sm_80") is SM_80
    assert tuple(MACHINES) == TARGETS
    assert SM_80.lanes == 32
    assert SM_80.registers_per_lane == 255
    with pytest.raises(InputError, match=r"unknown machine 'sm_81'.*sm_80"):
        find_machine("sm_81")


def test_what_generations_differ_in():
    assert [machine.shared_bytes >> 10 for machine in MACHINES.values()] == [
        96, 64, 163, 99, 99, 227, 227, 99, 99
    ]  # fmt: skip
    assert "pack_bf16" not in SM_75.packings
    assert "pack_e4m3" in SM_89.packings - SM_80.packings
    assert "movmatrix" in SM_75.exchanges - SM_70.exchanges
    assert (SM_80.cost("pack_f16", "convert"), SM_80.cost("pack_s8", "convert")) == (1, 4)


def test_volta_is_known_by_its_layouts_only():
    assert {entry.support["sm_70"] for entry in SM_70.instructions.entries.values()} == {"layout"}
    assert not SM_70.native("mma.m8n8k4.f16")
    with pytest.raises(UnsupportedError, match=r"mma\.m8n8k4\.f16 is known as a layout only on sm_70"):
        SM_70.require_native("mma.m8n8k4.f16")


@pytest.mark.parametrize(
    ("name", "machine", "advice"),
    [
        ("mma.m16n8k32.e4m3", SM_90A, "use wgmma"),
        ("mma.m16n8k64.s4", SM_120, "use mma.m16n8k32.s8"),
        ("mma.m16n8k16.f64", SM_100A, "use mma.m8n8k4.f64"),
        ("mma.m8n8k4.f16", SM_80, "use mma.m16n8k16.f16"),
    ],
)
def test_emulated_instructions_say_what_to_use(name, machine, advice):
    assert not machine.native(name)
    with pytest.raises(UnsupportedError, match=f"emulated by the compiler on {machine.name}.*{advice}"):
        machine.require_native(name)


def test_whatever_is_emulated_has_advice():
    emulated = [entry for entry in INSTRUCTIONS.values() if "emulated" in entry.support.values()]
    assert len(emulated) > 40
    assert [entry.name for entry in emulated if not entry.note] == []


@pytest.mark.parametrize(
    ("mnemonic", "name"),
    [
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.m16n8k8.tf32"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "mma.m16n8k16.f16.f16"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", "mma.m16n8k32.s8.u8"),
        ("mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f16", "mma.m8n8k4.col.row.f16.f32.f16"),
        ("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16", "mma.m16n8k32.e4m3.e5m2.f16"),
        ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e5m2.f32", "mma.m16n8k32.e4m3.e5m2"),
        ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32", "mma.m16n8k32.e3m2.e2m1"),
        ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", "mma.m16n8k256.b1.and"),
        ("wgmma.mma_async.sync.aligned.m64n96k32.f16.e5m2.e4m3", "wgmma.m64n96k32.e5m2.e4m3.f16"),
        ("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc", "wgmma.m64n8k256.b1"),
    ],
)
def test_mnemonics_are_names_too(mnemonic, name):
    assert find_instruction(mnemonic) is INSTRUCTIONS[name]
    assert INSTRUCTIONS[name].mnemonic.split(".")[-3:] == mnemonic.split(".")[-3:]
    assert find_layout(f"{mnemonic}:D") == find_layout(f"{name}:D")


@pytest.mark.parametrize(
    "name",
    ["mma.sp.m16n8k16.f16:A", "mma.sp::ordered_metadata.sync.aligned.m16n8k32", "wgmma.mma_async.sp.sync:A"],
)
def test_sparse_products_are_out_of_scope(name):
    with pytest.raises(UnsupportedError, match=r"out of scope.*dense"):
        find_layout(name)


def test_accumulators_of_wgmma_that_do_not_exist():
    assert "wgmma.m64n40k16.f16" in SM_90A.instructions
    assert "wgmma.m64n40k32.s8" not in SM_90A.instructions  # integers: 8, 24, multiples of 16
    assert "wgmma.m64n24k32.s8" in SM_90A.instructions
    with pytest.raises(UnsupportedError, match=r"sm_100a has no wgmma.*one of sm_90a"):
        find_layout("wgmma.m64n64k16.bf16:D", SM_100A)
    with pytest.raises(UnsupportedError, match=r"sm_120 has no mma\.m16n8k32\.e2m1.*one of sm_120a"):
        find_layout("mma.m16n8k32.e2m1:A", SM_120)
    assert find_layout("mma.m16n8k32.e2m1:A", SM_120A).registers == 4


@pytest.mark.parametrize("levels", [{"native": "81"}, {"native": "80", "emulated": "80 86"}, {"fast": "80"}])
def test_support_is_checked(levels):
    with pytest.raises(InputError):
        support(**levels)


@pytest.mark.parametrize("name", ["mma.m16n8k8.tf23:C", "mma.m16n8k8.tf32:X", "mma.m16n8k8.tf32"])
def test_a_wrong_fragment_lists_the_nearest(name):
    with pytest.raises(InputError) as caught:
        find_layout(name)
    assert caught.value.nearest
    assert set(caught.value.nearest) <= set(fragment_names())


def test_older_machines_lack_instructions():
    assert "mma.m16n8k8.f16:C" in fragment_names(SM_75)
    assert "mma.m16n8k8.tf32:C" not in fragment_names(SM_75)
    assert "ldmatrix.m8n8.x4.b16:r" in fragment_names(SM_75)
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
