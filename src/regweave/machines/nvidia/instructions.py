"""The `mma` instructions and their fragments, as facts of the PTX ISA.

A lane is 4g + t. Lane bits 0 and 1 are t, bits 2, 3 and 4 are g, and each fragment below says what
each of these five bits, and each bit of the element's number within a lane, adds to (row, column).
C of every 16 x 8 result, for example, is c0 (g, 2t), c1 (g, 2t + 1), c2 (g + 8, 2t), c3 (g + 8, 2t + 1):
t adds 2 and 4 columns, g adds 1, 2 and 4 rows, item bit 0 a column and item bit 1 eight rows.

Accumulators are f32 throughout; D lies where C lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from regweave.layouts import Layout
from regweave.machines.gpu import OPERAND_AXES, MatrixInstruction
from regweave.machines.ondemand import Entry, OnDemand

Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class _Form:
    """What the lane bits and the item bits of one operand add."""

    lane: Pairs
    item: Pairs


# g over the rows or the columns, with t advancing `step` along the other axis
def _rows_of_g(step: int, item: Pairs) -> _Form:
    return _Form([(0, step), (0, 2 * step), (1, 0), (2, 0), (4, 0)], item)


def _columns_of_g(step: int, item: Pairs) -> _Form:
    return _Form([(step, 0), (2 * step, 0), (0, 1), (0, 2), (0, 4)], item)


_ACCUMULATOR = _rows_of_g(2, [(0, 1), (8, 0)])

# name, mnemonic, (m, n, k), first generation, type of A and B, forms of A and B
_FACTS = [
    (
        "mma.m16n8k8.tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", (16, 8, 8), 80, "tf32",
        _rows_of_g(1, [(8, 0), (0, 4)]), _columns_of_g(1, [(4, 0)]),
    ),
    (
        "mma.m16n8k8.f16", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", (16, 8, 8), 75, "f16",
        _rows_of_g(2, [(0, 1), (8, 0)]), _columns_of_g(2, [(1, 0)]),
    ),
    (
        "mma.m16n8k16.f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (16, 8, 16), 80, "f16",
        _rows_of_g(2, [(0, 1), (8, 0), (0, 8)]), _columns_of_g(2, [(1, 0), (8, 0)]),
    ),
    (
        "mma.m16n8k16.bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", (16, 8, 16), 80, "bf16",
        _rows_of_g(2, [(0, 1), (8, 0), (0, 8)]), _columns_of_g(2, [(1, 0), (8, 0)]),
    ),
]  # fmt: skip


# the machines of each generation on
_GENERATIONS = {"sm_75": 75, "sm_80": 80, "sm_90a": 90, "sm_100a": 100, "sm_120": 120}


def _instruction(
    name: str, mnemonic: str, sizes: tuple[int, int, int], since: int, dtype: str, a: _Form, b: _Form
) -> MatrixInstruction:
    m, n, k = sizes
    extents = {"m": m, "n": n, "k": k}
    fragments = {}
    for operand, form, kind in (
        ("A", a, dtype),
        ("B", b, dtype),
        ("C", _ACCUMULATOR, "f32"),
        ("D", _ACCUMULATOR, "f32"),
    ):
        axes = OPERAND_AXES[operand]
        shape = extents[axes[0]], extents[axes[1]]
        fragments[operand] = Layout.linear(
            f"{name}:{operand}", shape, kind, lane=form.lane, item=form.item, axes=axes
        )
    return MatrixInstruction(name, mnemonic, m, n, k, _support(since), fragments)


def _support(since: int) -> dict[str, str]:
    return {machine: "native" for machine, generation in _GENERATIONS.items() if generation >= since}


INSTRUCTIONS = OnDemand(
    {facts[0]: Entry(_support(facts[3]), 32, partial(_instruction, *facts), "ABCD") for facts in _FACTS},
    {facts[1]: facts[0] for facts in _FACTS},
)
