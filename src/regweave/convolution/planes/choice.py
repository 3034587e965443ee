"""Which kernel a convolution gets: form, tile, strips and bands.

    image read where it is      stride 1 along the row and few channels, or stride 2 and one channel of a
                                group (form none): no copy, masked edges
    transformed rows            kernels of 2 to 5 rows at stride 1: about half the products (see transforms)
    strips of rearranged rows   everything else: a band of rows of all channels goes to a strip in cache
                                first, with its padding; larger strides by phases (polyphase) or one plane
                                per kernel column (unrolled)

The tile is the one that costs least by a small model: a tap of a tile takes as long as its products, a third
of its loads' time and a step of the loop; tails count, so 512 columns are cut into blocks of 6,
6, 5, 5, 5, 5 vectors rather than five of 6 and one of 2.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product

from regweave.convolution.forms import plane_shifts
from regweave.convolution.planes.folds import Fold, fold, most_image_pieces, most_result_pieces, unfolded
from regweave.convolution.planes.strips import (
    MOST_ROWS,
    SHARERS,
    STRIP_BYTES,
    TRANSFORMED,
    band_rows_of,
    lines_of,
    most_rows_of,
    row_form,
    row_transform,
    shared_columns,
    strip_budget,
    strip_bytes,
    strip_columns,
    strip_limit,
    strip_widths,
    untransformed,
)
from regweave.errors import InputError, unknown_name
from regweave.kernels.common.epilogue import Epilogue
from regweave.kernels.convolution import ConvTile
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise
from regweave.values import frozen

FORMS = ("none", "polyphase", "unrolled", "transformed")
#: Channels up to which the image is read where it is: a set of the first-level cache holds 8 lines, and the
#: rows of many channels often start at addresses that compete for the same sets.
_DIRECT_CHANNELS = 8
#: Kernel rows that are written out in a tile of several rows, at most; filters for which such a tile pays.
_MOST_KERNEL_ROWS, _FEW_OUTPUTS = 127, 2
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
#: Filters from which on it pays to transform the rows that they share.
_WORTH_TRANSFORMING = 4
#: Kernel columns of all channels from which on it pays to take a transform's products one after the other:
#: where all products of fewer filters than so many find room, and else.
_FEW_TOGETHER, _FEW_TAPS, _MANY_TAPS = 4, 16, 144
#: A folded map's outputs beside one another, at most; the share of cycles that folding must leave.
_MOST_FOLDED, _FOLDED_GAIN = 256, 0.9
#: Of a vector's time, what its half spares; bytes of weights per cycle from a core's caches and beyond.
_HALF, _NEAR_BYTES, _FAR_BYTES = 0.3, 32, 10
#: Filters of each thread from which on threads share them rather than rows.
_SHARED_FILTERS = 32
#: Output rows from which on it pays to transform rows for stride 2.
_ROWS_APART = 8


@frozen
class Choice:
    """How a convolution is run: `form`, the kernel's tile, filters per channel tile, columns per strip (whole
    vectors), vectors of each block of a strip, output rows per band; `fold` of a small map."""

    form: str
    tile: ConvTile
    tiles: tuple[int, ...]
    strip_columns: int
    band_rows: int
    fold: Fold | None = None

    def strip_blocks(self, columns: int, lanes: int) -> tuple[int, ...]:
        """Vectors of each block of a strip of that many columns."""
        return even_parts(-(-columns // lanes), max(self.tile.vectors))


def even_parts(count: int, most: int) -> tuple[int, ...]:
    """`count` in as few parts of at most `most` as possible, sizes differing by one at most, larger first."""
    parts = -(-count // most)
    return tuple((count + parts - 1 - part) // parts for part in range(parts))


def part_sizes(count: int, most: int) -> tuple[tuple[int, int], ...]:
    """The sizes of `even_parts`, one or two, each with how many parts have it."""
    parts = -(-count // most)
    large, more = divmod(count, parts)
    return ((large + 1, more), (large, parts - more)) if more else ((large, parts),)


def choose(
    c: Convolution,
    machine: VectorMachine,
    *,
    form: str | None = None,
    neighbours: bool = True,
    dense: bool = True,
    stream: bool = False,
    epilogue: tuple[Elementwise, ...] = (),
    threads: int = 1,
    late: bool = False,
    separable: bool = False,
    clash: bool = False,
) -> Choice:
    """The choice for `c`; `form` insists on one. `neighbours`: elements of an image row lie side by side;
    `late`: loads may look as if they read what was just stored; `separable`: each filter is a column times a
    row of weights; `clash`: a cache does not hold the same elements of several channels.

    Errors: InputError for an unknown form, or form none at a stride that it is not for.
    """
    threads = 1 if _many_weights(c, threads) else threads
    asked, form = form, _form(c, form, wide=machine.mask_class == "mask")
    if form == "transformed":
        in_place = _in_place(c, machine, form) if neighbours else ()
        return _transformed(c, machine, dense=dense, stream=stream, epilogue=epilogue, in_place=in_place)
    apart = form == "polyphase" and asked is None and _two_apart(c) and neighbours and dense
    if apart and _column(c, machine, c.horizontal.outputs, epilogue, direct=True):
        form = "none"
    direct = form == "none" and neighbours and _read_in_place(c, machine)
    strip = c.horizontal.outputs if direct else strip_columns(c, machine, form, 1)
    separable = separable and form == "none" and c.horizontal.stride == 1
    shape = None
    if dense:
        from regweave.convolution.planes.pairing import paired_tile
        from regweave.convolution.planes.rolled import rolled_choice, rolled_tile

        paired = None
        if direct and asked is None and not separable:
            paired = paired_tile(c, machine, epilogue, late=late and stream)
        rolled = rolled_tile(c, machine, epilogue, separable=separable, clash=clash) if direct else None
        rolled = paired or rolled
        if rolled:
            edges = _edges(c, machine)
            return rolled_choice(
                c, machine, replace(rolled, edges=edges, stream=stream, lagging=late and stream), threads
            )
        shape = _column(c, machine, strip, epilogue, separable=separable, direct=direct, form=form)
    if form == "none" and c.horizontal.stride != 1 and not (direct and shape):
        raise _no_form_none(c)
    in_place = _in_place(c, machine, form) if neighbours else ()
    by = _fold(c, machine, form) if in_place and dense and not (direct or shape or stream) else None
    map_, c = c, unfolded(c, by)
    strip = strip_columns(c, machine, form, by.rows) if by else strip
    columns = c.horizontal.kernel if shape else 0
    far = shape.far if shape else 0
    registers = len(machine.register_class("vector").registers) - (direct and machine.mask_class == "vector")
    spared = direct and (columns > 0 or not _rows_missing(c))  # of strips
    most_rows = 1 if by else registers if spared else most_rows_of(c, machine, form)
    rows, outputs, vectors = (
        (shape.rows, 1, shape.vectors) if shape else _tile(c, machine, registers, strip, most_rows)
    )
    if not spared:
        strip = min(strip, strip_columns(c, machine, form, by.rows if by else rows))
    strip = min(strip, shared_columns(c, machine, rows, threads))
    by_column = rows > 1 or columns > 0
    tiles = even_parts(c.group_filters, outputs)
    blocks = {
        size
        for width in strip_widths(c, strip)
        for size, _ in part_sizes(-(-width // machine.lanes), vectors)
    }
    tile = ConvTile(
        outputs=tuple(sorted(set(tiles), reverse=True)),
        rows=rows,
        vectors=tuple(sorted(blocks, reverse=True)),
        kernel_rows=c.vertical.kernel if by_column else 1,
        kernel_columns=columns,
        separable=separable and columns > 0,
        column_bytes=4 * c.horizontal.dilation if (separable or direct) and columns > 0 else 0,
        row_stride=c.vertical.stride if by_column else 1,
        row_dilation=c.vertical.dilation if by_column else 1,
        direct=direct,
        edges=_edges(c, machine) if direct else (1, 1),
        row_step=c.horizontal.stride if direct else 1,
        missing=_missing(c, rows) if direct and columns > 0 else (0, 0),
        far_weights=far,
        halves=_halves(c, machine, strip),
        stream=stream,
        dense=dense,
        epilogue=epilogue,
        in_place=in_place,
        in_place_step=c.horizontal.stride,
        image_pieces=most_image_pieces(map_, by, machine.lanes) if by else 0,
        result_pieces=most_result_pieces(map_, by, machine.lanes) if by else 0,
    )
    band = rows if direct else by.rows if by else band_rows_of(c, machine, form, strip, rows, threads)
    return Choice(form, tile, tiles, strip, band, by)


def _transformed(
    c: Convolution,
    machine: VectorMachine,
    *,
    dense: bool,
    stream: bool,
    epilogue: tuple[Elementwise, ...],
    in_place: tuple[int, ...],
) -> Choice:
    registers = len(machine.register_class("vector").registers)
    t = row_transform(c)
    by = _fold(c, machine, "transformed") if in_place and dense and not stream else None
    map_, c = c, unfolded(c, by)
    strip = strip_columns(c, machine, "transformed", by.rows if by else t.outputs)
    outputs, vectors = (registers - 2) // t.products, 1
    worth = c.group_channels * c.horizontal.kernel >= (_FEW_TAPS if outputs < _FEW_TOGETHER else _MANY_TAPS)
    outputs = max(1, min(c.group_filters, outputs))
    apart = worth and dense and Epilogue(epilogue, by_vector=False).direct
    if apart:
        outputs, vectors = _flat_tile(machine, registers, c.group_filters, -(-strip // machine.lanes))
    tiles = even_parts(c.group_filters, outputs)
    blocks = {
        size
        for width in strip_widths(c, strip)
        for size, _ in part_sizes(-(-width // machine.lanes), vectors)
    }
    tile = ConvTile(
        outputs=tuple(sorted(set(tiles), reverse=True)),
        rows=t.products,
        vectors=tuple(sorted(blocks, reverse=True)),
        kernel_rows=t.products,
        stream=stream,
        dense=dense,
        epilogue=epilogue,
        halves=_halves(c, machine, strip),
        transform=t,
        apart=apart,
        in_place=in_place,
        in_place_step=c.horizontal.stride,
        image_pieces=most_image_pieces(map_, by, machine.lanes) if by else 0,
        result_pieces=most_result_pieces(map_, by, machine.lanes) if by else 0,
    )
    # which rows are a group decides how they round: the bits must not depend on the number of threads
    band = by.rows if by else band_rows_of(c, machine, "transformed", strip, t.outputs, SHARERS)
    return Choice("transformed", tile, tiles, strip, band, by)


def _fold(c: Convolution, machine: VectorMachine, form: str) -> Fold | None:
    """The folds of a small map that cost least; None where none cost less than the map as it is."""
    down, filters = c.vertical, c.group_filters
    group = row_transform(c).outputs if form == "transformed" else 1
    if filters <= _FEW_OUTPUTS or (group > 1 and down.kernel == 2):  # there groups differ in size
        return None
    most = min(down.outputs, _MOST_FOLDED // c.horizontal.outputs)
    if most < 2:
        return None
    best, least = None, _FOLDED_GAIN * _map_cycles(c, machine, form, None)
    heights = {-(-down.outputs // (count * group)) * group for count in range(2, most + 1)}
    for rows in sorted(height for height in heights if height < down.outputs):
        by = fold(c, rows)
        wide = unfolded(c, by)
        if wide.horizontal.outputs > _MOST_FOLDED or (
            strip_bytes(wide, machine, form, machine.lanes, rows) > strip_budget(c)
        ):
            continue
        cycles = _map_cycles(c, machine, form, by)
        if cycles < least:
            best, least = by, cycles
    return best


def _map_cycles(c: Convolution, machine: VectorMachine, form: str, by: Fold | None) -> float:
    """Cycles of a map: products, and the weights, which each strip and each band reads anew."""
    wide, filters = unfolded(c, by), c.group_filters
    vectors, taps = -(-wide.horizontal.outputs // machine.lanes), c.group_channels * c.horizontal.kernel
    halves = machine.mask_class == "mask" and -wide.horizontal.outputs % machine.lanes >= machine.lanes // 2
    if form == "transformed":
        t = row_transform(c)
        rows = by.rows if by else t.outputs
        strip = strip_columns(wide, machine, form, rows)
        band = by.rows if by else band_rows_of(c, machine, form, strip, rows, SHARERS)
        groups = -(-wide.vertical.outputs // band) * band // t.outputs
        weights = filters * taps * t.products
        cycles = groups * (vectors - _HALF * halves) * weights
    else:
        taps *= c.vertical.kernel
        registers = len(machine.register_class("vector").registers)
        outputs, width = _flat_tile(machine, registers, filters, vectors)
        row = _cost(machine, filters, vectors, outputs, width)[0]
        strip = strip_columns(wide, machine, form, by.rows if by else 1)
        band = by.rows if by else band_rows_of(c, machine, form, strip, 1, 1)
        weights = filters * taps
        cycles = wide.vertical.outputs * row * (1 - _HALF * halves / vectors) * taps
    passes = -(-wide.vertical.outputs // band) * -(-wide.horizontal.outputs // strip)
    near = 4 * weights <= STRIP_BYTES
    return cycles + passes * 4 * weights / (_NEAR_BYTES if near else _FAR_BYTES)


def _in_place(c: Convolution, machine: VectorMachine, form: str) -> tuple[int, ...]:
    """The planes that strips have if they are filled from the image's own rows by vectors; none if not."""
    planes, step = plane_shifts(c.horizontal, row_form(c, form)), c.horizontal.stride
    narrow = machine.mask_class == "vector" and form == "transformed"  # two planes' rows need many registers
    if step > (1 if narrow else 2) or max(planes) >= step:
        return ()
    return planes


