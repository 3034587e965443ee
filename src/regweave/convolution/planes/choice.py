"""Which kernel a convolution of planes gets: form, tile, strips and bands.

    form              where rows are read from (see form)
    tile              rows two at a time (pairing), bands from top to bottom (rolled), all weights of a filter
                      in registers or a few filters of each tap (shapes); transformed rows have their own
    map               a small one in folds (small_maps)
    strips and bands  as wide and as high as a core's cache allows, and such that all threads have work

They are decided in this order; the tile may be smaller where the strip has no room for its rows.
"""

from __future__ import annotations

from dataclasses import replace

from regweave.convolution.parts import even_parts
from regweave.convolution.planes.chosen import Choice, many_weights
from regweave.convolution.planes.folds import most_image_pieces, most_result_pieces, unfolded
from regweave.convolution.planes.form import (
    FEW_TAPS,
    form_of,
    no_form_none,
    planes_in_place,
    read_in_place,
    rows_missing,
    transforms,
    two_apart,
)
from regweave.convolution.planes.pairing import paired_tile
from regweave.convolution.planes.rolled import rolled_choice, rolled_tile
from regweave.convolution.planes.shapes import flat_shape, held_shape, shape_of
from regweave.convolution.planes.small_maps import best_fold
from regweave.convolution.planes.strips import (
    LINE,
    SHARERS,
    band_rows_of,
    block_sizes,
    goes_by_blocks,
    lines_of,
    most_rows_of,
    row_transform,
    shared_columns,
    strip_columns,
    strip_widths,
)
from regweave.kernels.common.epilogue import Epilogue
from regweave.kernels.convolution import ConvTile
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise

