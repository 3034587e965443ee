"""The MFMA instructions of gfx908, gfx90a, gfx942 and gfx950: 64 lanes, one to sixteen blocks.

A lane holds one row of A (one column of B) of one block, and as many consecutive k as the 64 lanes leave
over: for 32x32x8 f16 lanes 0 to 31 hold k = 0..3 and lanes 32 to 63 hold k = 4..7. The 8-bit forms of f8f6f4
take two runs of 16 instead of one of 32, half of all k apart. Accumulators stand in groups of four rows which
go around the lanes before the next group of registers begins; f64 has groups of one row.

Names are those of the CDNA3 manual; older spellings (`v_mfma_f32_32x32x8f16`, `..bf16_1k`) are aliases. The
types that f8f6f4 takes are chosen by modifiers, for A and B apart: the plain name stands for 8-bit elements,
`.e2m1` for 4-bit ones, which lie differently. Six-bit elements, packed 32 in six registers, fit no slot of
this library and are left out, as are the sparse `v_smfmac`. The 8-bit floats of gfx942 are not those of
gfx950: `e4m3fnuz` and `e5m2fnuz` have no infinities and no negative zero. Those forms end in `.fnuz`; on
gfx942 the mnemonic alone means them.
"""

from __future__ import annotations

from functools import partial

from regweave.layouts import element_type
from regweave.machines.coordinates import fragment, span
from regweave.machines.gpu import MatrixInstruction
from regweave.machines.ondemand import Entry

_ALL = ("gfx908", "gfx90a", "gfx942", "gfx950")
_SINCE_90A, _SINCE_942 = _ALL[1:], _ALL[2:]

# accumulators by (m, blocks): bits of lane and item; f64 apart
_ACCUMULATORS = {
    (32, 1): ("n0-4 m2", "m0-1 m3-4"),
    (32, 2): ("n0-4 m2", "m0-1 m3-4 b0"),
    (16, 1): ("n0-3 m2-3", "m0-1"),
    (16, 4): ("n0-3 m2-3", "m0-1 b0-1"),
    (4, 16): ("n0-1 b0-3", "m0-1"),
}
_F64_ACCUMULATORS = {(16, 1): ("n0-3 m0-1", "m2-3"), (4, 4): ("n0-1 b0-1 m0-1", "")}

# type of C and D, (m = n, k, blocks) of each shape, ending of the name, types of A and B, machines
_FACTS = (
    ("f32", ((32, 1, 2), (16, 1, 4), (4, 1, 16), (32, 2, 1), (16, 4, 1)), "f32", ("f32", "f32"), _ALL),
    ("f32", ((32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1)), "f16", ("f16", "f16"), _ALL),
    ("f32", ((32, 2, 2), (16, 2, 4), (4, 2, 16), (32, 4, 1), (16, 8, 1)), "bf16", ("bf16", "bf16"), _ALL[:2]),
    ("f32", ((32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1)), "bf16_1k", ("bf16", "bf16"),
     _SINCE_90A),
    ("s32", ((32, 4, 2), (16, 4, 4), (4, 4, 16)), "i8", ("s8", "s8"), _ALL),
    ("s32", ((32, 8, 1), (16, 16, 1)), "i8", ("s8", "s8"), _ALL[:2]),
    ("s32", ((32, 16, 1), (16, 32, 1)), "i8", ("s8", "s8"), _SINCE_942),
    ("f64", ((16, 4, 1), (4, 4, 4)), "f64", ("f64", "f64"), _SINCE_90A),
    # xf32 keeps the bits that tf32 keeps
    ("f32", ((32, 4, 1), (16, 8, 1)), "xf32", ("tf32", "tf32"), ("gfx942",)),
    ("f32", ((32, 16, 1), (16, 32, 1)), "fp8_fp8.fnuz", ("e4m3fnuz", "e4m3fnuz"), ("gfx942",)),
    ("f32", ((32, 16, 1), (16, 32, 1)), "fp8_bf8.fnuz", ("e4m3fnuz", "e5m2fnuz"), ("gfx942",)),
    ("f32", ((32, 16, 1), (16, 32, 1)), "bf8_fp8.fnuz", ("e5m2fnuz", "e4m3fnuz"), ("gfx942",)),
    ("f32", ((32, 16, 1), (16, 32, 1)), "bf8_bf8.fnuz", ("e5m2fnuz", "e5m2fnuz"), ("gfx942",)),
    ("f32", ((32, 16, 1), (16, 32, 1)), "fp8_fp8", ("e4m3", "e4m3"), _ALL[3:]),
    ("f32", ((32, 16, 1), (16, 32, 1)), "fp8_bf8", ("e4m3", "e5m2"), _ALL[3:]),
    ("f32", ((32, 16, 1), (16, 32, 1)), "bf8_fp8", ("e5m2", "e4m3"), _ALL[3:]),
    ("f32", ((32, 16, 1), (16, 32, 1)), "bf8_bf8", ("e5m2", "e5m2"), _ALL[3:]),
    ("f32", ((32, 16, 1), (16, 32, 1)), "f16", ("f16", "f16"), _ALL[3:]),
    ("f32", ((32, 16, 1), (16, 32, 1)), "bf16", ("bf16", "bf16"), _ALL[3:]),
    ("s32", ((32, 32, 1), (16, 64, 1)), "i8", ("s8", "s8"), _ALL[3:]),
    ("f32", ((32, 64, 1), (16, 128, 1)), "f8f6f4", ("e4m3", "e4m3"), _ALL[3:]),
    ("f32", ((32, 64, 1), (16, 128, 1)), "f8f6f4.e2m1", ("e2m1", "e2m1"), _ALL[3:]),
)  # fmt: skip


