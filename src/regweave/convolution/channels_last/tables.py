"""Channels last: the tables that a kernel walks (see `kernels/channels_last/arguments.py`)."""

from __future__ import annotations

from itertools import product

import numpy as np

from regweave.convolution.channels_last.choice import LastChoice
from regweave.kernels.channels_last import (
    BandEntry,
    DenseTile,
    DepthTile,
    FilterEntry,
    SpanEntry,
    WindowEntry,
)
from regweave.machines.x86 import VectorMachine
from regweave.operators import Axis, Convolution


def starts(axis: Axis, count: int) -> list[int]:
    """First outputs of parts of `count`, the last of which ends with the axis."""
    return [min(first, axis.outputs - count) for first in range(0, axis.outputs, count)]


def bands(
    axis: Axis, rows: int, x_row: int, y_row: int, tiles: int, tile: DenseTile | DepthTile, columns: int
) -> list[BandEntry]:
    """Bands of `rows` output rows; how groups of transformed rows round must not depend on the band, so they
    never begin earlier: the last band may be lower."""
    entries, t = [], tile.transform
    for first in range(0, axis.outputs, rows) if t else starts(axis, rows):
        line, height = first * axis.stride - axis.before, min(rows, axis.outputs - first)
        lines = (rows - 1) * axis.stride + axis.span
        groups = -(-height // t.outputs) if t else 1
        done = tiles
        if isinstance(tile, DenseTile) and t:
            done = min(tiles, -(-groups * -(-columns // tile.length) // tile.entries))
        bits = _bits(axis, line, lines)
        entries.append(BandEntry(line, line * x_row, first * y_row, bits, height, groups, done))
    return entries


def _bits(axis: Axis, start: int, count: int) -> int:
    """A bit for each of `count` elements from `start` on that the axis has; of few, the rest is not asked."""
    return sum(1 << i for i in range(min(count, 32)) if 0 <= start + i < axis.size)


def window_entry(axis: Axis, first: int, x_pixel: int, y_pixel: int) -> WindowEntry:
    pixel = first * axis.stride - axis.before
    return WindowEntry(pixel, pixel * x_pixel, first * y_pixel)


def depth_spans(axis: Axis, tile: DepthTile, x_pixel: int, y_pixel: int) -> list[SpanEntry]:
    spans = []
    for first in starts(axis, tile.columns):
        start = first * axis.stride
        bits = _bits(axis, start - axis.before, tile.image_columns[-1] + 1)
        spans.append(SpanEntry(start * x_pixel, first * y_pixel, bits))
    return spans


def dense_spans(
    c: Convolution, tile: DenseTile, rows: int, columns: int, reads: tuple[int, int], y_steps: tuple[int, ...]
) -> list[SpanEntry]:
    """The spans of all tiles of a band in a window; a last tile that would be short takes some again."""
    down, across = c.axes
    length, t = tile.length, tile.transform
    step, x_step = (1, down.stride * reads[1]) if t is None else (t.outputs, t.products * reads[1])
    firsts = [min(first, columns - length) for first in range(0, columns, length)]
    entries = [
        (
            group * x_step + first * across.stride * reads[0],
            (group if tile.staged else row) * y_steps[0] + first * y_steps[1],
            0,
            row,
        )
        for (group, row), first in product(enumerate(range(0, rows, step)), firsts)
    ]
    if len(entries) < tile.entries:
        entries = [entries[number % len(entries)] for number in range(tile.entries)]
    whole = len(entries) // tile.entries * tile.entries
    taken = entries[:whole] + (entries[-tile.entries :] if whole < len(entries) else [])
    return [SpanEntry(*entry) for entry in taken]


def filters(
    c: Convolution, choice: LastChoice, masks: np.ndarray, strip_row: int, plane: int, y_filter: int
) -> list[FilterEntry]:
    entries, weights, lanes, tile = [], 0, choice.machine.lanes, choice.tile
    t = tile.transform
    products = t.products if t and tile.staged else 1
    assert isinstance(tile, DenseTile)
    steps = choice.runs.steps(tile.split) * (t.products if t else 1)
    step = 4 * lanes * (1 + steps // products)
    for group in range(c.groups):
        x, y = 4 * group * c.group_channels, y_filter * group * c.group_filters
        for number, vectors in enumerate(choice.tiles, 1):
            mask = masks[int(number < len(choice.tiles))].ctypes.data
            for made in range(products):
                to = made * plane if tile.staged else y
                last = made + 1 == products
                entries.append(FilterEntry(vectors, weights, x + made * strip_row, to, mask, y, last))
                weights += vectors * step
            y += y_filter * lanes * vectors
    return entries


def runs(c: Convolution, choice: LastChoice, reads: tuple[int, int]) -> list[int]:
    """Bytes from the end of each run to the start of the next one."""
    down, across = c.axes
    r, size, at, starts = choice.runs, 4 * choice.runs.length, 0, []
    for row, column, part in product(*(range(n) for n in (r.rows, r.columns, r.pieces))):
        start = row * down.dilation * reads[1] + column * across.dilation * reads[0] + part * size
        starts.append(start - at)
        at = start + size
    return starts


def masks(machine: VectorMachine, count: int) -> np.ndarray:
    """[2, bytes]: the mask of the last of so many lanes' vectors, that of a whole vector."""
    ends = np.array([[count % machine.lanes or machine.lanes], [machine.lanes]])
    return _masks(machine, np.arange(machine.lanes) < ends)


def pixel_masks(machine: VectorMachine, tile: DenseTile, filters: int) -> np.ndarray:
    """[pixels of a vector, bytes], where lanes share a filter: the lanes of each pixel; of joined pixels
    those of the first one, the first two, ..."""
    lanes, pixels = np.arange(machine.lanes), np.arange(tile.split)[:, None]
    if tile.joined:
        return _masks(machine, lanes < (pixels + 1) * tile.joined)
    first = pixels * (machine.lanes // tile.split)
    return _masks(machine, (lanes >= first) & (lanes < first + filters))


def _masks(machine: VectorMachine, lanes: np.ndarray) -> np.ndarray:
    if machine.mask_class == "vector":
        return (-lanes.astype(np.int32)).view(np.uint8)
    return np.packbits(lanes, axis=1, bitorder="little")
