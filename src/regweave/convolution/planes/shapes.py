"""Tiles of convolutions of planes: rows, filters and vectors, by a small model of what a tap takes.

As long as its products, a third of its loads' time and a step of the loop; tails count, so 512 columns are
cut into blocks of 6, 6, 5, 5, 5, 5 vectors rather than five of 6 and one of 2.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from regweave.convolution.parts import part_sizes
from regweave.convolution.planes.strips import MOST_ROWS, lines_of, most_rows_of
from regweave.kernels.common.epilogue import Epilogue
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise
from regweave.values import frozen

#: Kernel rows that are written out in a tile of several rows, at most; filters for which such a tile pays.
_MOST_KERNEL_ROWS, FEW_OUTPUTS = 127, 2
#: Output rows of a tile at most.
_MOST_ROWS = 8
#: Of tiles that hold all weights: kernel columns (each has an address in a register), and products that are
#: written out, at most.
_MOST_COLUMNS, _MOST_PRODUCTS = 7, 600
#: The share of a filter's weights that may be left in memory.
_MOST_FAR = 0.25
#: Output rows of a tile whose weights are a column times a row, at most: each is written to its own place
#: in memory, and many of those take longer than few.
_SEPARABLE_ROWS = 8
#: What a load costs beside the products that hide most of it, and what a tile costs before its first product.
_LOAD, _START = 0.3, 50.0


@frozen
class Shape:
    """Of a tile that holds weights: rows, vectors, weights that find no register."""

    rows: int
    vectors: int
    far: int


def held_shape(
    c: Convolution,
    machine: VectorMachine,
    columns: int,
    epilogue: tuple[Elementwise, ...],
    *,
    direct: bool,
    form: str = "none",
    separable: bool = False,
) -> Shape | None:
    """The shape of a tile that holds the weights of a filter; None where that cannot be."""
    height, width = c.vertical.kernel, c.horizontal.kernel
    weights = height + width if separable else height * width
    if (
        c.group_channels > 1
        or (width > _MOST_COLUMNS and not separable)
        or not Epilogue(epilogue, by_vector=False).direct
    ):
        return None
    best, least = None, float("inf")
    registers = len(machine.register_class("vector").registers) - (direct and machine.mask_class == "vector")
    tallest = min(_SEPARABLE_ROWS if separable else MOST_ROWS, c.vertical.outputs)
    tallest = tallest if direct else min(tallest, most_rows_of(c, machine, form))
    bands = {-(-c.vertical.outputs // rows) for rows in range(1, tallest + 1)}
    most = min(registers, -(-columns // machine.lanes))
    apart = direct and c.horizontal.stride == 2  # pairs of vectors are taken apart
    working = 1 + separable + bool(epilogue) + (2 + 2 * (machine.mask_class == "mask")) * apart
    for vectors, band in product(range(1, most + 1), sorted(bands)):
        rows = -(-c.vertical.outputs // band)
        under_way = min(rows, (c.vertical.span - 1) // c.vertical.stride + 1)
        far = weights - (registers - under_way * vectors - working)
        far = far + 1 if far > 0 else 0  # and a register for one of them
        if far > (0 if separable else weights * _MOST_FAR) or rows * vectors * weights > _MOST_PRODUCTS:
            continue
        vectors_of_row = -(-columns // machine.lanes)
        blocks = -(-vectors_of_row // vectors)
        loads = 1.6 * lines_of(c, rows) * width * vectors_of_row + weights * blocks
        loads += far * rows * vectors_of_row
        products = lines_of(c, rows) * width + rows * height if separable else rows * weights
        cycles = products * vectors_of_row + _LOAD * loads + _START * blocks
        cycles *= band
        if cycles < least:
            best, least = Shape(rows, vectors, far), cycles
    return best


def shape_of(
    c: Convolution, machine: VectorMachine, registers: int, columns: int, most_rows: int
) -> tuple[int, int, int]:
    """(rows, filters, vectors) of a tile that loads its weights at each tap."""
    vectors = -(-columns // machine.lanes)
    filters = c.group_filters
    if filters <= FEW_OUTPUTS and c.vertical.outputs > 1 and c.vertical.kernel <= _MOST_KERNEL_ROWS:
        best = max(1, min(2, vectors))
        rows = min(_MOST_ROWS, c.vertical.outputs, (registers - 8) // (best * filters), most_rows)
        if rows > 1:
            return rows, filters, best
    return 1, *flat_shape(machine, registers, filters, vectors)


@lru_cache(maxsize=256)
def flat_shape(machine: VectorMachine, registers: int, filters: int, vectors: int) -> tuple[int, int]:
    """(filters, vectors) of a tile of one row."""
    candidates = [
        (o, v)
        for o, v in product(range(1, min(filters, registers) + 1), range(1, min(vectors, registers) + 1))
        if o * v + min(o, v) + 1 <= registers
    ]
    return min(candidates, key=lambda pair: row_cost(machine, filters, vectors, *pair))


def row_cost(machine: VectorMachine, filters: int, vectors: int, o: int, v: int) -> tuple[float, int]:
    """Cycles per tap of all tiles of a row of that many vectors; ties go to fewer loads."""
    product_cycles = 0.5 if machine.lanes == 8 else 1.0
    total, loads = 0.0, 0
    for (tile, tiles), (block, blocks) in product(part_sizes(filters, o), part_sizes(vectors, v)):
        load = 1.6 * block + tile
        total += tiles * blocks * (max((tile * block + _LOAD * load) * product_cycles, 4.0) + 0.5)
        loads += tiles * blocks * (tile + block)
    return total, loads
