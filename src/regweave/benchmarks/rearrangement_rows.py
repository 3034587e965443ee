"""The conversions between layouts that are compared, and what Triton 3.9.0 does for each.

Triton's figures were counted in SASS (sm_80) and in GCN text (gfx942) of kernels compiled offline: the kernel
with the conversion minus the same kernel without. They are kept as data, so that everybody can compare; where
Triton is installed they are counted again (`triton_peer`).

Layouts are named as everywhere. Two are not operands of any instruction by themselves: f16 operands whose
lanes hold 4 or 8 contiguous k, as wide loads of the other operand suggest, and f32 rows cut into one run per
lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regweave.layouts import Layout


@dataclass(frozen=True)
class Counts:
    """Instructions of one way to convert: between lanes, selects, byte permutes, and all of them."""

    exchanges: int
    selects: int
    byte_permutes: int
    total: int

    @property
    def choices(self) -> int:
        """Selects and byte permutes."""
        return self.selects + self.byte_permutes


@dataclass(frozen=True, eq=False)
class Row:
    """One conversion: layouts of a `tile`, the fewest exchanges that one hop allows, and Triton's figures.

    `shuffled` is what Triton does with shuffles, by itself or forced to; `other_total` the total of what it
    does by itself where that goes through shared memory. None where nobody measured. `transposes` says that
    fused transposes do it all.
    """

    name: str
    machine: str
    source: str | Layout
    destination: str | Layout
    tile: str
    lower_bound: int | None
    shuffled: Counts | None
    other_total: int | None = None
    transposes: bool = False

    @property
    def total(self) -> int | None:
        """The better of Triton's totals."""
        totals = [] if self.shuffled is None else [self.shuffled.total]
        return min([*totals, *([] if self.other_total is None else [self.other_total])], default=None)


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


def _operand(name: str, contiguous: int, *figures: Any) -> Row:
    return Row(name, "sm_80", f"{_F16}:C@f16", _wide_operand(contiguous), "16x32", *figures)


def _seam(
    name: str,
    machine: str,
    instruction: str,
    suffix: str,
    operand: str,
    tile: str,
    *figures: Any,
    **more: Any,
) -> Row:
    """From an instruction's result, changed by a suffix, to its operand."""
    result = "D" if instruction.startswith("v_") else "C"
    source, destination = f"{instruction}:{result}{suffix}", f"{instruction}:{operand}"
    return Row(f"{name} {result}{'^T' if '^T' in suffix else ''} -> {operand}", machine, source, destination,
               tile, *figures, **more)  # fmt: skip


_NOTHING = Counts(0, 0, 0, 0)
ROWS = (
    _seam("tf32", "sm_80", _TF32, "", "A", "16x32", 16, Counts(16, 32, 0, 64)),
    _seam("f16", "sm_80", _F16, "@f16", "A", "16x32", 0, _NOTHING),
    _seam("bf16", "sm_80", "mma.m16n8k16.bf16", "@bf16", "A", "16x32", 0, _NOTHING),
    _seam("s8", "sm_80", _S8, "@s8", "A", "16x32", 4, Counts(4, 6, 8, 25)),
    _seam("f64", "sm_80", "mma.m8n8k4.f64", "", "A", "16x16", 16, Counts(16, 32, 0, 60)),
    _seam("s4", "sm_80", "mma.m16n8k64.s4", "@s4", "A", "16x64", 3, None),
    _operand("f16 C -> A, 4 contiguous k", 4, 8, Counts(8, 16, 0, 33)),
    _operand("f16 C -> A, 8 contiguous k", 8, 6, Counts(6, 32, 0, 35), 11),
    _seam("f16", "sm_80", _F16, "@f16", "B", "32x16", 8, Counts(8, 4, 24, 62), transposes=True),
    _seam("s8", "sm_80", _S8, "@s8", "B", "32x16", 4, Counts(4, 8, 36, 79), 77),
    Row("f32 C -> rows", "sm_80", f"{_TF32}:C", _ROWS_OF_LANES, "16x32", None, Counts(16, 64, 0, 91), 38),
    _seam("f16 32x32x8", "gfx942", "v_mfma_f32_32x32x8_f16", "@f16^T", "A", "32x32", 0, _NOTHING),
    _seam("f16 16x16x16", "gfx942", "v_mfma_f32_16x16x16_f16", "@f16^T", "A", "16x16", 0, _NOTHING),
    _seam("s8 16x16x32", "gfx942", "v_mfma_i32_16x16x32_i8", "@s8^T", "A", "16x32", 2, Counts(2, 4, 0, 19)),
    _seam("s8 32x32x16", "gfx942", "v_mfma_i32_32x32x16_i8", "@s8^T", "A", "32x32", 2, Counts(2, 6, 0, 13)),
    _seam("f32 32x32x2", "gfx942", "v_mfma_f32_32x32x2_f32", "^T", "A", "32x32", 8, Counts(8, 24, 0, 60)),
    _seam("f32 16x16x4", "gfx942", "v_mfma_f32_16x16x4_f32", "^T", "A", "16x16", 3, Counts(3, 16, 0, 37), 29),
    _seam(
        "f16 16x16x16",
        "gfx942",
        "v_mfma_f32_16x16x16_f16",
        "@f16",
        "A",
        "16x32",
        4,
        Counts(4, 12, 12, 58),
        38,
    ),
)