def combines(c: Convolution) -> bool:
    """Whether `choose` may take a form that combines rows, which carries what is not finite to others."""
    alone = c.group_filters == c.group_channels == 1
    return transforms(c) or (alone and c.vertical.stride == c.horizontal.stride == 1)


def transforms(c: Convolution) -> bool:
    """Whether rows can be transformed for `c`: neighbours, or every other one, and not too many."""
    axis = c.vertical
    return axis.kernel in TRANSFORMED.get(axis.stride, {}) and axis.dilation == 1 and axis.outputs > 1


def _form(c: Convolution, form: str | None, *, wide: bool) -> str:
    """`wide`: there are many registers, which a transform of stride 2 wants."""
    if form is None:
        rows = 4 if c.vertical.stride == 1 else _ROWS_APART if wide else float("inf")
        pays = c.group_filters >= _WORTH_TRANSFORMING and c.vertical.outputs >= rows
        # of one or two channels memory is the limit, and rows of results that are written one by one help it
        pays = pays and (c.group_channels > 2 or c.horizontal.stride > 1)
        return "transformed" if transforms(c) and pays else untransformed(c)
    if form not in FORMS:
        raise unknown_name("form", form, FORMS, where="form")
    if form == "transformed" and not transforms(c):
        raise InputError(
            f"form transformed for a kernel of {c.vertical.kernel} rows at stride {c.vertical.stride}, "
            f"dilation {c.vertical.dilation}, {c.vertical.outputs} results in a column",
            where="form",
            expected="2 to 5 rows at stride 1, or 3, 5 or 7 at stride 2; dilation 1, and 2 results or more "
            "along the columns",
            fix="leave the choice open",
        )
    if form == "none" and c.horizontal.stride != 1 and not _two_apart(c):
        raise _no_form_none(c)
    return form


