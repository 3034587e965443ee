"""What each target does with each instruction, read from SASS: the assembler also checks register counts."""

import re

import pytest

from regweave.machines.nvidia import INSTRUCTIONS, LAYOUTS, MACHINES

TARGETS = [name for name in MACHINES if name != "sm_70"]  # no current compiler writes for Volta
MMA = [name for name in INSTRUCTIONS if name.startswith("mma")]
WGMMA = [name for name in INSTRUCTIONS if name.startswith("wgmma")]
# opcodes that a native product does not need
EXCESS = {
    "CALL",
    "SHFL",
    "PRMT",
    "LOP3",
    "SHF",
    "SEL",
    "F2F",
    "F2FP",
    "I2F",
    "HADD2",
    "HMUL2",
    "MOVM",
    "POPC",
}
SAMPLE = {
    "sm_75": ("mma.m16n8k8.f16", "mma.m8n8k16.s8", "mma.m8n8k4.f16", "mma.m8n8k4.row.row.f16.f16"),
    "sm_80": ("mma.m16n8k16.bf16", "mma.m16n8k8.tf32", "mma.m16n8k64.s4", "mma.m8n8k4.f16"),
    "sm_90a": ("mma.m16n8k16.f64", "mma.m16n8k32.e4m3", "mma.m16n8k256.b1.and", "mma.m16n8k256.b1.xor",
               "wgmma.m64n40k16.f16", "wgmma.m64n24k32.s8.u8"),
    "sm_100a": ("mma.m16n8k16.f64", "mma.m8n8k16.s8", "mma.m16n8k16.f16.f16"),
    "sm_120a": ("mma.m16n8k32.e5m2.f16", "mma.m16n8k32.e4m3.e2m1", "mma.m16n8k64.e2m1.mxf4",
                "mma.m8n8k32.u4"),
}  # fmt: skip
ABSENT = (("mma.m16n8k8.tf32", "sm_75"), ("mma.m16n8k4.f64", "sm_80"), ("mma.m16n8k32.e2m1", "sm_120"))
MOVEMENTS = {
    "sm_75": {"ldmatrix.m8n8.x4.trans.b16:r": "LDSM", "movmatrix.m8n8.trans.b16:d": "MOVM"},
    "sm_100a": {"ldmatrix.m16n16.x2.trans.b8:r": "LDSM", "stmatrix.m16n8.x4.trans.b8:r": "STSM",
                "tcgen05.ld.16x256b.x4:r": "LDTM", "tcgen05.st.16x32bx2.x8:r": "STTM"},
}  # fmt: skip
_F8 = (
    "{{.reg .b16 n, l, h; cvt.rn.satfinite.{}x2.f32 n, %2, %1; mov.b32 {{l, h}}, %3; mov.b32 %0, {{n, l}};}}"
)
PACKINGS = {
    "pack_f16": ("cvt.rn.f16x2.f32 %0, %2, %1;", "float", "f", "F2FP"),
    "pack_bf16": ("cvt.rn.bf16x2.f32 %0, %2, %1;", "float", "f", "F2FP"),
    **{
        f"pack_{kind}": (f"cvt.pack.sat.{kind}.s32.b32 %0, %2, %1, %3;", "unsigned", "r", "I2IP")
        for kind in ("s8", "u8", "s4", "u4")
    },
    **{
        f"pack_{kind}": (f"cvt.pack.sat.{kind}.s32 %0, %2, %1;", "unsigned", "r", "I2IP")
        for kind in ("s16", "u16")
    },
    **{f"pack_{kind}": (_F8.format(kind), "float", "f", "F2FP") for kind in ("e4m3", "e5m2", "e3m2", "e2m3")},
    "pack_e2m1": (  # a byte: what stands above it is put there by a permute
        "{.reg .b8 n; .reg .b16 l; cvt.rn.satfinite.e2m1x2.f32 n, %2, %1; "
        "mov.b16 l, {n, 0}; mov.b32 %0, {l, 0};}",
        "float",
        "f",
        "F2FP",
    ),
}


def level(entry, opcodes):
    """`native` if the opcodes hold one product of the entry's own shape and nothing in excess."""
    products = [opcode for opcode in opcodes if re.match(r"[A-Z]*MMA\.", opcode)]
    shape = f"{entry.m}{entry.n}{entry.k}"
    # `.8x8x4` and `.884` are two ways to write one shape, scales come before it
    own = [p for p in products if re.sub(r"(?<=\d)x(?=\d)", "", p).replace(".SF", "").split(".")[1] == shape]
    # Turing executes Volta's product in steps
    steps = {p.rpartition(".")[2] for p in own if ".STEP" in p}
    once = len(own) == 1 or len(own) == len(steps) > 0
    excess = EXCESS & names(opcodes)
    return "native" if once and own == products and not excess else "emulated"


