"""A convolution of channels last as machine code: kernel, tables and packed weights for arrays of one shape.

    native = LastConvolution(c, choice, x_strides, y_strides, threads)
    native.run(x, y, pack_last(c, choice, weights, bias))

The kernels read pixels where they are; only where there is padding, a band's rows are copied with it first.
Depthwise kernels step over padding instead.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from regweave.cascades.running import job_parts
from regweave.convolution.channels_last import tables
from regweave.convolution.channels_last.choice import LastChoice
from regweave.convolution.channels_last.runs import piece
from regweave.convolution.channels_last.windows import line_bytes, part_bytes, stage_bytes, strip_rows
from regweave.convolution.planes.strips import STRIP_BYTES, lines_of, strip_limit
from regweave.convolution.pool import CallPool
from regweave.devices import cpu
from regweave.kernels.channels_last import (
    BandEntry,
    DenseTile,
    DepthTile,
    FilterEntry,
    LastArguments,
    SpanEntry,
    WindowEntry,
    last_kernel,
)
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution
from regweave.values import frozen


@lru_cache(maxsize=64)
def _loaded(tile: DenseTile | DepthTile, machine: VectorMachine) -> cpu.Function:
    """The kernel `void conv(const LastArguments *, size_t part)` of a tile."""
    return cpu.load_made(lambda: last_kernel(tile, machine), f"convolution {tile!r}", machine)


class LastConvolution:
    """A convolution of one shape, for images and results of given strides in bytes (batch, channel, row,
    pixel), whose channels lie side by side."""

    def __init__(
        self,
        c: Convolution,
        choice: LastChoice,
        x_strides: Sequence[int],
        y_strides: Sequence[int],
        threads: int,
    ) -> None:
        self.choice, self.threads = choice, threads
        self.kernel = _loaded(choice.tile, choice.machine)
        tile, rows, columns = choice.tile, choice.band_rows, choice.window_columns
        down, across = c.axes
        pixel, line = x_strides[3], x_strides[2]
        strip = 4 * c.channels, line_bytes(c, columns)
        reads = strip if tile.strip else (pixel, line)
        t = tile.transform
        starts = tables.starts(across, columns)
        windows = [tables.window_entry(across, first, pixel, y_strides[3]) for first in starts]
        depth = isinstance(tile, DepthTile)
        stage = stage_bytes(tile, choice.machine, rows, columns)
        if isinstance(tile, DenseTile) and tile.split > 1:
            masks = tables.pixel_masks(choice.machine, tile, c.group_filters)
        else:
            masks = tables.masks(choice.machine, c.channels if depth else c.group_filters)
        split = 1 if depth else tile.split
        if depth:
            spans = tables.depth_spans(across, tile, pixel, y_strides[3])
            filters, runs, length, tiles = [FilterEntry(1, 0, 0, 0, masks.ctypes.data)], [0], 0, len(spans)
        else:
            steps = (stage[0] * columns, stage[0]) if tile.staged else tuple(y_strides[2:])
            spans = tables.dense_spans(c, tile, rows, columns, reads, steps)
            filters = tables.filters(c, choice, masks, strip[1], stage[1], y_strides[1])
            runs, length = tables.runs(c, choice, reads), choice.runs.length
            tiles = len(spans) // tile.entries
        bands = tables.bands(down, rows, line, y_strides[2], tiles, tile, columns)
        self._masks = masks
        self._tables = (
            (BandEntry * len(bands))(*bands),
            (WindowEntry * len(windows))(*windows),
            (SpanEntry * len(spans))(*spans),
            (FilterEntry * len(filters))(*filters),
            np.array(runs, np.int64),
        )
        addresses = [
            ctypes.addressof(table) if isinstance(table, ctypes.Array) else table.ctypes.data
            for table in self._tables
        ]
        division = divide(c, choice, threads)
        self.parts = division.parts
        lines = lines_of(c, rows)
        arguments = LastArguments(
            **dict(zip(("bands", "windows", "spans", "filters", "runs"), addresses, strict=True)),
            run_count=len(runs),
            run_length=length // split,
            run_tail=length % split,
            piece_runs=max(1, piece(transformed=t is not None) // max(1, length)),
            filter_count=len(filters),
            shares=division.shares,
            share_filters=division.filters * (t.products if t and tile.staged else 1),
            band_count=len(bands),
            window_count=len(windows),
            x_image=x_strides[0],
            x_row=line,
            x_pixel=pixel,
            x_step=reads[0] * across.stride,
            x_element=x_strides[1],
            y_channel=y_strides[1],
            y_image=y_strides[0],
            y_row=y_strides[2],
            y_pixel=y_strides[3],
            height=down.size,
            width=across.size,
            lines=lines,
            window_pixels=(columns - 1) * across.stride + across.span,
            pixel_bytes=strip[0],
            dense=pixel == strip[0],
            strip_row=strip[1],
            columns=columns,
            stage_offset=strip[1] * strip_rows(c, tile, rows) if tile.strip else 0,
            stage_plane=stage[1],
            stage_pixel=stage[0],
            group_bytes=0 if t is None else t.outputs * t.stride * line,
            zero_bytes=0 if t is None else strip[1],
            vectors=-(-c.channels // choice.machine.lanes),
            last_vector=max(0, 4 * (c.channels - choice.machine.lanes)),
            batch=c.batch,
            parts=self.parts,
            scratch_bytes=scratch_bytes(c, choice),
        )
        self.run = CallPool(
            self.kernel, arguments, threads, choice.machine.vector_bytes, watched=tile.transform is not None
        ).run


@frozen
class Division:
    """How work is divided: shares of the filters, tiles of filters of a share (not more), parts."""

    shares: int
    filters: int
    parts: int


def divide(c: Convolution, choice: LastChoice, threads: int) -> Division:
    """The division of the work for so many threads."""
    down, across = c.axes
    tiles = 1 if isinstance(choice.tile, DepthTile) else c.groups * len(choice.tiles)
    units = c.batch * -(-down.outputs // choice.band_rows) * -(-across.outputs // choice.window_columns)
    filters = -(-tiles // _shares(c, tiles, units, threads))
    shares = -(-tiles // filters)
    parts = job_parts(2.0 * c.products, threads, min(units * shares, _most_parts(c, choice, threads)))
    return Division(shares, filters, parts)


def scratch_bytes(c: Convolution, choice: LastChoice) -> int:
    """Bytes of one part of the work for a strip."""
    return part_bytes(c, choice.tile, choice.machine, choice.band_rows, choice.window_columns)


def _most_parts(c: Convolution, choice: LastChoice, threads: int) -> int:
    """Parts that the work may be divided in: as many as strips have memory for, and one for each thread."""
    room = strip_limit(c) // max(1, scratch_bytes(c, choice))
    return max(threads, room // threads * threads)


def _shares(c: Convolution, tiles: int, units: int, threads: int) -> int:
    """Shares of the filters that are units of their own: of many weights, or where there are few units."""
    weights = 4 * c.filters * c.group_channels * c.vertical.kernel * c.horizontal.kernel
    return min(threads, tiles) if weights > STRIP_BYTES or units < threads else 1
