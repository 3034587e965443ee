"""`wgmma` of sm_90a: 64 x n accumulators over the 128 lanes of four warps, A in registers, B in memory.

    wgmma.m64n128k16.f16       wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
    wgmma.m64n128k16.f16.f16   wgmma.mma_async.sync.aligned.m64n128k16.f16.f16.f16
    wgmma.m64n8k32.e4m3.e5m2   wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2

n is every multiple of 8 up to 256 for floats; for integers and bits 8, 24 and the multiples of 16. An
instruction adds onto D, so C is D. A may come from shared memory instead, where it has no layout over lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import NamedTuple

from regweave.machines.gpu import MatrixInstruction
from regweave.machines.nvidia.fragments import Sizes, wgmma_fragment
from regweave.machines.nvidia.mma import Types, mixed, same, short_name
from regweave.machines.nvidia.targets import support
from regweave.machines.ondemand import Entry

_EIGHTS = tuple(range(8, 257, 8))
_SIXTEENS = (8, 24, *range(16, 257, 16))
_SUPPORT = support(native="90a")


class _Rows(NamedTuple):
    """Instructions that differ in n and types only; `suffix` ends the mnemonic."""

    k: int
    columns: tuple[int, ...]
    types: Types
    accumulators: str
    suffix: str = ""


_TABLE = (
    _Rows(16, _EIGHTS, same("f16"), "f32 f16"),
    _Rows(16, _EIGHTS, same("bf16"), "f32"),
    _Rows(8, _EIGHTS, same("tf32"), "f32"),
    _Rows(32, _EIGHTS, mixed("e4m3", "e5m2"), "f32 f16"),
    _Rows(32, _SIXTEENS, mixed("s8", "u8"), "s32"),
    _Rows(256, _SIXTEENS, same("b1"), "s32", ".and.popc"),
)


def _instruction(name: str, mnemonic: str, sizes: Sizes, kinds: Mapping[str, str]) -> MatrixInstruction:
    fragments = {operand: wgmma_fragment(name, operand, sizes, kind) for operand, kind in kinds.items()}
    return MatrixInstruction(name, mnemonic, *sizes, _SUPPORT, fragments)


def wgmma_entries() -> Iterator[tuple[str, str, Entry[MatrixInstruction]]]:
    """(short name, mnemonic, entry) of every dense `wgmma`."""
    for rows in _TABLE:
        for n, (a, b), d in product(rows.columns, rows.types, rows.accumulators.split()):
            shape = f"m64n{n}k{rows.k}"
            name = short_name(f"wgmma.{shape}", a, b, d)
            mnemonic = f"wgmma.mma_async.sync.aligned.{shape}.{d}.{a}.{b}{rows.suffix}"
            kinds = {"A": a, "C": d, "D": d}
            make = partial(_instruction, name, mnemonic, (64, n, rows.k), kinds)
            yield name, mnemonic, Entry(_SUPPORT, 128, make, "ACD")
