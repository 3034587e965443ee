"""Every row of the tables is an instruction that LLVM assembles, and reads back as what was written."""

from __future__ import annotations

import re

import pytest
from gcn_samples import samples

from regweave.devices.hip.disassembler import disassemble, unsupported_reason
from regweave.devices.hip.objects import assemble, machine_code
from regweave.errors import AssemblyError
from regweave.machines.amd.assembly import GFX90A, GFX906, GFX942, GcnMachine
from regweave.machines.amd.assembly.hazards import hazards_of
from regweave.machines.amd.assembly.table import make_table
from regweave.machines.amd.assembly.timing import issue_clocks

pytest.importorskip("ziglang")


def normal(line: str) -> list[str]:
    """An instruction's words: without the encoding's suffix, numbers as numbers, without what is not said."""
    line = re.sub(r"^(\w+?)_(e32|e64|dpp|sdwa)\b", r"\1", line)
    line = line.replace("bound_ctrl:1", "bound_ctrl:0")  # one bit under two names
    line = re.sub(r"0x[0-9a-f]+|\b\d+\b", lambda m: str(int(m[0], 0)), line)
    return [word for word in re.split(r"[\s,]+", line) if word]


@pytest.mark.parametrize("machine", [GFX906, GFX90A, GFX942], ids=lambda m: m.name)
def test_every_row_assembles_and_reads_back(machine: GcnMachine):
    lines = samples(machine)
    assert len(lines) > 1000
    code = machine_code(assemble("target:\n" + "\n".join(lines) + "\n", machine.target_id, link=False))
    if unsupported_reason(machine.name):
        pytest.skip(str(unsupported_reason(machine.name)))
    back = disassemble(code, machine.name)
    assert len(back) == len(lines)
    wrong = [
        (line, read)
        for line, read in zip(lines, back, strict=True)
        if "target" not in line and normal(line) != normal(read)
    ]
    assert not wrong
    branches = [(line, read) for line, read in zip(lines, back, strict=True) if "target" in line]
    assert all(line.split()[0] == read.split()[0] for line, read in branches)


def test_what_one_machine_has_and_another_lacks():
    with pytest.raises(
        AssemblyError,
        match=r"gfx906 has no instruction 'v_pk_fma_f32'.*v_pk_fma_f16.*gfx90a and gfx942 have it",
    ):
        make_table("gfx906")["v_pk_fma_f32"]
    assert "v_mad_f32" not in make_table("gfx942")
    assert make_table("gfx942")["v_add_f32_e64"] is make_table("gfx942")["v_add_f32"]


def test_matrix_instructions_have_the_machines_spelling_and_passes():
    old, new = make_table("gfx90a")["v_mfma_f32_32x32x8_f16"], make_table("gfx942")["v_mfma_f32_32x32x8f16"]
    assert (old.mnemonic, old.passes) == ("v_mfma_f32_32x32x8f16", 16)
    assert (new.mnemonic, new.passes, new.fast) == ("v_mfma_f32_32x32x8_f16", 8, True)


@pytest.mark.parametrize(
    ("machine", "instruction", "states"),
    [
        ("gfx90a", "v_mfma_f32_32x32x2_f32", 19),
        ("gfx90a", "v_mfma_f32_16x16x4_f32", 11),
        ("gfx90a", "v_mfma_f32_4x4x1_16b_f32", 5),
        ("gfx942", "v_mfma_f32_32x32x2_f32", 18),
        ("gfx942", "v_mfma_f32_16x16x4_f32", 10),
        ("gfx942", "v_mfma_f32_4x4x1_16b_f32", 4),
        ("gfx942", "v_mfma_f32_32x32x8_f16", 11),
        ("gfx942", "v_mfma_f32_16x16x16_f16", 7),
    ],
)
def test_distances_from_a_matrix_result_to_its_reader_are_the_measured_ones(machine, instruction, states):
    entry = make_table(machine)[instruction]
    about = {"passes": entry.passes, "double": entry.double, "fast": entry.fast}
    assert hazards_of(machine).after_matrix("read", memory=False, **about) == states


@pytest.mark.parametrize(
    ("numbers", "waves"),
    [({"vectors": 24}, 10), ({"vectors": 25}, 9), ({"vectors": 64}, 4), ({"vectors": 65}, 3),
     ({"vectors": 4, "scalars": 80}, 10), ({"vectors": 4, "scalars": 81}, 9),
     ({"vectors": 4, "scalars": 97}, 8)],
)  # fmt: skip
def test_occupancy_of_gfx906(numbers, waves):
    assert GFX906.occupancy(**numbers) == waves


@pytest.mark.parametrize(
    ("machine", "name", "clocks"),
    [
        ("gfx906", "v_fma_f32", 4),
        ("gfx906", "v_exp_f32", 16),
        ("gfx906", "v_fma_f64", 8),
        ("gfx90a", "v_fma_f64", 4),
        ("gfx942", "v_mul_lo_u32", 16),
        ("gfx942", "v_mfma_f32_32x32x8_f16", 32),
        ("gfx906", "s_mov_b32", 4),
    ],
)
def test_clocks_for_issue(machine, name, clocks):
    assert issue_clocks(make_table(machine)[name], machine) == clocks


def test_accumulators_share_the_file_from_a_multiple_of_four():
    assert GFX90A.registers_in_file(30, 32) == 64
    assert GFX90A.registers_in_file(33, 32) == 72
    assert GFX90A.occupancy(vectors=33, accumulators=32) == 7
    assert GFX90A.vector_limit(7) == 72
