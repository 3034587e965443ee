"""`mma.m8n8k4` of f16, as Volta has it: four products of 8 x 8 x 4 at once, one by each pair of quads.

A and B are row or column major, accumulators f16 or f32, and C may be f16 where D is f32:

    mma.m8n8k4.f16             mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32
    mma.m8n8k4.col.row.f16     mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32
    mma.m8n8k4.f16.f16         mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16
    mma.m8n8k4.f16.f32.f16     mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16

An f32 accumulator is spread differently from an f16 one, so that C -> D and C -> A all differ. Volta itself
is known by its layouts only (no current compiler writes for it); Turing executes them in four steps; later
targets call a subroutine with shuffles.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from regweave.machines.gpu import MatrixInstruction
from regweave.machines.nvidia.fragments import fragment, quad_pair_basis
from regweave.machines.nvidia.targets import AMPERE, support
from regweave.machines.ondemand import Entry

_SUPPORT = support(layout="70", native="75", emulated=AMPERE)
_NOTE = "from sm_80 on use mma.m16n8k16.f16"
_SIZES = (8, 8, 4)
_PRODUCTS = 4


def _instruction(name: str, mnemonic: str, a: str, b: str, d: str, c: str) -> MatrixInstruction:
    operands = {"A": (a, "f16"), "B": (b, "f16"), "C": ("", c), "D": ("", d)}
    fragments = {
        operand: fragment(name, operand, _SIZES, kind, quad_pair_basis(operand, order, kind), _PRODUCTS)
        for operand, (order, kind) in operands.items()
    }
    return MatrixInstruction(
        name, mnemonic, *_SIZES, _SUPPORT, fragments, blocks=_PRODUCTS, note=_NOTE
    )  # fmt: skip


def volta_entries() -> Iterator[tuple[str, str, Entry[MatrixInstruction]]]:
    """(short name, mnemonic, entry) of the forms of m8n8k4 of f16."""
    accumulators = {("f32", "f32"): "", ("f16", "f16"): ".f16", ("f32", "f16"): ".f32.f16"}
    for a, b, ((d, c), types) in product(("row", "col"), ("row", "col"), accumulators.items()):
        orders = "" if (a, b) == ("row", "col") else f".{a}.{b}"
        name = f"mma.m8n8k4{orders}.f16{types}"
        mnemonic = f"mma.sync.aligned.m8n8k4.{a}.{b}.{d}.f16.f16.{c}"
        make = partial(_instruction, name, mnemonic, a, b, d, c)
        yield name, mnemonic, Entry(_SUPPORT, 32, make, "ABCD")
