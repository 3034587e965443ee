"""Where the operands of NVIDIA's matrix instructions lie: one rule, and Volta's.

A lane is 4g + t: lane bits 0 and 1 are t, bits 2, 3 and 4 are g. A *basis* says what each lane bit,
and each bit of the element's number within a lane, adds to (row, column). From Turing on a register holds e
elements that follow one another in k (1, 2, 4, 8 or 32 of them), t counts registers along k, g counts the
rows of A and the columns of B; the next registers hold row g + 8 of A (if m is 16), then k + 4e, k + 8e, ...:

    >>> operand_basis("A", (16, 8, 16), 16)
    Basis(lane=((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)), item=((0, 1), (8, 0), (0, 8)))
    >>> operand_basis("A", (16, 8, 8), 32).item
    ((8, 0), (0, 4))

C and D hold (g, 2t), (g, 2t + 1) and, if m is 16, the same of row g + 8. Every dense shape and type of `mma`
follows. `wgmma` is the rule for four warps, each with 16 of 64 rows, and n / 8 accumulator tiles side by
side. On Volta `mma.m8n8k4` of f16 is four products at once, each by a pair of quads: lanes 0-3 with 16-19 and
so on; lane bits 2 and 3 number the products.

The source is the PTX ISA, section "Matrix Fragments" of each shape.
"""

from __future__ import annotations

from regweave.layouts import Basis, Layout, repeat
from regweave.layouts.elements import element_type
from regweave.machines.gpu import OPERAND_AXES, operand_tile

Pairs = tuple[tuple[int, int], ...]
Sizes = tuple[int, int, int]


def operand_basis(operand: str, sizes: Sizes, bits: int) -> Basis:
    """The basis of A, B, C or D of `mma` with `sizes` (m, n, k) and elements of `bits` bits."""
    m, _, k = sizes
    if operand in "CD":
        return Basis(_lanes(2), ((0, 1), *_eight_rows(m)))
    packed = max(1, 32 // bits)
    if operand == "A":
        item = (*_along(1, packed), *_eight_rows(m), *_along(4 * packed, k))
        return Basis(_lanes(packed), item)
    return _turn(Basis(_lanes(packed), (*_along(1, packed), *_along(4 * packed, k))))


def quad_pair_basis(operand: str, order: str, dtype: str) -> Basis:
    """The basis of an operand of Volta's m8n8k4; `order` is `row` or `col`, of A or B."""
    if operand in "CD":
        if dtype == "f32":
            return Basis(((1, 0), (0, 2), (8, 0), (16, 0), (4, 0)), ((0, 1), (2, 0), (0, 4)))
        return Basis(_QUADS_BY_ROW, ((0, 1), (0, 2), (0, 4)))
    # a lane has a row of A or a column of B, or four rows of one column of A (columns of one row of B)
    along_k = order == ("row" if operand == "A" else "col")
    of_a = Basis(_QUADS_BY_ROW, _along(1, 4)) if along_k else Basis(_QUADS_BY_COLUMN, ((1, 0), (2, 0)))
    return of_a if operand == "A" else _turn(of_a)


def fragment(name: str, operand: str, sizes: Sizes, dtype: str, basis: Basis, blocks: int = 1) -> Layout:
    """The layout `name:operand` of a basis."""
    shape, axes = operand_tile(operand, sizes, blocks), OPERAND_AXES[operand]
    return Layout.linear(f"{name}:{operand}", shape, dtype, lane=basis.lane, item=basis.item, axes=axes)


def mma_fragment(name: str, operand: str, sizes: Sizes, dtype: str) -> Layout:
    """The layout of an operand of `mma`, Volta's excepted."""
    return fragment(name, operand, sizes, dtype, operand_basis(operand, sizes, element_type(dtype).bits))


def wgmma_fragment(name: str, operand: str, sizes: Sizes, dtype: str) -> Layout:
    """The layout of A, C or D of `wgmma` over its 128 lanes; n is any multiple of 8."""
    _, n, k = sizes
    basis = operand_basis(operand, (16, 8, k), element_type(dtype).bits)
    of_warps = Basis((*basis.lane, (16, 0), (32, 0)), basis.item)
    layout = fragment(name, operand, (64, 8, k), dtype, of_warps)
    if operand == "A":
        return layout
    table = repeat(layout, 1, n // 8).table
    return Layout(layout.name, (64, n), dtype, table, layout.axes)


def _lanes(step: int) -> Pairs:
    """t along the columns in `step`s, g along the rows."""
    return ((0, step), (0, 2 * step), (1, 0), (2, 0), (4, 0))


def _along(step: int, end: int) -> Pairs:
    """Bits that advance the column by `step`, twice that and so on, below `end`."""
    return tuple((0, step << bit) for bit in range(max(0, (end // step - 1).bit_length())))


def _eight_rows(m: int) -> Pairs:
    return ((8, 0),) if m == 16 else ()


def _turn(basis: Basis) -> Basis:
    """The basis with rows and columns exchanged."""
    return Basis(*(tuple((row, column) for column, row in bits) for bits in (basis.lane, basis.item)))


# quads: lane bits 0 and 1 within a quad, 2 and 3 the product (8 rows each), 4 the second quad of the pair
_QUADS_BY_ROW: Pairs = ((1, 0), (2, 0), (8, 0), (16, 0), (4, 0))
_QUADS_BY_COLUMN: Pairs = ((0, 1), (0, 2), (8, 0), (16, 0), (4, 0))
