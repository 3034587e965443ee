"""Registers as rows of shared memory: what `ldmatrix` and `stmatrix` see.

A matrix is 8 rows of 16 bytes. Lane 8 m + i gives the address of row i of matrix m, and lane 4 g + t holds,
in register m, word t of row g. So four registers of 32 lanes are 32 rows, and row 8 m + g of the layout
below is what a lane of that number would load with 16 bytes:

    row    8 m + g          g: lane bits 2 to 4, m: the lowest two register bits
    items  word t of it     t: lane bits 0 and 1, above the place within the word

Transposed, words of two halves run down the rows instead: row i of the matrix is given by the place within
the word and by t, and its halves lie in the lanes g. Seen like this, everything that is known about loads
of 16 bytes (widths, swizzles, bank conflicts) holds for matrices, and an exchange among four or eight lanes
comes for free. That needs a layout which is linear over bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regweave.layouts import Layout
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.subspaces import spanned

MATRICES, ROW_BITS = 4, 128
_LANE_BITS, _WORD_LANES = 5, 2
_NAMES = {"load": "ldmatrix.m8n8.x4{}.b16:r", "store": "stmatrix.m8n8.x4{}.b16:r"}


@dataclass(frozen=True, eq=False)
class RowSide:
    """`layout` has rows for lanes and, as items, what they hold; see `word` for what registers they are."""

    layout: Layout
    transposed: bool
    row_items: int
    parts: int

    def word(self, item: int, matrix: int) -> tuple[int, ...]:
        """The items, low to high, of the register that is word `matrix` of the access of row item `item`."""
        register = item // self.row_items * MATRICES + matrix
        return tuple(range(register * self.parts, (register + 1) * self.parts))


def has_matrices(machine: WarpMachine, access: str, *, transposed: bool) -> bool:
    """Whether the machine can `load` or `store` such matrices, by rows of 16 bytes."""
    return (
        ROW_BITS in machine.shared_access_bits
        and _NAMES[access].format(".trans" if transposed else "") in machine.layouts
    )


def as_rows(layout: Layout, *, transposed: bool) -> RowSide | None:
    """The layout as rows, or None: it is not linear, too small, or has no halves to transpose."""
    bits = layout.element_type.bits
    basis = layout.basis
    if basis is None or len(basis.lane) != _LANE_BITS or bits > 32 or (transposed and bits != 16):
        return None
    lanes, items = (
        [row * layout.shape[1] + column for row, column in pairs] for pairs in (basis.lane, basis.item)
    )
    parts = (32 // bits).bit_length() - 1
    matrices = MATRICES.bit_length() - 1
    if len(items) < parts + matrices:
        return None
    low, numbers, rest = items[:parts], items[parts : parts + matrices], items[parts + matrices :]
    down, along = (lanes[_WORD_LANES:], [*low, *lanes[:_WORD_LANES]])
    if transposed:
        down, along = along, down
    table = np.bitwise_xor.outer(spanned([*down, *numbers]), spanned([*along, *rest]))
    rows = Layout(f"rows of {layout.name}", layout.shape, layout.dtype, table, layout.axes)
    return RowSide(rows, transposed, 1 << len(along), 1 << parts)