def mfma_entries() -> tuple[dict[str, Entry[MatrixInstruction]], dict[str, str]]:
    """All entries by name, and the name for each older spelling."""
    entries, aliases = {}, {}
    for result, shapes, ending, types, machines in _FACTS:
        # the 1k forms replaced those without, and took their place in the names
        modern = ending.removesuffix("_1k")
        kind = "i32" if result == "s32" else result
        for head in ("v_mfma_", "v_mfma_scale_") if modern.startswith("f8f6f4") else ("v_mfma_",):
            for side, k, blocks in shapes:
                start = f"{head}{kind}_{side}x{side}x{k}"
                name = f"{start}_{f'{blocks}b_' if blocks > 1 else ''}{modern}"
                old = () if "8_" in modern or "f8" in modern else (start + ending,)
                support = dict.fromkeys(machines, "native")
                builtin = _builtin(old, name, machines[0])
                make = partial(
                    _instruction, name, (side, side, k), blocks, result, types, support, old, builtin
                )
                entries[name] = Entry(support, 64, make, "ABCD")
                aliases |= dict.fromkeys(old, name)
    return entries, aliases


def _builtin(old: tuple[str, ...], name: str, first: str) -> str:
    """The compiler's name: in the spelling of the machine that had the instruction first."""
    text = old[0] if old and first in _ALL[:2] else name.partition(".")[0]
    # the compiler writes the unscaled form where the scales are 0
    if text.startswith("v_mfma_f32") and text.endswith("f8f6f4"):
        text = text.replace("mfma", "mfma_scale")
    return "__builtin_amdgcn_" + text.removeprefix("v_")


def _instruction(
    name: str,
    sizes: tuple[int, int, int],
    blocks: int,
    result: str,
    types: tuple[str, str],
    support: dict[str, str],
    aliases: tuple[str, ...],
    builtin: str,
) -> MatrixInstruction:
    side, _, k = sizes
    accumulators = _F64_ACCUMULATORS if result == "f64" else _ACCUMULATORS
    forms = dict.fromkeys("CD", (result, *accumulators[side, blocks]))
    for operand, dtype, letter in (("A", types[0], "m"), ("B", types[1], "n")):
        forms[operand] = (dtype, *_input_bits(letter, side, blocks, k, dtype, "f8f6f4" in name))
    fragments = {
        operand: fragment(f"{name}:{operand}", operand, sizes, dtype, lane, item, blocks)
        for operand, (dtype, lane, item) in sorted(forms.items())
    }
    return MatrixInstruction(
        name, name.partition(".")[0], *sizes, support, fragments, blocks, aliases, builtin=builtin
    )


def _input_bits(letter: str, side: int, blocks: int, k: int, dtype: str, runs_of_16: bool) -> tuple[str, str]:
    """The bits of lane and item of an operand with `side` rows (or columns) and k positions."""
    rows, groups, depth = (size.bit_length() - 1 for size in (side, blocks, k))
    spread = 6 - rows - groups
    kept = depth - spread
    lane = f"{span(letter, 0, rows)} {span('b', 0, groups)} "
    if runs_of_16 and element_type(dtype).bits == 8:
        return lane + span("k", 4, 4 + spread), f"k0-3 k{depth - 1}"
    return lane + span("k", kept, depth), span("k", 0, kept)
