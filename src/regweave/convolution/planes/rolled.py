"""Bands that are gone through from top to bottom (see kernels.convolution.rolling): tile, strips and bands.

    one channel to one filter, 5 x 5     a vector at a time, 5 rows of sums under way, 25 weights held
    the same, a column times a row       2 vectors at a time, 10 weights
    of 16 registers                      2 vectors at a time: 10 sums, and weights as they are met

That is for kernels whose weights, or sums, find registers, rows that follow one another, and images of some
height: a band begins and ends with rows of which only a part is wanted.
"""

from __future__ import annotations

from dataclasses import replace

from regweave.convolution.planes.chosen import Choice, band_bytes
from regweave.convolution.planes.strips import LINE, block_sizes, strip_limit
from regweave.kernels.common.epilogue import Epilogue
from regweave.kernels.convolution import ConvTile
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise

#: Output rows at least; vectors of a block at most, and of a strip.
_LEAST_ROWS, _MOST_VECTORS, _STRIP_VECTORS = 32, 2, 512
#: Filters of a group at most.
_MOST_FILTERS = 2
#: Image rows of a group at most; those of all channels, as many as lines of a set of the first-level cache.
_MOST_GROUP, _SET_LINES = 7, 8
#: The share of a filter's weights that may be left in memory, and of two filters'. Of short rows of one
#: channel less where registers are many: such rows seldom compete for a cache, and a tile of several rows and
#: vectors shares the weights that it loads.
_MOST_FAR, _MOST_FAR_OF_TWO, _MOST_FAR_SHORT = 0.8, 0.5, 1 / 3
#: Results of a row from which on it is not short.
_LONG_ROW = 1024
#: Bytes of a row that are copied at a time where planes compete for a cache.
_COPIED_BYTES = 1024
#: Rows of a band at least; those from which on each thread gets two.
_LEAST_BAND, _LONG_BAND = 16, 64
#: Threads that there is memory for, however many there are.
_SHARERS = 4


def rolled_tile(
    c: Convolution,
    machine: VectorMachine,
    epilogue: tuple[Elementwise, ...],
    *,
    separable: bool,
    clash: bool = False,
) -> ConvTile | None:
    """The tile but for its edges and stores; None where rows cannot be taken so, or are few. `clash`: planes
    are such a distance apart that a cache does not hold lines of several of them."""
    height = c.vertical.kernel
    if (
        c.group_filters > _MOST_FILTERS  # more of them are better multiplied by a tile of several filters
        or c.vertical.stride * c.vertical.dilation * c.horizontal.stride > 1
        or height < 2
        or c.vertical.outputs < _LEAST_ROWS
        or not Epilogue(epilogue, by_vector=False).direct
    ):
        return None
    shape = _repeated(c, machine, epilogue, separable) or _held(c, machine, epilogue, separable)
    if shape is None:
        return None
    outputs, vectors, far = shape
    rows = height * max(1, _MOST_GROUP // height) if height < _MOST_GROUP else _MOST_GROUP
    return ConvTile(
        outputs=(outputs,),
        rows=min(rows, max(1, _SET_LINES // c.group_channels)),
        vectors=(vectors,),
        kernel_rows=height,
        kernel_columns=c.horizontal.kernel,
        separable=separable,
        column_bytes=4 * c.horizontal.dilation,
        direct=True,
        far_weights=far,
        rolling=True,
        channels=c.group_channels,
        epilogue=epilogue,
        copied=_COPIED_BYTES // machine.vector_bytes if clash and c.group_channels > 1 else 0,
    )


def _held(
    c: Convolution, machine: VectorMachine, epilogue: tuple[Elementwise, ...], separable: bool
) -> tuple[int, int, int] | None:
    """Filters, vectors and weights that find no register, where as many as possible are held."""
    height = c.vertical.kernel
    registers = len(machine.register_class("vector").registers) - (machine.mask_class == "vector")
    registers -= 1 + separable + bool(epilogue)
    short = machine.mask_class == "mask" and c.group_channels == 1 and c.horizontal.outputs < _LONG_ROW
    most_far = _MOST_FAR_SHORT if short else _MOST_FAR
    for outputs in (1,) if separable else range(c.group_filters, 0, -1):
        weights = outputs * c.group_channels * (height * c.horizontal.kernel)
        if separable:
            weights = height + c.horizontal.kernel
        room = registers - weights
        vectors = min(
            _MOST_VECTORS, -(-c.horizontal.outputs // machine.lanes), max(1, room // (outputs * height))
        )
        sums = outputs * height * vectors
        far = sums - room + 1 if sums > room else 0
        if far <= weights * (0 if separable else most_far if outputs == 1 else _MOST_FAR_OF_TWO):
            return outputs, vectors, far
    return None


def _repeated(
    c: Convolution, machine: VectorMachine, epilogue: tuple[Elementwise, ...], separable: bool
) -> tuple[int, int, int] | None:
    """The same of a machine of few registers, which loads a weight for two vectors at a time: as many sums as
    it takes to multiply without waiting, and whole lines of results.

    5 x 5: 10 sums, 2 image vectors, a weight and a mask leave 2 of 16 registers for weights.
    """
    if machine.mask_class == "mask" or c.horizontal.outputs < 2 * machine.lanes:
        return None
    registers = len(machine.register_class("vector").registers) - _MOST_VECTORS - 2 - bool(epilogue)
    registers -= _MOST_VECTORS - 1 if separable else 0  # sums of a row, one image vector at a time
    height, width = c.vertical.kernel, c.horizontal.kernel
    for outputs in (1,) if separable else range(c.group_filters, 0, -1):
        weights = height + width if separable else outputs * c.group_channels * (height * width)
        room = registers - outputs * height * _MOST_VECTORS
        if room >= 0:
            return outputs, _MOST_VECTORS, max(0, weights - room)
    return None


def rolled_choice(c: Convolution, machine: VectorMachine, tile: ConvTile, threads: int) -> Choice:
    """The choice with that tile: strips as wide as there is memory for, bands for all threads."""
    columns, lanes = c.horizontal.outputs, max(machine.lanes, LINE // 4)
    vectors, limit = -(-columns // lanes), strip_limit(c) // max(threads, _SHARERS)
    strips = -(-vectors // _STRIP_VECTORS)
    while (strip := -(-vectors // strips) * lanes) > lanes and band_bytes(c, machine, strip, tile) > limit:
        strips += 1
    sizes = block_sizes(c, machine, strip, max(tile.vectors))
    lines = tile.stream and not any(size * machine.vector_bytes % LINE for size in sizes)
    # loads of copies need not wait for stores: with AVX2 3 x 3 of 4 channels to 1 takes 116 instead of 168 ms
    prompt = tile.copied > 0 and machine.mask_class == "vector"
    tile = replace(tile, vectors=sizes, stream=lines, lagging=tile.lagging and lines and not prompt)
    rows, units = c.vertical.outputs, c.batch * c.groups * -(-columns // strip)
    bands = -(-2 * threads // units) if threads > 1 else 1
    if rows < bands * _LONG_BAND:
        bands = min(-(-threads // units), max(1, rows // _LEAST_BAND))
    step = 2 if tile.paired else 1
    band = -(-rows // (bands * step)) * step
    return Choice("none", tile, tile.outputs * (c.group_filters // tile.outputs[0]), strip, band)
