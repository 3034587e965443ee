"""Every dense `mma` of the PTX ISA: its shapes, types, mnemonics and the targets that execute it.

Each entry of the table stands for all its shapes with all its pairs of types and accumulators. Names say
what the mnemonic says, once: `mma.SHAPE.A`, then B's type if it differs, then the accumulators' if they are
not the widest (f32, s32, f64), then the kind where types and shape leave it open (mnemonics without their
beginning, `mma.sync.aligned.`):

    mma.m16n8k16.f16           m16n8k16.row.col.f32.f16.f16.f32
    mma.m16n8k16.f16.f16       m16n8k16.row.col.f16.f16.f16.f16
    mma.m16n8k32.s8.u8         m16n8k32.row.col.s32.s8.u8.s32
    mma.m16n8k32.e4m3.e3m2     m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e3m2.f32
    mma.m16n8k64.e2m1.mxf4     m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0

Six- and four-bit floats lie in bytes (`e2m1b8`), but for the two mxf4 kinds, which pack e2m1. The scales
of the mx kinds are operands of their own and are not laid out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import NamedTuple

from regweave.machines.gpu import MatrixInstruction
from regweave.machines.nvidia.fragments import Sizes, mma_fragment
from regweave.machines.nvidia.targets import AMPERE, TURING, support
from regweave.machines.ondemand import Entry

Types = tuple[tuple[str, str], ...]


class _Rows(NamedTuple):
    """Instructions that differ in shape and types only; `{}` of `form` are shape, D, A, B and C."""

    shapes: str
    types: Types
    accumulators: str
    support: Mapping[str, str]
    note: str = ""
    form: str = "mma.sync.aligned.{}.row.col.{}.{}.{}.{}"
    suffix: str = ""


def same(*types: str) -> Types:
    """A and B of one type."""
    return tuple((kind, kind) for kind in types)


def mixed(*types: str) -> Types:
    """A and B of any two of the types."""
    return tuple((a, b) for a in types for b in types)


_F8 = ("e4m3", "e5m2")
_NARROW = (*_F8, "e3m2", "e2m3", "e2m1b8")
_ANY_NARROW = mixed(*_NARROW)
_FP8_ELSEWHERE = "on sm_90a use wgmma (m64nNk32), on sm_100a tcgen05.mma, or widen to f16"
_KIND = "mma.sync.aligned.{}.row.col.kind::"

_TABLE = (
    _Rows("m16n8k8", same("f16"), "f32 f16", support(native=TURING)),
    _Rows("m16n8k16", same("f16"), "f32 f16", support(native=AMPERE)),
    _Rows("m16n8k8 m16n8k16", same("bf16"), "f32", support(native=AMPERE)),
    _Rows("m16n8k4 m16n8k8", same("tf32"), "f32", support(native=AMPERE)),
    _Rows("m8n8k4", same("f64"), "f64", support(native=AMPERE)),
    _Rows("m16n8k4 m16n8k8 m16n8k16", same("f64"), "f64",
          support(native="90a", emulated="100a 120 120a"), "from sm_100a on use mma.m8n8k4.f64"),
    _Rows("m8n8k16", mixed("s8", "u8"), "s32",
          support(native="75 80 86 89 90a", emulated="100a 120 120a"),
          "from sm_100a on use m16n8k16 or m16n8k32, whose half it wastes there"),
    _Rows("m16n8k16 m16n8k32", mixed("s8", "u8"), "s32", support(native=AMPERE)),
    _Rows("m8n8k32", mixed("s4", "u4"), "s32",
          support(native="75 80 86 89", emulated="90a 100a 120 120a"), "from sm_90a on use mma.m16n8k32.s8"),
    _Rows("m16n8k32 m16n8k64", mixed("s4", "u4"), "s32",
          support(native="80 86 89", emulated="90a 100a 120 120a"), "from sm_90a on use mma.m16n8k32.s8"),
    _Rows("m8n8k128", same("b1"), "s32",
          support(native="75 80 86 89", emulated="90a 100a 120 120a"),
          "on sm_90a use the form with and, later mma.m16n8k32.s8",
          "mma.sync.aligned.{}.row.col.{}.{}.{}.{}.xor.popc", ".xor"),
    _Rows("m16n8k128 m16n8k256", same("b1"), "s32",
          support(native="80 86 89", emulated="90a 100a 120 120a"),
          "on sm_90a use the form with and, later mma.m16n8k32.s8",
          "mma.sync.aligned.{}.row.col.{}.{}.{}.{}.xor.popc", ".xor"),
    _Rows("m8n8k128 m16n8k128 m16n8k256", same("b1"), "s32",
          support(native="80 86 89 90a", emulated="100a 120 120a"), "from sm_100a on use mma.m16n8k32.s8",
          "mma.sync.aligned.{}.row.col.{}.{}.{}.{}.and.popc", ".and"),
    _Rows("m16n8k16 m16n8k32", mixed(*_F8), "f32 f16",
          support(native="89 120 120a", emulated="90a 100a"), _FP8_ELSEWHERE),
    _Rows("m16n8k32", tuple(pair for pair in _ANY_NARROW if not set(pair) <= set(_F8)), "f32 f16",
          support(native="120a"), form=_KIND + "f8f6f4.{}.{}.{}.{}"),
    _Rows("m16n8k32", _ANY_NARROW, "f32", support(native="120a"),
          form=_KIND + "mxf8f6f4.block_scale.scale_vec::1X.{}.{}.{}.{}.ue8m0", suffix=".mxf8f6f4"),
    _Rows("m16n8k64", same("e2m1"), "f32", support(native="120a"),
          form=_KIND + "mxf4.block_scale.scale_vec::2X.{}.{}.{}.{}.ue8m0", suffix=".mxf4"),
    _Rows("m16n8k64", same("e2m1"), "f32", support(native="120a"),
          form=_KIND + "mxf4nvf4.block_scale.scale_vec::4X.{}.{}.{}.{}.ue4m3", suffix=".mxf4nvf4"),
)  # fmt: skip

# accumulators that a name need not mention
WIDEST = ("f32", "s32", "f64")


def short_name(start: str, a: str, b: str, d: str, suffix: str = "") -> str:
    """`start`, the type of A, that of B if it differs, that of D if it is not the widest, the suffix."""
    parts = [start, a, *([b] if b != a else []), *([] if d in WIDEST else [d])]
    return ".".join(parts) + suffix


def sizes_of(shape: str) -> Sizes:
    """The (m, n, k) of `m16n8k32`."""
    m, n, k = (int(size) for size in shape[1:].replace("n", " ").replace("k", " ").split())
    return m, n, k


def _instruction(
    name: str, mnemonic: str, sizes: Sizes, kinds: Mapping[str, str], rows: _Rows
) -> MatrixInstruction:
    fragments = {operand: mma_fragment(name, operand, sizes, kind) for operand, kind in kinds.items()}
    return MatrixInstruction(name, mnemonic, *sizes, rows.support, fragments, note=rows.note)


def mma_entries() -> Iterator[tuple[str, str, Entry[MatrixInstruction]]]:
    """(short name, mnemonic, entry) of every dense `mma` but Volta's."""
    for rows in _TABLE:
        for shape, (a, b), d in product(rows.shapes.split(), rows.types, rows.accumulators.split()):
            bare_a, bare_b = (kind.removesuffix("b8") for kind in (a, b))
            name = short_name(f"mma.{shape}", bare_a, bare_b, d, rows.suffix)
            mnemonic = rows.form.format(shape, d, bare_a, bare_b, d)
            kinds = {"A": a, "B": b, "C": d, "D": d}
            make = partial(_instruction, name, mnemonic, sizes_of(shape), kinds, rows)
            yield name, mnemonic, Entry(rows.support, 32, make, "ABCD")
