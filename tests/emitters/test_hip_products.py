"""AMD's matrix instructions: each is one instruction of the machines that have it, whatever it multiplies."""

import pytest

from regweave.devices import hip
from regweave.emitters import emit
from regweave.errors import UnsupportedError
from regweave.machines.catalogue import find_machine
from regweave.machines.nvidia import INSTRUCTIONS
from regweave.programs import Memory, ProgramBuilder


def kernel(instruction, name, lanes):
    """A kernel that multiplies once, on operands that it loads."""
    fragments = instruction.fragments
    memories = [Memory("x", "global", 1 << 20), Memory("y", "global", 1 << 20)]
    builder = ProgramBuilder(name, lanes, memories=memories, instructions=[instruction])
    at = builder.step("shift_left", (builder.step("lane"), builder.constant(2)))
    operands = []
    for operand in "ABC":
        for _ in range(fragments[operand].registers):
            (word,) = builder.load("x", at, 4, 4 * lanes * len(operands))
            operands.append(builder.step("number", (word,)) if fragments[operand].dtype == "f32" else word)
    for index, value in enumerate(builder.apply("matrix", operands, (), instruction.name)):
        word = builder.step("bits", (value,)) if value.type == "f32" else value
        builder.store("y", at, [word], 4, 4 * lanes * index)
    return emit(builder.finish(), "hip")


@pytest.mark.parametrize(
    "name", ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1200_w64"]
)
def test_every_instruction_is_one_instruction(name, inspect_hip):
    machine = find_machine(name)
    known = [key for key in machine.instructions if machine.native(key)]
    names = [f"product{number}" for number in range(len(known))]
    texts = [
        kernel(machine.instructions[key], own, machine.lanes) for key, own in zip(known, names, strict=True)
    ]
    listings = inspect_hip("\n".join(texts), name, *names)
    for key, listing in zip(known, listings, strict=True):
        assert listing.count("matrix") == 1, (key, listing.mnemonics)
        assert listing.count("local") == 0, key


def test_what_another_vendor_has_is_refused():
    with pytest.raises(UnsupportedError, match=r"mma.m16n8k8.tf32 is not written in HIP C\+\+"):
        kernel(INSTRUCTIONS["mma.m16n8k8.tf32"], "product", 32)
    machine = find_machine("gfx942")
    assert "__builtin_amdgcn_mfma_f32_16x16x16f16(" in kernel(
        machine.instruction("v_mfma_f32_16x16x16_f16"), "p", 64
    )
    assert hip.unsupported_reason() is None or "amdgpu" in hip.unsupported_reason()
