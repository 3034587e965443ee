"""The conversions between layouts that are compared; what Triton does for each stands in `triton_record`.

Layouts are named as everywhere. Two are not operands of any instruction by themselves: f16 operands whose
lanes hold 4 or 8 contiguous k, as wide loads of the other operand suggest, and f32 rows cut into one run per
lane.
"""

from __future__ import annotations

from dataclasses import dataclass

from regweave.benchmarks.triton_record import RECORDS, TritonRecord
from regweave.layouts import Layout


@dataclass(frozen=True, eq=False)
class Row:
    """One conversion: layouts of a `tile`, and the fewest exchanges that one hop allows.

    `record` is what Triton does. None where nobody measured. `transposes` says that fused transposes do it
    all.
    """

    name: str
    machine: str
    source: str | Layout
    destination: str | Layout
    tile: str
    lower_bound: int | None
    record: TritonRecord | None
    transposes: bool = False


def _wide_operand(contiguous: int) -> Layout:
    """The f16 A operand of m16n8k16 on 16 x 32 whose lanes hold this many k in a row."""
    bits = [1 << bit for bit in range(contiguous.bit_length() - 1)]
    rest = [4 * contiguous << bit for bit in range((8 // contiguous).bit_length() - 1)]
    return Layout.linear(
        f"f16 operand A, {contiguous} contiguous k",
        (16, 32),
        "f16",
        lane=[(0, contiguous), (0, 2 * contiguous), (1, 0), (2, 0), (4, 0)],
        item=[*((0, k) for k in bits), (8, 0), *((0, k) for k in rest)],
        axes=("m", "k"),
    )


_ROWS_OF_LANES = Layout.linear(
    "f32 runs of a row",
    (16, 32),
    "f32",
    lane=[(0, 16), (1, 0), (2, 0), (4, 0), (8, 0)],
    item=[(0, 1), (0, 2), (0, 4), (0, 8)],
)
_F16 = "mma.m16n8k16.f16"
_S8 = "mma.m16n8k32.s8"
_TF32 = "mma.m16n8k8.tf32"


def _operand(contiguous: int, lower_bound: int) -> Row:
    name = f"f16 C -> A, {contiguous} contiguous k"
    return Row(name, "sm_80", f"{_F16}:C@f16", _wide_operand(contiguous), "16x32", lower_bound, RECORDS[name])


def _seam(
    beginning: str,
    machine: str,
    instruction: str,
    suffix: str,
    operand: str,
    tile: str,
    lower_bound: int,
    *,
    transposes: bool = False,
) -> Row:
    """From an instruction's result, changed by a suffix, to its operand."""
    result = "D" if instruction.startswith("v_") else "C"
    source, destination = f"{instruction}:{result}{suffix}", f"{instruction}:{operand}"
    name = f"{beginning} {result}{'^T' if '^T' in suffix else ''} -> {operand}"
    return Row(name, machine, source, destination, tile, lower_bound, RECORDS[name], transposes)


_RUNS = "f32 C -> rows"
ROWS = (
    _seam("tf32", "sm_80", _TF32, "", "A", "16x32", 16),
    _seam("f16", "sm_80", _F16, "@f16", "A", "16x32", 0),
    _seam("bf16", "sm_80", "mma.m16n8k16.bf16", "@bf16", "A", "16x32", 0),
    _seam("s8", "sm_80", _S8, "@s8", "A", "16x32", 4),
    _seam("f64", "sm_80", "mma.m8n8k4.f64", "", "A", "16x16", 16),
    _seam("s4", "sm_80", "mma.m16n8k64.s4", "@s4", "A", "16x64", 3),
    _operand(4, 8),
    _operand(8, 6),
    _seam("f16", "sm_80", _F16, "@f16", "B", "32x16", 8, transposes=True),
    _seam("s8", "sm_80", _S8, "@s8", "B", "32x16", 4),
    Row(_RUNS, "sm_80", f"{_TF32}:C", _ROWS_OF_LANES, "16x32", None, RECORDS[_RUNS]),
    _seam("f16 32x32x8", "gfx942", "v_mfma_f32_32x32x8_f16", "@f16^T", "A", "32x32", 0),
    _seam("f16 16x16x16", "gfx942", "v_mfma_f32_16x16x16_f16", "@f16^T", "A", "16x16", 0),
    _seam("s8 16x16x32", "gfx942", "v_mfma_i32_16x16x32_i8", "@s8^T", "A", "16x32", 2),
    _seam("s8 32x32x16", "gfx942", "v_mfma_i32_32x32x16_i8", "@s8^T", "A", "32x32", 2),
    _seam("f32 32x32x2", "gfx942", "v_mfma_f32_32x32x2_f32", "^T", "A", "32x32", 8),
    _seam("f32 16x16x4", "gfx942", "v_mfma_f32_16x16x4_f32", "^T", "A", "16x16", 3),
    _seam("f16 16x16x16", "gfx942", "v_mfma_f32_16x16x16_f16", "@f16", "A", "16x32", 4),
)