#: Filters of which all of a transform's products find room, at most, for these to be taken one after the
#: other from FEW_TAPS on; kernel columns of all channels from which on that pays else.
_FEW_TOGETHER, _MANY_TAPS = 4, 144
#: The same of machines whose registers hold all products of two filters.
_LEAST_TAPS = 3
#: Weights up to which a filter of one channel waits for memory rather than for its products. Its results go
#: past the caches in lines of two vectors, too, but where loads look as if they read them. AVX2, 3 x 3 of 1
#: to 4 channels: at 2160 x 3840 9.4 instead of 16.4 ms, at 4096 x 4096 184 instead of 53; 5 x 5 at
#: 1080 x 1920 6.7 instead of 5.5.
_FEW_PRODUCTS = 9
#: Kernel columns that are written out, at most.
_MOST_TOGETHER = 7


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
    threads = 1 if many_weights(c, threads) else threads
    lines, stream = stream, stream and machine.vector_bytes == LINE
    asked, form = form, form_of(c, form, machine)
    if form == "transformed":
        in_place = planes_in_place(c, form) if neighbours else ()
        return _transformed(c, machine, dense=dense, stream=stream, epilogue=epilogue, in_place=in_place)
    apart = form == "polyphase" and asked is None and two_apart(c) and neighbours and dense
    if apart and held_shape(c, machine, c.horizontal.outputs, epilogue, direct=True):
        form = "none"
    direct = form == "none" and neighbours and read_in_place(c, machine)
    strip = c.horizontal.outputs if direct else strip_columns(c, machine, form, 1)
    separable = separable and form == "none" and c.horizontal.stride == 1
    if dense and direct:
        late = late and lines
        paired = paired_tile(c, machine, epilogue, late=late) if asked is None and not separable else None
        rolled = paired or rolled_tile(c, machine, epilogue, separable=separable, clash=clash)
        if rolled:
            tile = replace(rolled, edges=_edges(c, machine), stream=lines, lagging=late)
            return rolled_choice(c, machine, tile, threads)
        if asked is None and _evades(c, machine, clash=clash):
            in_place = planes_in_place(c, "transformed")
            return _transformed(c, machine, dense=dense, stream=stream, epilogue=epilogue, in_place=in_place)
    shape = None
    if dense:
        shape = held_shape(c, machine, strip, epilogue, separable=separable, direct=direct, form=form)
    if form == "none" and c.horizontal.stride != 1 and not (direct and shape):
        raise no_form_none(c)
    in_place = planes_in_place(c, form) if neighbours else ()
    by = best_fold(c, machine, form) if in_place and dense and not (direct or shape or stream) else None
    map_, c = c, unfolded(c, by)
    strip = strip_columns(c, machine, form, by.rows) if by else strip
    columns = c.horizontal.kernel if shape else 0
    far = shape.far if shape else 0
    registers = len(machine.register_class("vector").registers) - (direct and machine.mask_class == "vector")
    spared = direct and (columns > 0 or not rows_missing(c))  # of strips
    most_rows = 1 if by else registers if spared else most_rows_of(c, machine, form)
    rows, outputs, vectors = (
        (shape.rows, 1, shape.vectors) if shape else shape_of(c, machine, registers, strip, most_rows)
    )
    if not spared:
        strip = min(strip, strip_columns(c, machine, form, by.rows if by else rows))
    strip = min(strip, shared_columns(c, machine, rows, threads))
    by_column = rows > 1 or columns > 0
    sizes = block_sizes(c, machine, strip, vectors)
    if shape and direct and lines and not late and c.vertical.kernel * columns <= _FEW_PRODUCTS:
        stream = not any(size * machine.vector_bytes % LINE for size in sizes)
    tiles = even_parts(c.group_filters, outputs)
    tile = ConvTile(
        outputs=tuple(sorted(set(tiles), reverse=True)),
        rows=rows,
        vectors=sizes,
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
        taps_together=_together(c, machine) if not by_column else 1,
        halves=_halves(c, machine, strip),
        stream=stream,
        dense=dense,
        epilogue=epilogue,
        in_place=in_place,
        in_place_step=c.horizontal.stride,
        image_pieces=most_image_pieces(map_, by, machine.lanes) if by else 0,
        result_pieces=most_result_pieces(map_, by, machine.lanes) if by else 0,
        by_blocks=not direct and goes_by_blocks(c, machine, form, strip, by.rows if by else rows),
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
    by = best_fold(c, machine, "transformed") if in_place and dense and not stream else None
    map_, c = c, unfolded(c, by)
    strip = strip_columns(c, machine, "transformed", by.rows if by else t.outputs)
    outputs, vectors = (registers - 2) // t.products, 1
    few = machine.mask_class == "vector"  # registers: costly activations would not spare them loads
    least = _MANY_TAPS if outputs >= _FEW_TOGETHER else _LEAST_TAPS if few else FEW_TAPS
    worth = c.group_channels * c.horizontal.kernel >= least
    outputs = max(1, min(c.group_filters, outputs))
    apart = worth and dense and (few or Epilogue(epilogue, by_vector=False).direct)
    if apart:
        outputs, vectors = flat_shape(machine, registers, c.group_filters, -(-strip // machine.lanes))
    tiles = even_parts(c.group_filters, outputs)
    tile = ConvTile(
        outputs=tuple(sorted(set(tiles), reverse=True)),
        rows=t.products,
        vectors=block_sizes(c, machine, strip, vectors),
        kernel_rows=t.products,
        stream=stream,
        dense=dense,
        epilogue=epilogue,
        halves=_halves(c, machine, strip),
        transform=t,
        apart=apart,
        taps_together=_together(c, machine) if apart else 1,
        in_place=in_place,
        in_place_step=c.horizontal.stride,
        image_pieces=most_image_pieces(map_, by, machine.lanes) if by else 0,
        result_pieces=most_result_pieces(map_, by, machine.lanes) if by else 0,
        by_blocks=goes_by_blocks(c, machine, "transformed", strip, by.rows if by else t.outputs),
    )
    # which rows are a group decides how they round: the bits must not depend on the number of threads
    band = by.rows if by else band_rows_of(c, machine, "transformed", strip, t.outputs, SHARERS)
    return Choice("transformed", tile, tiles, strip, band, by)


def _evades(c: Convolution, machine: VectorMachine, *, clash: bool) -> bool:
    """Whether rows of channels that compete for a cache are better transformed, a channel after the other,
    than read by turns.

    AVX2, 3 x 3 of 3 to 3 channels: at 4096 x 16384 226 instead of 280 ms; at 4096 x 16128, where planes do
    not compete, 154 instead of 134.
    """
    wide = min(c.vertical.kernel, c.horizontal.kernel) > 2
    return clash and machine.mask_class == "vector" and c.group_channels > 1 and wide and transforms(c)


def _together(c: Convolution, machine: VectorMachine) -> int:
    """Taps that are written out, of a kernel row: where registers are few a tap is few products."""
    columns = c.horizontal.kernel
    return columns if machine.mask_class == "vector" and columns <= _MOST_TOGETHER else 1


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
