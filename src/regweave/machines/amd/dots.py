"""Dot products within a lane: no matrix instruction, but what gfx906 has in its place.

Lane b adds the product of its own row of A and column of B to its own number: 64 blocks of 1 x 1 x k, for
which each lane needs consecutive k. The `v_dot2c` forms add to their destination: C and D are one
register, and the compiler chooses them where that saves a move.
"""

from __future__ import annotations

from functools import partial

from regweave.machines.coordinates import fragment, span
from regweave.machines.gpu import MatrixInstruction
from regweave.machines.ondemand import Entry

_ALL = ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950")
# mnemonic, builtin, k, type of A and B, type of C and D, machines
_FACTS = (
    ("v_dot2_f32_f16", "fdot2", 2, "f16", "f32", _ALL),
    ("v_dot2_i32_i16", "sdot2", 2, "s16", "s32", _ALL),
    ("v_dot2_u32_u16", "udot2", 2, "u16", "u32", _ALL),
    ("v_dot4_i32_i8", "sdot4", 4, "s8", "s32", _ALL),
    ("v_dot4_u32_u8", "udot4", 4, "u8", "u32", _ALL),
    ("v_dot8_i32_i4", "sdot8", 8, "s4", "s32", _ALL),
    ("v_dot8_u32_u4", "udot8", 8, "u4", "u32", _ALL),
    ("v_dot2c_f32_f16", "fdot2", 2, "f16", "f32", _ALL[1:]),
    ("v_dot2c_i32_i16", "sdot2", 2, "s16", "s32", _ALL[1:]),
    ("v_dot4c_i32_i8", "sdot4", 4, "s8", "s32", _ALL[1:]),
    ("v_dot8c_i32_i4", "sdot8", 8, "s4", "s32", _ALL[1:]),
    ("v_dot2_f32_bf16", "fdot2_f32_bf16", 2, "bf16", "f32", _ALL[4:]),
    ("v_dot2c_f32_bf16", "fdot2_f32_bf16", 2, "bf16", "f32", _ALL[4:]),
)


def dot_entries() -> dict[str, Entry[MatrixInstruction]]:
    """All entries by name."""
    entries = {}
    for name, builtin, k, dtype, result, machines in _FACTS:
        support: dict[str, str] = dict.fromkeys(machines, "native")
        entries[name] = Entry(
            support, 64, partial(_instruction, name, builtin, k, dtype, result, support), "ABCD"
        )
    return entries


def _instruction(
    name: str, builtin: str, k: int, dtype: str, result: str, support: dict[str, str]
) -> MatrixInstruction:
    inside = span("k", 0, k.bit_length() - 1)
    fragments = {
        operand: fragment(
            f"{name}:{operand}",
            operand,
            (1, 1, k),
            dtype if operand in "AB" else result,
            "b0-5",
            inside if operand in "AB" else "",
            64,
        )
        for operand in "ABCD"
    }
    return MatrixInstruction(
        name, name, 1, 1, k, support, fragments, 64, builtin=f"__builtin_amdgcn_{builtin}"
    )