def _no_form_none(c: Convolution) -> InputError:
    return InputError(
        f"form none at stride {c.horizontal.stride}",
        where="form",
        expected="stride 1 along the row: vectors are read straight from it; or stride 2, one channel of a "
        "group, elements side by side and a small kernel",
        fix="take polyphase or unrolled, or leave the choice open",
    )


def _two_apart(c: Convolution) -> bool:
    """Whether every other element is read from the image itself: of one channel that is done once only."""
    return c.horizontal.stride == 2 and c.group_channels == 1


def _halves(c: Convolution, machine: VectorMachine, strip: int) -> bool:
    """Whether the last vector of some strip is at most half full, and the machine has half vectors."""
    lanes = machine.lanes
    return machine.mask_class == "mask" and any(
        -width % lanes >= lanes // 2 for width in strip_widths(c, strip)
    )


def _edges(c: Convolution, machine: VectorMachine) -> tuple[int, int]:
    """Vectors at either end of a row that padding reaches into; the last one is seldom whole as well."""
    axis = c.horizontal
    step, reach = axis.stride * machine.lanes, axis.span - 1
    whole = max(0, (axis.size + axis.before - reach) // step)
    return -(-axis.before // step), max(1, -(-axis.outputs // machine.lanes) - whole)


def _missing(c: Convolution, rows: int) -> tuple[int, int]:
    """Image rows at the start and the end of a tile of so many output rows that may not exist."""
    axis, lines = c.vertical, lines_of(c, rows)
    below = (axis.outputs - 1) * axis.stride + axis.span - axis.before - axis.size
    return min(axis.before, lines), max(0, min(below, lines))


@frozen
class _Shape:
    """Of a tile that holds weights: rows, vectors, weights that find no register."""

    rows: int
    vectors: int
    far: int


def _column(
    c: Convolution,
    machine: VectorMachine,
    columns: int,
    epilogue: tuple[Elementwise, ...],
    *,
    direct: bool,
    form: str = "none",
    separable: bool = False,
) -> _Shape | None:
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
            best, least = _Shape(rows, vectors, far), cycles
    return best


def _tile(
    c: Convolution, machine: VectorMachine, registers: int, columns: int, most_rows: int
) -> tuple[int, int, int]:
    """(rows, filters, vectors) of the tile."""
    vectors = -(-columns // machine.lanes)
    filters = c.group_filters
    if filters <= _FEW_OUTPUTS and c.vertical.outputs > 1 and c.vertical.kernel <= _MOST_KERNEL_ROWS:
        best = max(1, min(2, vectors))
        rows = min(_MOST_ROWS, c.vertical.outputs, (registers - 8) // (best * filters), most_rows)
        if rows > 1:
            return rows, filters, best
    return 1, *_flat_tile(machine, registers, filters, vectors)


@lru_cache(maxsize=256)
def _flat_tile(machine: VectorMachine, registers: int, filters: int, vectors: int) -> tuple[int, int]:
    """(filters, vectors) of a tile of one row."""
    candidates = [
        (o, v)
        for o, v in product(range(1, min(filters, registers) + 1), range(1, min(vectors, registers) + 1))
        if o * v + min(o, v) + 1 <= registers
    ]
    return min(candidates, key=lambda pair: _cost(machine, filters, vectors, *pair))


def _cost(machine: VectorMachine, filters: int, vectors: int, o: int, v: int) -> tuple[float, int]:
    """Cycles per tap of all tiles of a row of that many vectors; ties go to fewer loads."""
    product_cycles = 0.5 if machine.lanes == 8 else 1.0
    total, loads = 0.0, 0
    for (tile, tiles), (block, blocks) in product(part_sizes(filters, o), part_sizes(vectors, v)):
        load = 1.6 * block + tile
        total += tiles * blocks * (max((tile * block + _LOAD * load) * product_cycles, 4.0) + 0.5)
        loads += tiles * blocks * (tile + block)
    return total, loads


def most_parts(c: Convolution, machine: VectorMachine, choice: Choice, threads: int) -> int:
    """Parts that the work may be divided in: as many as strips have memory for, and one for each thread."""
    room = strip_limit(c) // max(1, scratch_bytes(c, machine, choice))
    return max(threads, room // threads * threads)


def _many_weights(c: Convolution, threads: int) -> bool:
    """Whether threads share the filters first: each then reads its own weights only, and fills strips for
    itself."""
    weights = 4 * c.group_filters * c.group_channels * c.vertical.kernel * c.horizontal.kernel
    return threads > 1 and c.group_filters >= _SHARED_FILTERS * threads and weights > STRIP_BYTES


def filter_shares(c: Convolution, choice: Choice, threads: int, units: int) -> int:
    """Shares of the filters that are units of their own; `units` there are without."""
    if _many_weights(c, threads) or (units < threads and choice.fold is not None):
        return min(threads, len(choice.tiles))
    return 1


def scratch_bytes(c: Convolution, machine: VectorMachine, choice: Choice) -> int:
    """Bytes of one part of the work for a strip, and for the stage of transformed rows."""
    if choice.tile.rolling:
        from regweave.convolution.planes.rolled import band_bytes

        return band_bytes(c, machine, choice.strip_columns, choice.tile)
    c = unfolded(c, choice.fold)
    if choice.tile.direct and not (choice.tile.filled and _rows_missing(c)):
        return 0
    return strip_bytes(c, machine, choice.form, choice.strip_columns, choice.band_rows)


def _rows_missing(c: Convolution) -> bool:
    """Whether some output row reads beyond the image's first or last one."""
    axis = c.vertical
    return axis.before > 0 or (axis.outputs - 1) * axis.stride + axis.span > axis.size


def _read_in_place(c: Convolution, machine: VectorMachine) -> bool:
    """Whether the image is read where it is: few channels, or a strip for one vector would be too large."""
    return c.group_channels <= _DIRECT_CHANNELS or (
        strip_bytes(c, machine, "none", machine.lanes, 1) > strip_budget(c)
    )
