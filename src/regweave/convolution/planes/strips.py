"""How large strips are: rows and columns of a band that fit a core's own cache, with their padding.

    64 channels of 56 x 56, 3 x 3 transformed: 4 rows of results take 6 transformed rows of 58 elements, 80 as
    whole vectors:  64 x 6 x 80 elements, 123 KB

A strip of all channels holds the image rows that a band of output rows reads. The more rows, the fewer are
rearranged twice; the more bands, the better for threads.
"""

from __future__ import annotations

from bisect import bisect_left

from regweave.convolution.forms import plane_shifts
from regweave.convolution.parts import part_sizes
from regweave.kernels.convolution import Transform, transform
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution

#: Bytes of a cache line. Results that pass the caches must do so in whole ones.
LINE = 64
#: Bytes of a strip at most: a good part of a core's own cache.
STRIP_BYTES = 640 * 1024
#: Bytes of a strip of transformed rows of a large image, where that is room for so many columns.
_PASSING_BYTES, _PASSING_COLUMNS = 256 * 1024, 512
#: Registers of a machine whose tiles have few filters, and whose cores have half a megabyte of cache or less;
#: bytes of a strip for a tile's rows from which on these filters are done block by block.
_FEW_REGISTERS, _FAR_STRIP = 16, 128 * 1024
#: Bytes of a strip of transformed rows there, where that is room for so many columns or the whole row.
_SMALL_BYTES, _SMALL_COLUMNS = 128 * 1024, 40
#: Share of the image that the strips of four threads may take, for images of at least a megapixel.
_SHARE, _LARGE = 0.02, 1_000_000
#: Cycles for a vector of a line that goes to a strip.
_FILL = 4
#: Vectors of a row from which on each thread gets two strips of it, where rows are too few to share.
_SHARED_VECTORS = 16
#: Threads that strips and bands of transformed rows are made for, however many there are.
SHARERS = 4
#: Output rows of a tile that holds weights, at most.
MOST_ROWS = 16
#: Stride -> kernel rows -> output rows that a transform gives: more would cost accuracy.
TRANSFORMED = {1: {2: 4, 3: 4, 4: 3, 5: 2}, 2: {3: 3, 5: 2, 7: 2}}


def lines_of(c: Convolution, rows: int) -> int:
    """Image rows that so many output rows read."""
    return (rows - 1) * c.vertical.stride + c.vertical.span


def strip_lines(c: Convolution, form: str, rows: int) -> int:
    """Rows of a channel of a strip for so many output rows."""
    if form != "transformed":
        return lines_of(c, rows)
    t = row_transform(c)
    return rows // t.outputs * t.products


def row_transform(c: Convolution) -> Transform:
    """The transform of form transformed.

    Three results of two rows need no points beyond 1 and -1: as accurate as no transform, where they fit.
    """
    axis = c.vertical
    outputs = min(TRANSFORMED[axis.stride][axis.kernel], axis.outputs)
    if axis.kernel == 2 and axis.outputs % 3 == 0:
        outputs = 3
    return transform(outputs, axis.kernel, axis.stride)


def untransformed(c: Convolution) -> str:
    """The form that is taken where transformed rows are not."""
    return "none" if c.horizontal.stride == 1 else "polyphase"


def row_form(c: Convolution, form: str) -> str:
    """How a single row of a strip is rearranged: transformed rows combine rows in another form."""
    return untransformed(c) if form == "transformed" else form


