"""The catalogue against LLVM's assembler: every mnemonic assembles where it is listed, and nowhere else.

One file per machine holds one instruction per line; the assembler names the lines that it refuses. It needs a
clang for amdgcn, which the package ziglang brings.
"""

import importlib.util
import re
import subprocess
import sys

import pytest

from regweave.machines.amd import INSTRUCTIONS, MACHINES

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs ziglang")

# names that dense products have, or could have, on any target
TYPES = ("f32", "f16", "bf16", "bf16_1k", "i8", "f64", "xf32", "fp8_fp8", "fp8_bf8", "bf8_fp8", "bf8_bf8")
ABSENT = ("instruction not supported on this GPU", "invalid instruction")
SHAPES = [(32, 2), (16, 4), (4, 16), (4, 4), (32, 1), (16, 1)]
KNOWN = (
    {
        f"v_mfma_{result}_{side}x{side}x{k}_{f'{blocks}b_' if blocks > 1 else ''}{dtype}"
        for result, types in (("f32", TYPES), ("i32", ("i8",)), ("f64", ("f64",)))
        for dtype in types
        for side, blocks in SHAPES
        for k in (1, 2, 4, 8, 16, 32, 64, 128)
    }
    | {f"v_mfma_{scale}f32_{size}_f8f6f4" for scale in ("", "scale_") for size in ("16x16x128", "32x32x64")}
    | {
        f"v_wmma_{result}_16x16x{k}_{dtype}"
        for result in ("f32", "f16", "bf16", "i32")
        for dtype in ("f16", "bf16", "iu8", "iu4", "fp8_fp8", "fp8_bf8", "bf8_fp8", "bf8_bf8")
        for k in (16, 32, 64)
    }
    | {
        f"v_dot{k}{c}_{result}_{dtype}"
        for k in (2, 4, 8)
        for c in ("", "c")
        for result in ("f32", "f16", "bf16", "i32", "u32")
        for dtype in ("f16", "bf16", "i16", "u16", "i8", "u8", "i4", "u4")
    }
)


def refused(lines, machine, tmp_path):
    """{line: the assembler's reason} of those lines that it refuses for a machine."""
    cpu, _, wide = machine.partition("_")
    source = tmp_path / f"{machine}.s"
    source.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "ziglang", "clang", "--target=amdgcn-amd-amdhsa", f"-mcpu={cpu}"]
    command += ["-mwavefrontsize64"] * bool(wide) + ["-c", str(source), "-o", str(tmp_path / "out.o")]
    result = subprocess.run(command, capture_output=True, text=True)
    reasons = {lines[int(at) - 1]: why for at, why in re.findall(r"s:(\d+):\d+: error: (.*)", result.stderr)}
    assert reasons or result.returncode == 0, result.stderr
    return reasons


def line(entry, machine, mnemonic=None):
    """One line with registers of the right number for each operand, in the spelling of the machine."""
    if mnemonic is None:
        # the spellings of CDNA 3 are unknown to older machines
        mnemonic = entry.aliases[0] if machine in ("gfx908", "gfx90a") and entry.aliases else entry.mnemonic
    start, texts = 0, []
    for operand in "DAB":
        count = entry.fragments[operand].registers
        # gfx908 accumulates in registers of their own only
        kind = "a" if operand == "D" and machine == "gfx908" and "mfma" in mnemonic else "v"
        texts.append(f"{kind}[{start}:{start + count - 1}]" if count > 1 else f"{kind}{start}")
        start += 32
    if not re.match(r"v_dot\dc", mnemonic):
        texts.append(texts[0])
    text = f"{mnemonic} {', '.join(texts)}"
    if "_scale_" in mnemonic:
        text += ", v96, v97"
    if entry.name.endswith(".e2m1"):
        text += " cbsz:4 blgp:4"
    return text


@pytest.mark.parametrize("machine", MACHINES)
def test_listed_mnemonics_assemble_with_registers_of_their_sizes(machine, tmp_path):
    entries = MACHINES[machine].instructions.values()
    lines = [line(entry, machine) for entry in entries]
    lines += [line(entry, machine, alias) for entry in entries for alias in entry.aliases]
    assert len(lines) > 5
    assert refused(lines, machine, tmp_path) == {}


@pytest.mark.parametrize("machine", MACHINES)
def test_other_mnemonics_do_not_assemble(machine, tmp_path):
    """The assembler knows what it cannot do for a machine from what has wrong operands: that is a hole."""
    own = MACHINES[machine].instructions
    listed = {name for entry in own.values() for name in (entry.mnemonic, *entry.aliases)}
    others = {entry.mnemonic for entry in INSTRUCTIONS.values()} | KNOWN
    others -= listed
    if machine == "gfx1200_w64":  # the catalogue says why
        others.remove("v_wmma_i32_16x16x16_iu4")
    if machine.startswith("gfx1"):  # dot products are listed for waves of 64 only
        others = {name for name in others if not name.startswith("v_dot")}
    reasons = refused([f"{name} v0, v1, v2, v3" for name in sorted(others)], machine, tmp_path)
    absent = {text.split()[0] for text, why in reasons.items() if why.startswith(ABSENT)}
    assert others - absent == set()


def test_the_check_sees_holes(tmp_path):
    lines = ["v_mfma_f32_32x32x8_f16 v0, v1, v2, v3", "v_mfma_f32_32x32x9_f16 v0, v1, v2, v3"]
    seen = refused(lines, "gfx942", tmp_path)
    assert [seen[text].startswith(ABSENT) for text in lines] == [False, True]


@pytest.mark.parametrize("machine", MACHINES)
def test_builtins_are_known_to_the_compiler(machine, tmp_path):
    names = sorted({entry.builtin for entry in MACHINES[machine].instructions.values()})
    assert "__builtin_amdgcn_bogus" not in names
    source = tmp_path / "builtins.c"
    lines = [
        f'#if !__has_builtin({name})\n#warning "{name}"\n#endif'
        for name in (*names, "__builtin_amdgcn_bogus")
    ]
    source.write_text("\n".join(lines) + "\n")
    cpu, _, wide = machine.partition("_")
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "clang",
        "-x",
        "c",
        "--target=amdgcn-amd-amdhsa",
        f"-mcpu={cpu}",
    ]
    command += ["-mwavefrontsize64"] * bool(wide) + ["-nogpulib", "-fsyntax-only", str(source)]
    printed = subprocess.run(command, capture_output=True, text=True).stderr
    assert re.findall(r'warning: "(\w+)"', printed) == ["__builtin_amdgcn_bogus"], printed
