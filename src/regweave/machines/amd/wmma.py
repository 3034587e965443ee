"""The WMMA instructions of gfx11 and gfx12, for waves of 32 and of 64 lanes.

On gfx11 every lane holds a whole row of A (column of B), and lanes 16 to 31 must repeat what lanes 0 to 15
hold; rows of the result alternate between the halves of the wave. gfx12 repeats nothing: k and the rows of
the result are split over the halves. Both use one mnemonic; as with the compiler's intrinsics, the forms for
64 lanes end in `_w64` and those of gfx12 in `_gfx12`. On a machine the mnemonic alone means its own form.

16-bit results of gfx11 take one half of a register each and leave the other half alone; which one is the
modifier op_sel. Their type is `f16_lo`; `:D@f16_hi` is the other half, in the same slots. The signs of `iu8`
and `iu4` are modifiers too: `:A@u8` is the unsigned operand.

Not here: `v_wmma_i32_16x16x16_iu4` of 64 lanes on gfx12, whose operands leave half of the lanes empty, the
sparse `v_swmmac`, and the larger shapes of gfx1250.
"""

from __future__ import annotations

from functools import partial

from regweave.machines.coordinates import fragment
from regweave.machines.gpu import MatrixInstruction
from regweave.machines.ondemand import Entry

# gfx11: ending of the name, k, types of A and B, type of C and D
_TYPES_11 = {
    "f32_16x16x16_f16": (16, "f16", "f16", "f32"),
    "f32_16x16x16_bf16": (16, "bf16", "bf16", "f32"),
    "f16_16x16x16_f16": (16, "f16", "f16", "f16_lo"),
    "bf16_16x16x16_bf16": (16, "bf16", "bf16", "bf16_lo"),
    "i32_16x16x16_iu8": (16, "s8", "s8", "s32"),
    "i32_16x16x16_iu4": (16, "s4", "s4", "s32"),
}
_TYPES_12 = _TYPES_11 | {
    "f16_16x16x16_f16": (16, "f16", "f16", "f16"),
    "bf16_16x16x16_bf16": (16, "bf16", "bf16", "bf16"),
    "i32_16x16x32_iu4": (32, "s4", "s4", "s32"),
    "f32_16x16x16_fp8_fp8": (16, "e4m3", "e4m3", "f32"),
    "f32_16x16x16_fp8_bf8": (16, "e4m3", "e5m2", "f32"),
    "f32_16x16x16_bf8_fp8": (16, "e5m2", "e4m3", "f32"),
    "f32_16x16x16_bf8_bf8": (16, "e5m2", "e5m2", "f32"),
}

# by lanes: bits of lane and item of the result
_RESULT_11 = {32: ("n0-3 m0", "m1-3"), 64: ("n0-3 m0-1", "m2-3")}
_RESULT_12 = {32: ("n0-3 m3", "m0-2"), 64: ("n0-3 m3 m2", "m0-1")}
# gfx12: by lanes, then by bits of an element and k: bits of lane and item above those of the row or column
_INPUT_12 = {
    32: {
        (16, 16): ("k2", "k0-1 k3"),
        (8, 16): ("k3", "k0-2"),
        (4, 16): ("k3", "k0-2"),
        (4, 32): ("k4", "k0-3"),
    },
    64: {(16, 16): ("k2-3", "k0-1"), (8, 16): ("k3 k2", "k0-1"), (4, 32): ("k4 k3", "k0-2")},
}
_BITS = {"f16": 16, "bf16": 16, "s8": 8, "e4m3": 8, "e5m2": 8, "s4": 4}


def wmma_entries(generation: int, lanes: int) -> dict[str, Entry[MatrixInstruction]]:
    """The entries of gfx11 or gfx12 for waves of 32 or 64 lanes."""
    end = "_w64" if lanes == 64 else ""
    support = {f"gfx{generation}00{end}": "native"}
    end += "_gfx12" if generation == 12 else ""
    entries = {}
    for ending, (k, a, b, result) in (_TYPES_11 if generation == 11 else _TYPES_12).items():
        if generation == 12 and (_BITS[a], k) not in _INPUT_12[lanes]:
            continue
        mnemonic = f"v_wmma_{ending}"
        make = partial(_instruction, mnemonic, mnemonic + end, generation, lanes, k, (a, b, result), support)
        entries[mnemonic + end] = Entry(support, lanes, make, "ABCD")
    return entries


def _instruction(
    mnemonic: str,
    name: str,
    generation: int,
    lanes: int,
    k: int,
    types: tuple[str, str, str],
    support: dict[str, str],
) -> MatrixInstruction:
    forms = {}
    for operand, letter, dtype in (("A", "m", types[0]), ("B", "n", types[1])):
        if generation == 11:
            forms[operand] = dtype, f"{letter}0-3" + " -" * (lanes // 32), "k0-3"
        else:
            lane, item = _INPUT_12[lanes][_BITS[dtype], k]
            forms[operand] = dtype, f"{letter}0-3 {lane}", item
    builtin = f"__builtin_amdgcn_{mnemonic.removeprefix('v_')}_w{lanes}" + "_gfx12" * (generation == 12)
    result = (_RESULT_11 if generation == 11 else _RESULT_12)[lanes]
    forms["C"] = forms["D"] = types[2], *result
    fragments = {
        operand: fragment(f"{name}:{operand}", operand, (16, 16, k), *form) for operand, form in forms.items()
    }
    return MatrixInstruction(name, mnemonic, 16, 16, k, support, fragments, builtin=builtin)