def plane_elements(c: Convolution, machine: VectorMachine, form: str, columns: int) -> int:
    """Elements of a plane of a strip of `columns` outputs: whole vectors."""
    axis = c.horizontal
    reach = 0 if form == "unrolled" else (axis.kernel - 1) * axis.dilation // axis.stride
    lanes = machine.lanes
    vectors = -(-(-(-columns // lanes) * lanes + reach) // lanes)
    return lanes * (vectors + (vectors * lanes * 4 % 4096 == 0))  # rows a page apart would share cache sets


def strip_limit(c: Convolution) -> int:
    """Bytes that the strips of all threads may take, where one vector of results can do with that."""
    places = c.vertical.size * c.horizontal.size
    most = SHARERS * STRIP_BYTES
    return min(most, int(_SHARE * 4 * c.channels * places)) if places >= _LARGE else most


def strip_budget(c: Convolution) -> int:
    """Bytes that a strip may take."""
    return strip_limit(c) // SHARERS


def _budget(c: Convolution, machine: VectorMachine, form: str, rows: int) -> int:
    """Bytes that a strip may take for which so many output rows are a tile.

    Of transformed rows of a large image it shares the core's own cache with the rows that it is made from and
    those that are asked for: 3 x 3 of 16 to 16 channels at 2048 x 8192 takes 28 ns a pixel in strips of 203
    KB and 32 in strips of 535. Many channels' strips would become so narrow that their weights cost more.
    Of a smaller cache it takes a quarter, whatever the image: 3 x 3 of 8 to 8 channels at 1080 x 1920 takes
    22.5 instead of 25.3 ms, of 16 to 16 at 320 x 320 3.97 instead of 4.57, but of 128 to 128 at 56 x 56, in
    strips of 32 columns, 6.1 instead of 5.6.
    """
    budget = strip_budget(c)
    if form != "transformed":
        return budget
    columns = min(_SMALL_COLUMNS, c.horizontal.outputs)
    if _few_registers(machine) and strip_bytes(c, machine, form, columns, rows) <= _SMALL_BYTES:
        return min(budget, _SMALL_BYTES)
    if c.vertical.size * c.horizontal.size < _LARGE:
        return budget
    wide = strip_bytes(c, machine, form, _PASSING_COLUMNS, rows) <= _PASSING_BYTES
    return min(budget, _PASSING_BYTES) if wide else budget


def strip_bytes(c: Convolution, machine: VectorMachine, form: str, columns: int, rows: int) -> int:
    """Bytes of a strip for so many columns and output rows, with the stage of transformed rows."""
    planes = len(plane_shifts(c.horizontal, row_form(c, form)))
    row = 4 * planes * plane_elements(c, machine, form, columns)
    lines = strip_lines(c, form, rows) * c.group_channels
    return row * (lines + (lines_of(c, rows) if form == "transformed" else 0))


def goes_by_blocks(c: Convolution, machine: VectorMachine, form: str, columns: int, rows: int) -> bool:
    """Whether all filters of a block are done before the next block: of a strip beyond the first-level cache
    each would read every block anew, and a core of few registers has few filters in a tile.

    Measured with 16 registers: 3 x 3 of 32 to 32 channels at 512 x 512 takes 36.5 instead of 41.6 ms, of 48
    to 24 at stride 2 and 320 x 320 8.1 instead of 10.2.
    """
    return _few_registers(machine) and strip_bytes(c, machine, form, columns, rows) > _FAR_STRIP


def _few_registers(machine: VectorMachine) -> bool:
    return len(machine.register_class("vector").registers) <= _FEW_REGISTERS


def strip_columns(c: Convolution, machine: VectorMachine, form: str, rows: int) -> int:
    """Columns of a strip: as many as its budget allows for so many rows, in equal ones of whole vectors."""
    budget, columns, lanes = _budget(c, machine, form, rows), c.horizontal.outputs, machine.lanes

    def width(strips: int) -> int:
        return -(-columns // (strips * lanes)) * lanes

    def fits(strips: int) -> bool:
        return width(strips) <= lanes or strip_bytes(c, machine, form, width(strips), rows) <= budget

    # a row may be cut into millions of strips: halving finds how many
    strips = 1 + bisect_left(range(1, -(-columns // lanes) + 1), True, key=fits)
    return width(strips) if strips > 1 else columns


def strip_widths(c: Convolution, columns: int) -> set[int]:
    """Columns of the strips that there are if each but the last one has `columns`."""
    whole, rest = divmod(c.horizontal.outputs, columns)
    return {width for width, count in ((columns, whole), (rest, rest)) if count}


def block_sizes(c: Convolution, machine: VectorMachine, columns: int, most: int) -> tuple[int, ...]:
    """Vectors of the blocks that occur, largest first, where strips of `columns` are cut into even ones."""
    vectors = (-(-width // machine.lanes) for width in strip_widths(c, columns))
    return tuple(sorted({size for count in vectors for size, _ in part_sizes(count, most)}, reverse=True))


def most_rows_of(c: Convolution, machine: VectorMachine, form: str) -> int:
    """Output rows that a strip has room for, if it is as wide as a vector: one at least."""
    budget = strip_budget(c)
    rows = range(MOST_ROWS, 1, -1)
    return next((n for n in rows if strip_bytes(c, machine, form, machine.lanes, n) <= budget), 1)


def shared_columns(c: Convolution, machine: VectorMachine, rows: int, threads: int) -> int:
    """Columns of a strip at most, such that all threads have work where there are few rows."""
    columns, lanes = c.horizontal.outputs, machine.lanes
    units = c.batch * c.groups * -(-c.vertical.outputs // rows)
    vectors = -(-columns // lanes)
    wanted = threads if vectors < _SHARED_VECTORS * threads else 2 * threads
    if threads == 1 or units >= threads:
        return columns
    strips = min(vectors, -(-wanted // units))
    return -(-vectors // strips) * lanes if strips > 1 else columns


def band_rows_of(
    c: Convolution, machine: VectorMachine, form: str, columns: int, rows: int, threads: int
) -> int:
    """Output rows of a band, within the budget, and such that each thread gets two bands at least.

    The last band ends with the image and does some rows again; each band rearranges rows that the one before
    had as well. What costs least of both is taken.
    """
    budget, out_rows = _budget(c, machine, form, rows), c.vertical.outputs
    strips = -(-c.horizontal.outputs // columns)
    units = c.batch * c.groups * strips
    most = rows
    while most + rows <= out_rows:
        if strip_bytes(c, machine, form, columns, most + rows) > budget:
            break
        if threads > 1 and units * -(-out_rows // (most + rows)) < 2 * threads:
            break
        most += rows
    row_cycles = c.group_filters * c.vertical.kernel * c.horizontal.kernel
    line_cycles = _FILL * c.horizontal.stride

    def cycles(band: int) -> int:
        return -(-out_rows // band) * (band * row_cycles + strip_lines(c, form, band) * line_cycles)

    return min(range(most, 0, -rows), key=cycles)