def names(opcodes):
    return {opcode.split(".")[0] for opcode in opcodes}


def mnemonic(name):
    return next(text for text, short in LAYOUTS.aliases.items() if short == name).rpartition(":")[0]


def levels(chosen, target, sass, instruction_kernel):
    """What the compiler makes of the instructions called so, all in one module: name -> level."""
    code = "".join(instruction_kernel(INSTRUCTIONS[name], f"k{at}") for at, name in enumerate(chosen))
    compiled = sass(code, target)
    return {name: level(INSTRUCTIONS[name], compiled[f"k{at}"]) for at, name in enumerate(chosen)}


def packing_kernel(packing):
    text, kind, constraint, _ = PACKINGS[packing]
    return f"""
extern "C" __global__ void {packing}(const {kind} *x, const unsigned *above, unsigned *y) {{
    unsigned r;
    asm("{text}" : "=r"(r)
        : "{constraint}"(x[threadIdx.x]), "{constraint}"(x[threadIdx.x + 32]), "r"(above[threadIdx.x]));
    y[threadIdx.x] = r;
}}"""


@pytest.mark.parametrize("target", SAMPLE)
def test_a_sample_of_instructions(target, sass, instruction_kernel):
    found = levels(SAMPLE[target], target, sass, instruction_kernel)
    assert found == {name: INSTRUCTIONS[name].support[target] for name in SAMPLE[target]}


@pytest.mark.parametrize(("name", "target"), ABSENT)
def test_the_assembler_refuses_what_is_absent(name, target, sass, instruction_kernel):
    assert target not in INSTRUCTIONS[name].support
    assert sass(instruction_kernel(INSTRUCTIONS[name], "product"), target) is None


@pytest.mark.parametrize("target", MOVEMENTS)
def test_a_sample_of_movements(target, sass, movement_kernel):
    chosen = MOVEMENTS[target]
    kernels = [
        movement_kernel(mnemonic(name), LAYOUTS[name].registers, f"k{at}") for at, name in enumerate(chosen)
    ]
    compiled = sass("".join(kernels), target)
    for at, (name, opcode) in enumerate(chosen.items()):
        assert target in LAYOUTS.entries[name].support
        assert opcode in names(compiled[f"k{at}"])


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_100a", "sm_120a"])
def test_listed_packings_are_one_instruction(target, sass):
    elsewhere = {"pack_e2m1b8", *(("pack_f16",) if target == "sm_75" else ())}  # more than one
    packings = sorted(MACHINES[target].packings - elsewhere)
    compiled = sass("".join(packing_kernel(packing) for packing in packings), target)
    for packing in packings:
        assert [text.split(".")[0] for text in compiled[packing]].count(PACKINGS[packing][3]) == 1, packing
        assert not EXCESS - {"F2FP"} & names(compiled[packing]), packing


def test_turing_packs_halves_in_three_steps(sass):
    code = """
extern "C" __global__ void pack(const float *x, unsigned *y) {
    unsigned r;
    asm("{.reg .f16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h};}"
        : "=r"(r) : "f"(x[threadIdx.x]), "f"(x[threadIdx.x + 32]));
    y[threadIdx.x] = r;
}"""
    opcodes = [text.split(".")[0] for text in sass(code, "sm_75")["pack"]]
    assert (opcodes.count("F2F"), opcodes.count("PRMT")) == (2, 1)
    assert MACHINES["sm_75"].cost("pack_f16", "convert") == 2 * 4 + 1


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_mma_is_what_the_catalogue_says(target, sass, instruction_kernel):
    listed = {name: INSTRUCTIONS.entries[name].support.get(target) for name in MMA}
    found = levels([name for name in MMA if listed[name]], target, sass, instruction_kernel)
    for name in (name for name in MMA if not listed[name]):
        refused = sass(instruction_kernel(INSTRUCTIONS[name], "product"), target) is None
        found[name] = None if refused else "accepted"
    assert found == listed


@pytest.mark.slow
def test_every_wgmma_is_native_on_hopper(sass, instruction_kernel):
    found = levels(WGMMA, "sm_90a", sass, instruction_kernel)
    assert {name for name in WGMMA if found[name] != "native"} == set()


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_movement_is_where_the_catalogue_says(target, sass, movement_kernel):
    for name, entry in LAYOUTS.entries.items():
        if name.startswith("tcgen05") and target != "sm_100a" and ".x1:" not in name:
            continue  # one of each shape is enough where none exists
        compiled = sass(movement_kernel(mnemonic(name), LAYOUTS[name].registers, "move"), target)
        assert (compiled is not None) == (target in entry.support), name


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_packings_that_are_not_listed_are_refused(target, sass):
    for packing in PACKINGS.keys() - MACHINES[target].packings:
        assert sass(packing_kernel(packing), target) is None, packing
