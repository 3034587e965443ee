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
from itertools import product

import numpy as np

from regweave.cascades.arrays import address_of, aligned_bytes
from regweave.cascades.running import job_parts
from regweave.cascades.threads import run
from regweave.convolution.last_choice import LastChoice, line_bytes, piece, strip_rows
from regweave.convolution.strips import STRIP_BYTES, lines_of
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
from regweave.kernels.convolution import Transform
from regweave.machines.x86 import VectorMachine
from regweave.operators import Axis, Convolution


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
        starts = _starts(across, columns)
        windows = [_window(across, first, pixel, y_strides[3]) for first in starts]
        depth = isinstance(tile, DepthTile)
        masks = _masks(choice.machine, c.channels if depth else c.group_filters)
        if depth:
            spans = _depth_spans(across, tile, pixel, y_strides[3])
            filters, runs, length, tiles = [FilterEntry(1, 0, 0, 0, masks.ctypes.data)], [0], 0, len(spans)
        else:
            spans = _dense_spans(c, tile, rows, columns, reads, y_strides[2:])
            filters = _filters(c, choice, masks)
            runs, length = _runs(c, reads, t)
            tiles = len(spans) // tile.entries
        bands = _bands(down, rows, line, y_strides[2], tiles, t)
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
        flops = 2.0 * c.products
        shares = _shares(c, len(filters), c.batch * len(bands) * len(windows), threads)
        each = -(-len(filters) // shares)
        shares = -(-len(filters) // each)
        units = c.batch * shares * len(bands) * len(windows)
        self.parts = job_parts(flops, threads, units)
        lines = lines_of(c, rows)
        self._arguments = LastArguments(
            **dict(zip(("bands", "windows", "spans", "filters", "runs"), addresses, strict=True)),
            run_count=len(runs),
            run_length=length,
            piece_runs=max(1, piece(transformed=t is not None) // max(1, length)),
            filter_count=len(filters),
            shares=shares,
            share_filters=each,
            band_count=len(bands),
            window_count=len(windows),
            x_image=x_strides[0],
            x_row=line,
            x_pixel=pixel,
            x_step=reads[0] * across.stride,
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
            group_bytes=0 if t is None else t.outputs * t.stride * line,
            zero_bytes=0 if t is None else strip[1],
            vectors=-(-c.channels // choice.machine.lanes),
            last_vector=max(0, 4 * (c.channels - choice.machine.lanes)),
            batch=c.batch,
            parts=self.parts,
            scratch_bytes=scratch_bytes(c, choice),
        )
        self.flag_bytes = choice.machine.vector_bytes
        self._free: list[tuple[LastArguments, np.ndarray, np.ndarray]] = []

    def run(self, x: int, y: int, packed: np.ndarray) -> bool:
        """The result at address `y` of the image at address `x`; False if this form is not for its values."""
        try:
            arguments, scratch, flags = self._free.pop()
        except IndexError:
            scratch = aligned_bytes(self.parts * self._arguments.scratch_bytes)
            arguments = LastArguments.from_buffer_copy(self._arguments)
            arguments.scratch = scratch.ctypes.data
            flags = aligned_bytes(self.parts * self.flag_bytes).view(np.float32)
            arguments.flags = flags.ctypes.data
        arguments.x, arguments.y, arguments.packed = x, y, address_of(packed)
        run(self.kernel.address, ctypes.addressof(arguments), self.parts, self.threads)
        finite = self.choice.tile.transform is None or not np.isnan(flags).any()
        self._free.append((arguments, scratch, flags))
        return bool(finite)


def scratch_bytes(c: Convolution, choice: LastChoice) -> int:
    """Bytes of one part of the work for a strip."""
    if not choice.tile.strip:
        return 0
    lines = strip_rows(c, choice.tile, choice.band_rows) + (choice.tile.transform is not None)
    return lines * line_bytes(c, choice.window_columns)


def pack_last(c: Convolution, choice: LastChoice, weights: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """For each tile of filters, or vector of channels: its biases, then the weights of each tap."""
    lanes = choice.machine.lanes
    start = np.zeros(c.filters, np.float32) if bias is None else bias
    if isinstance(choice.tile, DepthTile):
        whole = np.concatenate([start[None], weights.reshape(c.channels, -1).T])
        firsts = [min(v, max(0, c.channels - lanes)) for v in range(0, c.channels, lanes)]
        return _vectors([whole[:, first : first + lanes] for first in firsts], lanes)
    by_group = weights.reshape(c.groups, c.group_filters, *weights.shape[1:])
    t = choice.tile.transform
    if t is not None:  # the products of a step stand together
        by_group = np.einsum("pr,gfcrk->gkcpf", t.filter, by_group)
    else:
        by_group = by_group.transpose(0, 3, 4, 2, 1)
    taps = by_group.reshape(c.groups, -1, c.group_filters)
    whole = np.concatenate([start.reshape(c.groups, 1, c.group_filters), taps], axis=1)
    parts = []
    for group in whole:
        first = 0
        for vectors in choice.tiles:
            parts.append(_vectors([group[:, first : first + vectors * lanes]], vectors * lanes))
            first += vectors * lanes
    return np.concatenate(parts)


def _vectors(parts: Sequence[np.ndarray], width: int) -> np.ndarray:
    """[taps, up to `width`] arrays one after the other, filled up with zeros; at a cache line."""
    rows = len(parts[0])
    packed = aligned_bytes(4 * len(parts) * rows * width).view(np.float32).reshape(len(parts), rows, width)
    packed[...] = 0
    for number, part in enumerate(parts):
        packed[number, :, : part.shape[1]] = part
    return packed.reshape(-1)


def _starts(axis: Axis, count: int) -> list[int]:
    """First outputs of parts of `count`, the last of which ends with the axis."""
    return [min(first, axis.outputs - count) for first in range(0, axis.outputs, count)]


def _bands(axis: Axis, rows: int, x_row: int, y_row: int, tiles: int, t: Transform | None) -> list[BandEntry]:
    """Bands of `rows` output rows; how groups of transformed rows round must not depend on the band, so they
    never begin earlier: the last band may be lower."""
    entries = []
    for first in range(0, axis.outputs, rows) if t else _starts(axis, rows):
        line, height = first * axis.stride - axis.before, min(rows, axis.outputs - first)
        lines = (rows - 1) * axis.stride + axis.span
        groups = -(-height // t.outputs) if t else 1
        done = tiles * groups // -(-rows // t.outputs) if t else tiles
        bits = _bits(axis, line, lines)
        entries.append(BandEntry(line, line * x_row, first * y_row, bits, height, groups, done))
    return entries


def _bits(axis: Axis, start: int, count: int) -> int:
    """A bit for each of `count` elements from `start` on that the axis has; of few, the rest is not asked."""
    return sum(1 << i for i in range(min(count, 32)) if 0 <= start + i < axis.size)


def _window(axis: Axis, first: int, x_pixel: int, y_pixel: int) -> WindowEntry:
    pixel = first * axis.stride - axis.before
    return WindowEntry(pixel, pixel * x_pixel, first * y_pixel)


def _depth_spans(axis: Axis, tile: DepthTile, x_pixel: int, y_pixel: int) -> list[SpanEntry]:
    spans = []
    for first in _starts(axis, tile.columns):
        start = first * axis.stride
        bits = _bits(axis, start - axis.before, tile.image_columns[-1] + 1)
        spans.append(SpanEntry(start * x_pixel, first * y_pixel, bits))
    return spans


def _dense_spans(
    c: Convolution, tile: DenseTile, rows: int, columns: int, reads: tuple[int, int], y_steps: Sequence[int]
) -> list[SpanEntry]:
    """The spans of all tiles of a band in a window; a last tile that would be short takes some again."""
    down, across = c.axes
    length, t = tile.length, tile.transform
    step, x_step = (1, down.stride * reads[1]) if t is None else (t.outputs, t.products * reads[1])
    firsts = [min(first, columns - length) for first in range(0, columns, length)]
    entries = [
        (group * x_step + first * across.stride * reads[0], row * y_steps[0] + first * y_steps[1], 0, row)
        for (group, row), first in product(enumerate(range(0, rows, step)), firsts)
    ]
    if len(entries) < tile.entries:
        entries = [entries[number % len(entries)] for number in range(tile.entries)]
    whole = len(entries) // tile.entries * tile.entries
    taken = entries[:whole] + (entries[-tile.entries :] if whole < len(entries) else [])
    return [SpanEntry(*entry) for entry in taken]


def _filters(c: Convolution, choice: LastChoice, masks: np.ndarray) -> list[FilterEntry]:
    entries, weights, lanes = [], 0, choice.machine.lanes
    t = choice.tile.transform
    rows = c.vertical.kernel if t is None else t.products
    steps = 1 + c.group_channels * rows * c.horizontal.kernel
    for group in range(c.groups):
        y = 4 * group * c.group_filters
        for number, vectors in enumerate(choice.tiles, 1):
            mask = masks[int(number < len(choice.tiles))].ctypes.data
            entries.append(FilterEntry(vectors, weights, 4 * group * c.group_channels, y, mask))
            weights += 4 * lanes * vectors * steps
            y += 4 * lanes * vectors
    return entries


def _runs(c: Convolution, reads: tuple[int, int], t: Transform | None) -> tuple[list[int], int]:
    """(bytes from the end of each run to the start of the next one, elements of a run)."""
    down, across = c.axes
    length, columns = c.group_channels, across.kernel
    step = across.dilation * reads[0]
    if step == 4 * length:  # the pixels of a row of the kernel are neighbours
        length, columns = length * columns, 1
    pieces = _pieces(length, piece(transformed=t is not None))
    at, starts = 0, []
    for row, column, part in product(range(down.kernel if t is None else 1), range(columns), range(pieces)):
        start = row * down.dilation * reads[1] + column * step + part * 4 * (length // pieces)
        starts.append(start - at)
        at = start + 4 * (length // pieces)
    return starts, length // pieces


def _pieces(length: int, most: int) -> int:
    """Equal runs that a run of so many elements is cut into, for sums in pieces: few, if it can be."""
    least = -(-length // most)
    return next((count for count in range(least, 2 * least + 1) if length % count == 0), 1)


def _shares(c: Convolution, tiles: int, units: int, threads: int) -> int:
    """Shares of the filters that are units of their own: of many weights, or where there are few units."""
    weights = 4 * c.filters * c.group_channels * c.vertical.kernel * c.horizontal.kernel
    return min(threads, tiles) if weights > STRIP_BYTES or units < threads else 1


def _masks(machine: VectorMachine, count: int) -> np.ndarray:
    """[2, bytes]: the mask of the last of so many lanes' vectors, that of a whole vector."""
    lanes = np.arange(machine.lanes) < np.array([[count % machine.lanes or machine.lanes], [machine.lanes]])
    if machine.mask_class == "vector":
        return (-lanes.astype(np.int32)).view(np.uint8)
    return np.packbits(lanes, axis=1, bitorder="little")
