"""Every instruction of the tables is emulated, or named with the reason why not."""

import re

import pytest
from gcn_samples import samples

from regweave.devices.emulator.instructions.preparing import prepare
from regweave.devices.emulator.program import Program, read_steps
from regweave.errors import UnsupportedError
from regweave.machines.amd.assembly import TARGETS
from regweave.machines.amd.assembly.meanings import WITHOUT, Meaning, all_meanings
from regweave.machines.amd.assembly.table import make_table


def program_of(lines, machine):
    return Program("all", machine, read_steps(lines, machine), 1024, (), 0, (64, 1, 1), 0, (), 0)


@pytest.mark.parametrize("machine", TARGETS.values(), ids=lambda m: m.name)
def test_every_row(machine):
    reached = set()
    for line in samples(machine):
        if "s_set_gpr_idx" in line:
            continue  # index mode reaches over lines
        if line.startswith("v_pk_") and line.partition(" ")[0].endswith(("_f32", "mov_b32")):
            line = re.sub(r", 2\b", ", 0", line)  # what the high half gets of 2 is not documented
        program = program_of(["target:", line], machine)
        (step,) = program.steps
        if step.name in WITHOUT:
            with pytest.raises(UnsupportedError, match="is not emulated"):
                prepare(program, step)
            continue
        decides = step.instruction.control is not None or step.name == "s_barrier"
        assert (prepare(program, step) is None) == decides, line
        reached.add(step.instruction.mnemonic)
    everything = {entry.mnemonic for entry in make_table(machine.name).values()}
    modes = {name for name in everything if name.startswith("s_set_gpr_idx")}
    assert everything - reached - WITHOUT.keys() - modes == set()


def test_meanings_fit_their_rows():
    """One type per operand, and one per register that is touched without being named."""
    tables = [make_table(name) for name in TARGETS]
    for name, entry in all_meanings().items():
        assert isinstance(entry, Meaning)
        rows = [table[name] for table in tables if name in table]
        assert rows, f"{name} is in no table"
        for row in rows:
            assert all(len(slots) == len(entry.types) for slots in row.signatures), name
            assert len({*row.reads, *row.writes}) == len(entry.implied), name


def test_reasons_are_of_instructions_that_there_are():
    tables = [make_table(name) for name in TARGETS]
    assert all(any(name in table for table in tables) for name in WITHOUT)
    assert not WITHOUT.keys() & all_meanings().keys()


def test_numbers_in_both_halves_of_a_pair():
    """0 and -1 are the same however the machine makes a pair of them; of others that is not documented."""
    machine = TARGETS["gfx90a"]
    for number in ("0", "-1"):
        program = program_of([f"v_pk_mov_b32 v[8:9], {number}, {number}"], machine)
        assert prepare(program, program.steps[0]) is not None
    program = program_of(["v_pk_mul_f32 v[8:9], v[2:3], 2.0 op_sel_hi:[1,0]"], machine)
    assert prepare(program, program.steps[0]) is not None
    program = program_of(["v_pk_mul_f32 v[8:9], v[2:3], 2.0"], machine)
    with pytest.raises(UnsupportedError, match="the high half gets is not documented"):
        prepare(program, program.steps[0])
