"""AMD's machines, and the names by which their instructions are found."""

import pytest

from regweave.errors import InputError, UnsupportedError
from regweave.machines.amd import GFX90A, GFX906, GFX942, GFX950, GFX1100, GFX1200, INSTRUCTIONS, MACHINES
from regweave.machines.catalogue import find_instruction, find_layout, find_machine, fragment_names
from regweave.programs.opcodes import OPCODES


@pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))
def test_machines(machine):
    assert find_machine(machine.name) is machine
    assert machine.registers_per_lane == 256
    for name in machine.instructions:
        assert machine.native(name)
        # its mnemonic alone means its own form
        assert machine.name in find_instruction(name.partition(".")[0], machine).support
    assert machine.cost("row_move", "shuffle") == 1
    assert all(machine.cost(name, "convert") >= 1 for name in machine.packings)
    assert machine.opcode_costs.keys() <= OPCODES.keys() >= machine.packings
    assert ("lane_swap" in machine.opcode_costs) == ("permlane16_swap" in machine.exchanges)


def test_facts():
    assert (GFX950.shared_bytes, GFX950.shared_banks) == (160 << 10, 64)
    assert GFX950.cost("pack_f16", "convert") == 1 < GFX942.cost("pack_f16", "convert")
    assert GFX90A.register_class("vector").alignment == 2
    assert not any(name.startswith("v_mfma") for name in GFX906.instructions)
    assert (GFX942.lanes, GFX1100.lanes) == (64, 32)
    # which lanes a 16-byte load serves together
    assert GFX942.shared_phase("load", 16) == (1, 2, 20)
    assert GFX950.shared_phase("load", 16) == (1, 2, 12, 20)
    # a wave of 64 cannot exchange across its halves on RDNA
    assert [name for name, machine in MACHINES.items() if "shuffle" not in machine.exchanges] == [
        "gfx1100_w64",
        "gfx1200_w64",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16"),
        ("v_mfma_f32_32x32x1f32", "v_mfma_f32_32x32x1_2b_f32"),
        ("v_mfma_f32_32x32x4bf16", "v_mfma_f32_32x32x4_bf16"),
        ("v_mfma_f32_32x32x4bf16_1k", "v_mfma_f32_32x32x4_2b_bf16"),
        ("v_mfma_i32_16x16x16i8", "v_mfma_i32_16x16x16_i8"),
        ("v_mfma_f64_4x4x4f64", "v_mfma_f64_4x4x4_4b_f64"),
    ],
)
def test_older_spellings(old, new):
    assert find_layout(f"{old}:D") is find_layout(f"{new}:D")
    assert find_instruction(old).name == new


def test_one_mnemonic_of_several_machines():
    name = "v_mfma_f32_16x16x32_fp8_bf8"
    assert [find_layout(f"{name}:{operand}", GFX942).dtype for operand in "AB"] == ["e4m3fnuz", "e5m2fnuz"]
    assert [find_layout(f"{name}:{operand}", GFX950).dtype for operand in "AB"] == ["e4m3", "e5m2"]
    name = "v_wmma_f32_16x16x16_f16:A"
    assert not find_layout(name, GFX1100).bijective
    assert find_layout(name, GFX1200).bijective
    assert find_layout(name, find_machine("gfx1100_w64")).lanes == 64
    with pytest.raises(UnsupportedError, match=r"gfx1200 has no v_wmma_f32_16x16x16_f16_w64"):
        find_layout("v_wmma_f32_16x16x16_f16_w64:A", GFX1200)


def test_suffixes():
    layout = find_layout("v_mfma_f32_32x32x8f16:D@f16^T")
    assert (layout.name, layout.dtype, layout.axes) == ("v_mfma_f32_32x32x8_f16:D@f16^T", "f16", ("n", "m"))
    assert layout.element(0, 0, 1) == (0, 1)
    assert find_layout("v_wmma_f16_16x16x16_f16:D@f16_hi").registers == 8
    with pytest.raises(InputError, match=r"element type 'f61'.*f16"):
        find_layout("v_mfma_f32_32x32x8_f16:D@f61")


def test_wrong_names():
    with pytest.raises(InputError, match=r"nearest: v_mfma_f32_32x32x8_f16:D"):
        find_layout("v_mfma_f32_32x32x8_f17:D")
    with pytest.raises(InputError, match=r"nearest: v_mfma_f32_32x32x8_f16:A, .*:B, .*:C, .*:D"):
        find_layout("v_mfma_f32_32x32x8f16")
    with pytest.raises(UnsupportedError, match=r"gfx942 has no .*expected one of gfx950.*x8_f16:A"):
        find_layout("v_mfma_f32_32x32x16_f16:A", GFX942)
    with pytest.raises(UnsupportedError, match="out of scope: its A operand is sparse"):
        find_layout("v_smfmac_f32_16x16x32_f16:A")
    with pytest.raises(InputError, match="unknown instruction 'v_mfma_f32_32x32x7f16'"):
        find_instruction("v_mfma_f32_32x32x7f16")


def test_names_are_known_without_making_instructions():
    names = fragment_names(GFX942)
    assert "v_mfma_f32_16x16x8_xf32:A" in names
    assert "v_mfma_f32_16x16x8_xf32:A" not in fragment_names(GFX950)
    assert len(set(names)) == len(names)


def test_every_instruction_keeps_what_its_entry_says():
    for name, entry in INSTRUCTIONS.entries.items():
        made = INSTRUCTIONS[name]
        assert (made.support, made.lanes, set(made.fragments)) == (entry.support, entry.lanes, set("ABCD"))
        for alias in made.aliases:
            assert INSTRUCTIONS.resolve(alias) == name
