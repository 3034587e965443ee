"""What loads, stores and moves of whole matrices leave in registers: ldmatrix, stmatrix, movmatrix, tcgen05.

Names are the vendor's, without `.sync.aligned` and the memory, plus the operand as the PTX ISA calls it:

    ldmatrix.m8n8.x4.trans.b16:r     ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
    movmatrix.m8n8.trans.b16:a, :d   movmatrix.sync.aligned.m8n8.trans.b16
    tcgen05.ld.16x64b.x2:r           tcgen05.ld.sync.aligned.16x64b.x2.b32

The tile is what lies in memory. Of `ldmatrix` and `stmatrix` row i is the row at the address that lane i
gives, so that x4 has the rows of its four matrices one below the other. Of `tcgen05` rows are the lanes of
tensor memory and columns its 32-bit columns; the two halves of `16x32bx2` stand side by side. Of `movmatrix`
the tile is the matrix before it is transposed: d holds (column, row) where a holds (row, column). Elements
are b16, b8 or b32, whatever they mean: `NAME@f16` says it.

Sources: PTX ISA, sections of the instructions; for what the ISA only draws (tensor memory, m16n16, m16n8)
the copy traits of CUTLASS, and for m16n16 what lanes were seen to receive on sm_120a.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from regweave.layouts import Basis, Layout
from regweave.machines.nvidia.fragments import Pairs
from regweave.machines.nvidia.targets import TURING, support
from regweave.machines.ondemand import Entry, OnDemand

_HOPPER = "90a 100a 120 120a"
# sm_120 has these only with the features of sm_120a
_BYTES = support(native="100a 120a")
_TENSOR_MEMORY = support(native="100a")

# (g, 2t + i) and its transpose; (g, 4t + i); four rows 4t + i of the columns g and g + 8; (2t + i, g + 8j)
_ROWS = Basis(((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)), ((0, 1),))
_COLUMNS = Basis(((2, 0), (4, 0), (0, 1), (0, 2), (0, 4)), ((1, 0),))
_ROWS_OF_BYTES = Basis(((0, 4), (0, 8), (1, 0), (2, 0), (4, 0)), ((0, 1), (0, 2)))
_COLUMNS_OF_BYTES = Basis(((4, 0), (8, 0), (0, 1), (0, 2), (0, 4)), ((1, 0), (2, 0), (0, 8)))
_STORED_BYTES = Basis(((2, 0), (4, 0), (0, 1), (0, 2), (0, 4)), ((1, 0), (0, 8)))


class _Matrices(NamedTuple):
    """A load or store of matrices of `rows` x `columns`, one below the other; `{}` is x1, x2 or x4."""

    name: str
    mnemonic: str
    rows: int
    columns: int
    dtype: str
    basis: Basis
    counts: tuple[int, ...]
    support: Mapping[str, str]


_MATRICES = (
    _Matrices("ldmatrix.m8n8.{}.b16", "ldmatrix.sync.aligned.m8n8.{}.shared.b16", 8, 8, "b16", _ROWS,
              (1, 2, 4), support(native=TURING)),
    _Matrices("ldmatrix.m8n8.{}.trans.b16", "ldmatrix.sync.aligned.m8n8.{}.trans.shared.b16", 8, 8, "b16",
              _COLUMNS, (1, 2, 4), support(native=TURING)),
    _Matrices("ldmatrix.m16n16.{}.trans.b8", "ldmatrix.sync.aligned.m16n16.{}.trans.shared.b8", 16, 16, "b8",
              _COLUMNS_OF_BYTES, (1, 2), _BYTES),
    _Matrices("ldmatrix.m8n16.{}.b8x16.b6x16_p32", "ldmatrix.sync.aligned.m8n16.{}.shared.b8x16.b6x16_p32",
              8, 16, "b8", _ROWS_OF_BYTES, (1, 2, 4), _BYTES),
    _Matrices("ldmatrix.m8n16.{}.b8x16.b4x16_p64", "ldmatrix.sync.aligned.m8n16.{}.shared.b8x16.b4x16_p64",
              8, 16, "b8", _ROWS_OF_BYTES, (1, 2, 4), _BYTES),
    _Matrices("stmatrix.m8n8.{}.b16", "stmatrix.sync.aligned.m8n8.{}.shared.b16", 8, 8, "b16", _ROWS,
              (1, 2, 4), support(native=_HOPPER)),
    _Matrices("stmatrix.m8n8.{}.trans.b16", "stmatrix.sync.aligned.m8n8.{}.trans.shared.b16", 8, 8, "b16",
              _COLUMNS, (1, 2, 4), support(native=_HOPPER)),
    _Matrices("stmatrix.m16n8.{}.trans.b8", "stmatrix.sync.aligned.m16n8.{}.trans.shared.b8", 8, 16, "b8",
              _STORED_BYTES, (1, 2, 4), _BYTES),
)  # fmt: skip


class _TensorMemory(NamedTuple):
    """A shape of tcgen05.ld and st: `lane` and `item` of .x1; each doubling adds a register bit of `columns`.

    `split`: the lane bit that picks the second of two accesses, whose columns follow those of the first.
    """

    shape: str
    rows: int
    columns: int
    lane: Pairs
    item: Pairs
    most: int
    split: bool = False


_TENSOR_SHAPES = (
    _TensorMemory("32x32b", 32, 1, ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0)), (), 128),
    _TensorMemory("16x64b", 16, 2, ((8, 0), (0, 1), (1, 0), (2, 0), (4, 0)), (), 128),
    _TensorMemory("16x128b", 16, 4, ((0, 1), (0, 2), (1, 0), (2, 0), (4, 0)), ((8, 0),), 64),
    _TensorMemory("16x256b", 16, 8, ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)), ((0, 1), (8, 0)), 32),
    _TensorMemory("16x32bx2", 16, 1, ((1, 0), (2, 0), (4, 0), (8, 0)), (), 128, split=True),
)


def _matrices(name: str, kind: _Matrices, count: int) -> Layout:
    below = ((kind.rows << bit, 0) for bit in range(count.bit_length() - 1))
    item = [*kind.basis.item, *below]
    return Layout.linear(name, (kind.rows * count, kind.columns), kind.dtype, lane=kind.basis.lane, item=item)


def _tensor_memory(name: str, kind: _TensorMemory, count: int) -> Layout:
    beside = ((0, kind.columns << bit) for bit in range(count.bit_length() - 1))
    width = kind.columns * count
    lane = [*kind.lane, (0, width)] if kind.split else kind.lane
    shape = kind.rows, width << kind.split
    return Layout.linear(name, shape, "b32", lane=lane, item=[*kind.item, *beside])


def _entries() -> Iterator[tuple[str, str, Entry[Layout]]]:
    """(name, mnemonic with operand, entry) of every layout."""
    for kind in _MATRICES:
        for count in kind.counts:
            name = kind.name.format(f"x{count}") + ":r"
            mnemonic = kind.mnemonic.format(f"x{count}") + ":r"
            yield name, mnemonic, Entry(kind.support, 32, partial(_matrices, name, kind, count))
    for operand, basis in (("a", _ROWS), ("d", _COLUMNS)):
        name = f"movmatrix.m8n8.trans.b16:{operand}"
        make = partial(Layout.linear, name, (8, 8), "b16", lane=basis.lane, item=basis.item)
        mnemonic = f"movmatrix.sync.aligned.m8n8.trans.b16:{operand}"
        yield name, mnemonic, Entry(support(native=TURING), 32, make)
    for direction in ("ld", "st"):
        for shape in _TENSOR_SHAPES:
            for count in (1 << bit for bit in range(shape.most.bit_length())):
                name = f"tcgen05.{direction}.{shape.shape}.x{count}:r"
                mnemonic = f"tcgen05.{direction}.sync.aligned.{shape.shape}.x{count}.b32:r"
                make = partial(_tensor_memory, name, shape, count)
                yield name, mnemonic, Entry(_TENSOR_MEMORY, 32, make)


def _table() -> OnDemand[Layout]:
    found = list(_entries())
    return OnDemand(
        {name: entry for name, _, entry in found}, {mnemonic: name for name, mnemonic, _ in found}
    )


LAYOUTS = _table()
