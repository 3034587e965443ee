"""HIP C++: every step compiles to the instruction that it stands for, and the bytes are the right ones."""

import re
from dataclasses import replace

import numpy as np
import pytest
from step_programs import PLAIN, numbers_of, one_step

from regweave import rearrange
from regweave.devices import hip
from regweave.emitters import emit, emit_trial
from regweave.errors import DeviceError, UnsupportedError
from regweave.machines.catalogue import find_machine
from regweave.programs import OPCODES, Array, Memory, ProgramBuilder, run_program

MACHINES = ("gfx906", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1100_w64", "gfx1200", "gfx1200_w64")
# the instruction that a step must be, by its beginning
EXPECTED = {
    "shuffle": "ds_bpermute_b32",
    "row_move": "v_mov_b32_dpp",
    "row_permute": "v_permlane",
    "lane_swap": "v_permlane",
    "half_swap": "v_permlane64_b32",
    "byte_permute": "v_perm_b32",
    "select": "v_",
    "pack_e4m3": "v_cvt_",
    "pack_e5m2": "v_cvt_",
}
# the first DPP_CTRL number beyond each pattern
DPP_PATTERNS = (
    (0x100, "quad_perm"),
    (0x130, "row_ror"),
    (0x141, "row_mirror"),
    (0x142, "row_half_mirror"),
    (0x160, "row_share"),
    (0x170, "row_xmask"),
)


def has(machine, name, numbers):
    """Whether the machine has what a step needs."""
    if name.startswith("pack"):
        return name in machine.packings
    if name == "lane_swap":
        return f"permlane{numbers[0]}_swap" in machine.exchanges
    if name == "row_move":
        word = next(word for end, word in DPP_PATTERNS if numbers[0] < end)
        return f"dpp_{word}" in machine.exchanges
    if name == "row_permute":
        return ("permlanex16" if numbers[2] else "permlane16") in machine.exchanges
    return (
        name not in ("half_swap", "shuffle")
        or {"half_swap": "permlane64"}.get(name, name) in machine.exchanges
    )


@pytest.mark.parametrize("name", MACHINES)
def test_every_step_is_the_instruction_that_it_stands_for(name, inspect_hip):
    machine = find_machine(name)
    texts, wanted = [], {}
    for step in PLAIN:
        for numbers in numbers_of(OPCODES[step], machine.lanes):
            if step == "transpose" or not has(machine, step, numbers):
                continue
            program = replace(one_step(step, machine.lanes, numbers), name=f"function{len(texts)}")
            kernel = f"trial{len(texts)}"
            texts.append(emit_trial(program, "hip", name=kernel))
            wanted[kernel] = EXPECTED.get(step)
    assembly = hip.compile_text("\n".join(texts), name)
    for kernel, beginning in wanted.items():
        listing = hip.read_gcn(assembly, kernel)
        assert listing.count("local") == 0
        if beginning is not None:
            assert any(found.startswith(beginning) for found in listing.mnemonics), (
                kernel,
                listing.mnemonics,
            )


def permuted(selectors):
    """A program that permutes the bytes of two words by each of these kinds of selector."""
    builder = ProgramBuilder(
        "permuted", 64, Array("source", "b32", 3), Array("destination", "b32", len(selectors))
    )
    words = [builder.word(index) for index in range(3)]
    lane = builder.step("lane")
    made = {
        "constant": lambda: builder.constant(0x7250),
        "choice": lambda: builder.step(
            "select",
            (builder.step("test", (lane,), (2,)), builder.constant(0x1047), builder.constant(0x6352)),
        ),
        "combined": lambda: builder.step(
            "xor",
            (
                builder.step(
                    "select", (builder.step("test", (lane,), (4,)), *map(builder.constant, (0x4444, 0)))
                ),
                builder.constant(0x3210),
            ),
        ),
        "computed": lambda: words[2],
    }
    return builder.finish([builder.step("byte_permute", (*words[:2], made[kind]())) for kind in selectors])


def amd_perm(high, low, selector):
    """v_perm_b32 as the ISA says: byte 0 to 3 of the selector's bytes are the second operand's."""
    both = [(word >> np.uint32(8 * byte)) & np.uint32(255) for word in (low, high) for byte in range(4)]
    chosen = [np.choose((selector >> np.uint32(8 * byte)) & np.uint32(7), both) for byte in range(4)]
    return sum((byte.astype(np.uint32) << np.uint32(8 * place)) for place, byte in enumerate(chosen))


def spread(digits):
    return sum((digits >> np.uint32(4 * place) & np.uint32(15)) << np.uint32(8 * place) for place in range(4))


@pytest.mark.parametrize("kind", ["constant", "choice", "combined", "computed"])
def test_bytes_are_numbered_as_the_instruction_does(kind):
    program = permuted([kind])
    rng = np.random.default_rng(3)
    words = rng.integers(0, 1 << 32, (64, 3), dtype=np.uint32)
    words[:, 2] = rng.choice(np.uint32([0x0123, 0x7654, 0x5140]), 64)
    text = emit(program, "hip")
    names = {f"s{index}": words[:, index] for index in range(3)}
    names["lane"] = np.arange(64, dtype=np.uint32)
    for name, value in re.findall(r"const bool (\w+) = (.*);", text):
        names[name] = eval(re.sub(r"(\d)u\b", r"\1", value), {}, names)
    high, low, selector = re.search(r"v\d+ = __builtin_amdgcn_perm\((\w+), (\w+), (.*)\);", text).groups()
    names |= {"regweave_spread": spread, "where": np.where, "word": np.uint32}
    selector = re.sub(r"\((\w+) \? (\w+) : (\w+)\)", r"where(\1, \2, \3)", selector)
    selector = re.sub(r"\b(0x[0-9a-f]+|\d+)u\b", r"word(\1)", selector)
    found = amd_perm(names[high], names[low], eval(selector, {}, names))
    assert np.array_equal(found[:, None] if found.ndim == 1 else found, run_program(program, words))


def test_selectors_that_are_known_cost_nothing(inspect_hip):
    assert "regweave_spread(s" not in emit(permuted(["constant", "choice", "combined"]), "hip")
    listing = inspect_hip(emit_trial(permuted(["constant", "constant"]), "hip"), "gfx942")
    assert listing.count("byte_permute") == 1  # of two equal steps
    assert not any(name.startswith("v_lshl") and "b32" not in name for name in listing.mnemonics)


def test_four_floats_become_one_word_by_two_conversions(inspect_hip):
    builder = ProgramBuilder("narrow", 64, Array("source", "f32", 4), Array("destination", "b32", 1))
    words = [builder.word(index) for index in range(4)]
    upper = builder.step("pack_e4m3", (*words[2:], builder.constant(0)))
    program = builder.finish([builder.step("pack_e4m3", (*words[:2], upper))])
    text = emit(program, "hip")
    outer = text[text.index("unsigned v", text.index("cvt_pk_fp8")) :]
    assert re.search(r"\(regweave_within\(s2.*\(s3.*cvt_pk_fp8_f32\(.*\(s0.*\(s1.*0, false\), true\)", outer)
    listing = inspect_hip(emit_trial(program, "hip"), "gfx950")
    assert listing.count("convert") == 2
    assert not any(
        name.startswith(("v_lshl", "v_or", "v_perm")) and "add" not in name
        for name in listing.mnemonics[4:-2]
    )


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200"])
def test_shared_memory_and_barriers(target, inspect_hip):
    machine = find_machine(target)
    arrays = Array("source", "b32", 4), Array("destination", "b32", 4)
    tile = Memory("tile", "shared", 64 * machine.lanes)
    builder = ProgramBuilder("through", machine.lanes, *arrays, [tile])
    lane = builder.step("lane")
    at = builder.step("shift_left", (lane, builder.constant(4)))
    there = builder.step("xor", (at, builder.constant(16)))
    builder.store("tile", at, [builder.word(index) for index in range(4)], 16)
    builder.barrier("warp")
    program = builder.finish([*builder.load("tile", there, 8), *builder.load("tile", there, 8, 8)])
    listing = inspect_hip(emit_trial(program, "hip"), target)
    assert listing.count("shared_store") == 1
    assert 1 <= listing.count("shared_load") <= 2
    assert listing.count("barrier") == listing.count("local") == 0  # one wavefront needs none


def test_a_barrier_of_the_block(inspect_hip):
    memories = [Memory("tile", "shared", 512), Memory("out", "global", 512)]
    builder = ProgramBuilder("block", 64, memories=memories, warps=2)
    at = builder.step("shift_left", (builder.step("thread"), builder.constant(2)))
    builder.store("tile", at, [at], 4)
    builder.barrier("block")
    builder.store("out", at, builder.load("tile", builder.step("xor", (at, builder.constant(256))), 4), 4)
    listing = inspect_hip(emit(builder.finish(), "hip"), "gfx942", "block")
    assert listing.count("barrier") == 1


def test_the_signature_is_documented(golden):
    plan = rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="direct")
    golden("tf32_direct.hip", plan.emit("hip"))
    golden("tf32_direct.cl", plan.emit("opencl"))


def test_what_is_wrong_is_said(inspect_hip):
    with pytest.raises(DeviceError, match=r"clang refuses the text: .*error:"):
        hip.compile_text("void f(", "gfx942")
    with pytest.raises(DeviceError, match="clang refuses the text"):
        hip.compile_text("", "gfx123456")
    with pytest.raises(DeviceError, match="no kernel 'missing'"):
        hip.inspect("", "gfx942", "missing")
    with pytest.raises(UnsupportedError, match=r"HIP C\+\+ has no word for transpose"):
        emit(one_step("transpose", 64, ()), "hip")


def test_without_the_compiler_the_fix_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"pip install 'regweave\[amdgpu\]'"):
        hip.compile_text("", "gfx942")
