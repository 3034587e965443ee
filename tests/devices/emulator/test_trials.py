"""Lane-level programs, compiled by clang for AMD's GPUs and emulated, compute what the programs mean."""

import numpy as np
import pytest
from step_programs import PLAIN, numbers_of, one_step, random_words

from regweave import rearrange
from regweave.devices import emulator
from regweave.errors import InputError, UnsupportedError
from regweave.layouts import Layout, element_type
from regweave.machines.amd.assembly import TARGETS
from regweave.machines.catalogue import find_machine
from regweave.programs import OPCODES, run_program

pytest.importorskip("ziglang")


def emits(program):
    from regweave.emitters import emit_trial

    try:
        emit_trial(program, "hip", name="trial")
    except UnsupportedError:
        return False
    return True


def has(machine, name, numbers):
    if name.startswith("pack"):
        return name in machine.packings
    return name not in ("row_move", "row_permute", "lane_swap", "half_swap", "transpose")


@pytest.mark.parametrize("name", TARGETS)
def test_every_step(name):
    machine, rng = find_machine(name), np.random.default_rng(5)
    runs = []
    for step in PLAIN:
        for numbers in numbers_of(OPCODES[step], 64):
            if not has(machine, step, numbers):
                continue
            program = one_step(step, 64, numbers)
            if emits(program):
                words = random_words(OPCODES[step], (64, program.source.words), rng)
                if step in ("pack_f16", "pack_bf16"):  # which of the NaNs it becomes is left open
                    words[np.isnan(words.view(np.float32))] = 0
                runs.append((program, words))
    assert len(runs) > 30
    for (program, words), found in zip(runs, emulator.execute_all(runs, name), strict=True):
        assert np.array_equal(found, run_program(program, words)), program


PAIRS = {
    "gfx90a": ("v_mfma_f32_32x32x8_f16", "v_mfma_f32_16x16x4_f32", "v_mfma_f64_16x16x4_f64"),
    "gfx942": ("v_mfma_f32_32x32x8_f16", "v_mfma_f32_16x16x8_xf32", "v_mfma_i32_16x16x32_i8"),
}


@pytest.mark.parametrize("strategy", ["direct", "lean", "whole-warp"])
@pytest.mark.parametrize("machine", PAIRS)
def test_plans(machine, strategy):
    """Plans from an accumulator to the next factor: bits of every element arrive where they are needed."""
    runs, wanted = [], []
    rng = np.random.default_rng(1)
    for name in PAIRS[machine]:
        for operand in "AB":
            plan = rearrange(f"{name}:C", f"{name}:{operand}", machine=machine, strategy=strategy)
            program = plan.chosen.program
            words = rng.integers(-100, 100, (64 * program.warps, program.source.words))
            words = words.astype(np.float32 if "f32" in name or "_f16" in name else np.int32).view(np.uint32)
            runs.append((program, words))
            wanted.append(run_program(program, words))
    for (program, _), found, expected in zip(runs, emulator.execute_all(runs, machine), wanted, strict=True):
        assert np.array_equal(found, expected), program.name


@pytest.mark.parametrize(("machine", "dtype"), [("gfx90a", "s8"), ("gfx942", "f16"), ("gfx90a", "s4")])
def test_tables_without_structure(machine, dtype):
    """Selectors of byte permutes are looked up: what stands above their digits must not count."""
    items = 64 // element_type(dtype).bits
    elements, rng = 64 * items, np.random.default_rng(5)
    held, wanted = (
        Layout(name, (64, items), dtype, rng.permutation(elements).reshape(64, items))
        for name in ("held", "wanted")
    )
    program = rearrange(held, wanted, machine=machine, strategy="direct").chosen.program
    words = rng.integers(0, 1 << 32, (64, 2), dtype=np.uint32)
    assert np.array_equal(emulator.execute(program, words, machine), run_program(program, words))


def test_one_program_and_wrong_words():
    plan = rearrange(
        "v_mfma_f32_16x16x4_f32:C", "v_mfma_f32_16x16x4_f32:A", machine="gfx90a", strategy="lean"
    )
    program = plan.chosen.program
    words = np.arange(64 * program.source.words, dtype=np.uint32).reshape(64, -1)
    assert np.array_equal(emulator.execute(program, words, "gfx90a"), run_program(program, words))
    with pytest.raises(InputError, match="words of shape"):
        emulator.execute(program, words[:32], "gfx90a")
    with pytest.raises(InputError, match="cannot be written for 'gfx1100'"):
        emulator.execute(program, words, "gfx1100")
