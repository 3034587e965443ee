"""Channels last: bands of rows and windows of columns, and the memory of a part of the work.

    strip[line][pixel][channel]             rows of a band with their padding
    stage[product][group][pixel][filter]    products of transformed rows that are made one after the other

Each tile of filters reads a window again, which therefore stays in a core's own cache. All windows are
equally wide and all bands equally high, so that they share their tables; the last ones take pixels again.
"""

from __future__ import annotations

from bisect import bisect_left

from regweave.convolution.channels_last.shapes import FAR_BYTES, FILL_BYTES, NEAR_BYTES
from regweave.convolution.planes.strips import STRIP_BYTES, lines_of, strip_budget
from regweave.kernels.channels_last import DenseTile, DepthTile
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution

#: Bytes of the image that a band of a window reads, at most: each tile of filters reads them again.
_WINDOW_BYTES = 448 * 1024
#: Units that each thread finds; numbers of windows that are weighed; tiles of a row up to which threads do
#: without.
_UNITS, _WINDOWS, _FEW_TILES = 4, 4, 4


def line_bytes(c: Convolution, columns: int) -> int:
    """Bytes of a row of a strip for so many output columns: room for a vector more, not a page apart."""
    axis = c.horizontal
    size = 4 * c.channels * ((columns - 1) * axis.stride + axis.span) + 64
    size = -(-size // 64) * 64
    return size + 64 * (size % 4096 == 0)


def strip_rows(c: Convolution, tile: DenseTile | DepthTile, rows: int) -> int:
    """Rows of a strip for so many output rows; without a strip, image rows."""
    t = tile.transform
    return lines_of(c, rows) if t is None else -(-rows // t.outputs) * t.products


def stage_bytes(
    tile: DenseTile | DepthTile, machine: VectorMachine, rows: int, columns: int
) -> tuple[int, int]:
    """(bytes of a pixel, bytes of a product of all pixels) on the stage, for so many output rows and
    columns."""
    if not isinstance(tile, DenseTile) or not tile.staged:
        return 0, 0
    pixel = max(tile.vectors) * machine.vector_bytes
    return pixel, pixel * columns * -(-rows // (1 if tile.transform is None else tile.transform.outputs))


def part_bytes(
    c: Convolution, tile: DenseTile | DepthTile, machine: VectorMachine, rows: int, columns: int
) -> int:
    """Bytes of one part of the work, for bands of so many output rows of windows of so many columns."""
    if not tile.strip:
        return stage_bytes(tile, machine, rows, columns)[1]
    t = tile.transform
    found = line_bytes(c, columns) * (strip_rows(c, tile, rows) + (t is not None))
    return found + (stage_bytes(tile, machine, rows, columns)[1] * t.products if t else 0)


def window(c: Convolution, tile: DenseTile, machine: VectorMachine, *, threads: int) -> tuple[int, int]:
    """(output rows of a band, columns of a window): what costs least of tiles that take pixels again, rows
    that go to strips, and weights that each band reads anew."""
    down, across = c.axes
    t, length, strip = tile.transform, tile.length, tile.strip
    budget = min(_WINDOW_BYTES, strip_budget(c)) if strip else _WINDOW_BYTES
    weights = 4 * c.group_filters * c.group_channels * down.kernel * across.kernel
    shared = threads > 1 and c.groups * weights <= STRIP_BYTES
    step = 1 if t is None else t.outputs
    saved = 1.0 if t is None else t.products / (t.outputs * t.taps)

    def fits(columns: int, rows: int) -> bool:
        read = line_bytes(c, columns) * lines_of(c, rows)
        return (part_bytes(c, tile, machine, rows, columns) if strip else read) <= budget

    def width(windows: int) -> int:
        each = -(-across.outputs // windows)
        return min(across.outputs, -(-each // length) * length)

    def total(columns: int, rows: int) -> float:
        units = c.batch * -(-down.outputs // rows) * -(-across.outputs // columns)
        if shared and units < _UNITS * threads and (rows > step or columns > _FEW_TILES * tile.pixels):
            return float("inf")
        places = -(-rows // step) * -(-columns // length)
        tiles = places if tile.fused else -(-places // len(tile.spans))
        found = tiles * tile.length * tile.entries * weights * saved * step / 64
        found += c.groups * weights / (NEAR_BYTES if weights <= STRIP_BYTES else FAR_BYTES)
        found += line_bytes(c, columns) * strip_rows(c, tile, rows) / FILL_BYTES if strip else 0
        return found * units

    def bands_of(columns: int) -> range:
        heights = range(step, down.outputs + step, step)
        return heights[: max(1, bisect_left(heights, True, key=lambda rows: not fits(columns, rows)))]

    most = -(-across.outputs // length)
    # a row may be cut into millions of windows, an image into as many bands: halving finds how many
    first = 1 + bisect_left(range(1, most), True, key=lambda windows: fits(width(windows), step))
    choices = [
        (rows, columns)
        for columns in {width(n) for n in range(first, min(first + _WINDOWS, most) + 1)}
        for rows in bands_of(columns)
    ]
    rows, columns = min(choices, key=lambda pair: (total(pair[1], pair[0]), -pair[0], -pair[1]))
    return rows if t is not None else min(rows, down.outputs), columns
