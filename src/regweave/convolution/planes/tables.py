"""The tables that a convolution kernel walks, made once for an image's shape and strides.

taps      where each weight's image element lies, from the first element of a block
strips    columns that are worked on together; their blocks of vectors, and the planes of a rearranged row
masks     of blocks at an edge: which lanes of the result exist, and per kernel column which the image has
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import product

import numpy as np

from regweave.convolution.forms import plane_of, plane_shifts
from regweave.convolution.planes.chosen import Choice
from regweave.convolution.planes.folds import Fold, Pieces, image_pieces, result_pieces, unfolded
from regweave.convolution.planes.strips import lines_of, plane_elements, row_form, strip_lines
from regweave.convolution.separable import factors
from regweave.kernels.convolution import BlockEntry, PlaneEntry, StripEntry, TileEntry
from regweave.machines.x86 import VectorMachine
from regweave.operators import Axis, Convolution
from regweave.values import frozen


@frozen(eq=False)
class Tables:
    """All tables of a convolution in memory; the fields are addresses for ConvArguments. Keep it alive."""

    taps: np.ndarray
    strip_taps: np.ndarray
    tap_masks: np.ndarray
    strips: ctypes.Array[StripEntry]
    plane_bytes: int
    planes: int
    kept: tuple[object, ...]


def make_tables(
    c: Convolution,
    choice: Choice,
    machine: VectorMachine,
    x_strides: Sequence[int],
    y_strides: Sequence[int],
) -> Tables:
    """Tables for an image whose strides (channel, row, element) are `x_strides` bytes, and a result whose
    strides (row, element) are `y_strides`."""
    y_row, y_element = y_strides
    map_, c = c, unfolded(c, choice.fold)
    form = row_form(c, choice.form)
    planes = plane_shifts(c.horizontal, form)
    columns = [plane_of(c.horizontal, form, tap) for tap in range(c.horizontal.kernel)]
    plane_bytes = 4 * plane_elements(c, machine, choice.form, choice.strip_columns)
    row = plane_bytes * len(planes)
    channel, line, element = x_strides
    axis = c.horizontal
    in_strip = [plane * plane_bytes + 4 * place for plane, place in columns]
    in_image = [(tap * axis.dilation - axis.before) * element for tap in range(axis.kernel)]
    mask_step = max(choice.tile.vectors) * _mask_bytes(machine)
    masks = [(1 + tap) * mask_step for tap in range(axis.kernel)]
    steps = (element, y_element, line, y_row)
    strips, kept = _strips(map_, choice, machine, planes, plane_bytes // 4, steps)
    lines = strip_lines(c, choice.form, choice.band_rows)
    return Tables(
        taps=_taps(c, choice, channel, line, in_image),
        strip_taps=_taps(c, choice, row * lines, row, in_strip),
        tap_masks=_taps(c, choice, 0, 0, masks),
        strips=strips,
        plane_bytes=plane_bytes,
        planes=len(planes),
        kept=kept,
    )


def tile_table(
    choice: Choice, taps: int, y_channel: int, groups: int = 1, x_group: int = 0
) -> ctypes.Array[TileEntry]:
    """The channel tiles of so many groups: sizes, where their weights, results and images start."""
    entries, weights, y = [], 0, 0
    for group, outputs in product(range(groups), choice.tiles):
        entries.append(TileEntry(outputs, weights, y, group * x_group))
        weights += 4 * outputs * (1 + taps)
        y += outputs * y_channel
    return (TileEntry * len(entries))(*entries)


def pack_weights(c: Convolution, choice: Choice, weights: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """Per group and channel tile: biases, then per tap (and its kernel rows, if any) the weights; of products
    that are apart one after the other."""
    filters, deep = c.group_filters, c.group_channels
    rows, columns = c.vertical.kernel, c.horizontal.kernel
    by_tap = weights.reshape(c.groups, filters, deep, rows, columns)
    combined = choice.tile.combined
    if combined is not None:
        by_tap = combined_weights("pr,gfdrc->gfdpc", combined.filter, by_tap)
        rows = combined.products
    if choice.tile.apart:
        by_tap = by_tap.transpose(0, 1, 3, 2, 4)
    elif choice.tile.by_column:
        by_tap = by_tap.swapaxes(3, 4)
    flat = by_tap.reshape(c.groups, filters, deep * rows * columns)
    if choice.tile.separable:
        found = factors(weights)
        assert found is not None
        flat = found.reshape(c.groups, filters, rows + columns)
    start = (
        np.zeros((c.groups, filters, 1), np.float32) if bias is None else bias.reshape(c.groups, filters, 1)
    )
    whole = np.concatenate([start, flat], axis=2)
    parts, at = [], 0
    for outputs in choice.tiles:
        part = whole[:, at : at + outputs].transpose(0, 2, 1)
        parts.append(np.ascontiguousarray(part, np.float32).reshape(c.groups, -1))
        at += outputs
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def combined_weights(letters: str, combining: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weights of products, f32, from those of the kernel's rows; `letters` as einsum's.

    Weights near the largest float may overflow here: results then are not finite, and are made again by a
    kernel that combines nothing.
    """
    with np.errstate(over="ignore"):
        return np.einsum(letters, combining, weights).astype(np.float32)


def _taps(c: Convolution, choice: Choice, channel: int, line: int, columns: Sequence[int]) -> np.ndarray:
    """Bytes per tap, channels outermost; a tap is one weight, or a column of them if the tile has rows."""
    rows = 1 if choice.tile.by_column else c.vertical.kernel
    channels = np.arange(c.group_channels, dtype=np.int64)[:, None, None] * channel
    lines = np.arange(rows, dtype=np.int64)[None, :, None] * (c.vertical.dilation * line)
    return np.ascontiguousarray(channels + lines + np.array(columns, np.int64)).reshape(-1)


def _mask_bytes(machine: VectorMachine) -> int:
    return machine.vector_bytes if machine.mask_class == "vector" else 2


def _strips(
    c: Convolution,
    choice: Choice,
    machine: VectorMachine,
    shifts: Sequence[int],
    size: int,
    steps: tuple[int, int, int, int],
) -> tuple[ctypes.Array[StripEntry], tuple[object, ...]]:
    map_, c = c, unfolded(c, choice.fold)
    axis, kept, entries = c.horizontal, [], []
    for first in range(0, axis.outputs, choice.strip_columns):
        width = min(choice.strip_columns, axis.outputs - first)
        cut = _planes(axis, shifts, first, size, steps[0])
        blocks, masks = _blocks(c, choice, machine, range(first, first + width), steps[1])
        kept += [cut, blocks, masks]
        if choice.fold is not None:
            kept.append(_result_pieces(map_, choice.fold, machine, blocks, max(choice.tile.vectors), steps))
        start = first * axis.stride * steps[0]
        entry = StripEntry(ctypes.addressof(blocks), len(blocks), ctypes.addressof(cut), start)
        if choice.fold is not None:
            kept.append(_image_pieces(entry, map_, choice, machine, first, size, steps))
        elif choice.tile.in_place:
            kept.append(_in_place(entry, axis, machine, first, size))
        entries.append(entry)
    return (StripEntry * len(entries))(*entries), tuple(kept)


def _image_pieces(
    entry: StripEntry,
    c: Convolution,
    choice: Choice,
    machine: VectorMachine,
    first: int,
    size: int,
    steps: tuple[int, int, int, int],
) -> Pieces:
    """Fills in where a folded strip's vectors come from, in the order in which they are loaded."""
    fold, t, step = choice.fold, choice.tile.transform, c.horizontal.stride
    assert fold is not None
    height, advance = (1, 1) if t is None else (t.image_rows, t.outputs * t.stride)
    groups = lines_of(c, fold.rows) if t is None else fold.rows // t.outputs
    vectors = size // machine.lanes
    order = [
        (group * advance + row, vector * step + part)
        for group in range(groups)
        for vector in range(vectors)
        for row in range(height)
        for part in range(step)
    ]
    found = image_pieces(c, fold, machine, first, order, steps[2])
    entry.source, entry.masks, entry.plane = found.places.ctypes.data, found.masks.ctypes.data, 4 * size
    entry.before = vectors
    return found


def _result_pieces(
    c: Convolution,
    fold: Fold,
    machine: VectorMachine,
    blocks: ctypes.Array[BlockEntry],
    most: int,
    steps: tuple[int, int, int, int],
) -> list[Pieces]:
    """Fills in where the vectors of blocks of a folded strip belong."""
    kept = []
    for block in blocks:
        starts = [block.y // steps[1] + vector * machine.lanes for vector in range(most)]
        kept.append(result_pieces(c, fold, machine, starts, steps[3]))
        block.places, block.masks = kept[-1].places.ctypes.data, kept[-1].masks.ctypes.data
    return kept


def _in_place(entry: StripEntry, axis: Axis, machine: VectorMachine, first: int, size: int) -> np.ndarray:
    """Fills in where planes of `size` elements, from output `first` on, are read; gives the masks' memory."""
    step, start = machine.lanes * axis.stride, first * axis.stride - axis.before
    vectors = size // machine.lanes
    before = min(-(min(0, start) // step), vectors)
    inside = max(0, min(vectors, (axis.size - start) // step) - before)
    wanted = range(-start, axis.size - start)
    ends = [*range(before), *range(before + inside, vectors)]
    masks = [_masks(machine, wanted, range(v * step, (v + 1) * step), axis.stride) for v in ends]
    memory = np.concatenate(masks) if masks else np.zeros(0, np.uint8)
    entry.source, entry.masks, entry.plane = 4 * start, memory.ctypes.data, 4 * size
    entry.before, entry.inside, entry.behind = before, inside, vectors - before - inside
    return memory


def _planes(
    axis: Axis, shifts: Sequence[int], first: int, size: int, element: int
) -> ctypes.Array[PlaneEntry]:
    """The planes of a strip that starts at output `first`, `size` elements of each."""
    entries = []
    for shift in shifts:
        start = first * axis.stride - axis.before + shift
        # elements low .. high - 1 exist in the image
        low = min(max(0, -(start // axis.stride)), size)
        high = max(0, min(-(-(axis.size - start) // axis.stride), size))
        entries.append(PlaneEntry((start + low * axis.stride) * element, low, high, size))
    return (PlaneEntry * len(entries))(*entries)


def _blocks(
    c: Convolution, choice: Choice, machine: VectorMachine, outputs: range, y_element: int
) -> tuple[ctypes.Array[BlockEntry], np.ndarray]:
    """The blocks of a strip of `outputs`, and the masks that they point to."""
    lanes, tile, axis, step = machine.lanes, choice.tile, c.horizontal, choice.tile.row_step
    # of a direct tile's reads the image elements, each counted from what the vector begins with
    reads = _reads(c, choice, lanes) if tile.direct else ()
    image = [range(axis.before - read, axis.before - read + axis.size) for read in reads]
    blocks, places, masks, at = [], [], [], outputs.start
    sizes = choice.strip_blocks(len(outputs), lanes)
    if tile.paired:  # what the first vector goes on with
        sizes, at = (1, *sizes), at - lanes
    for vectors in sizes:
        stop = min(outputs.stop, at + vectors * lanes)
        valid = range(max(at, outputs.start), stop)
        first, last = at * step, (at + (vectors - 1) * lanes) * step + lanes
        edge = len(valid) < vectors * lanes or any(r.start > first or last > r.stop for r in image)
        half = at + vectors * lanes - stop >= lanes // 2
        kind, x = tile.kind(vectors, edge=edge, half=half), 4 * step * (at - outputs.start)
        run = tile.rolling and not edge and blocks and blocks[-1].kind == kind
        if run and not 0 < tile.copied * lanes < blocks[-1].columns + len(valid):
            blocks[-1].columns += len(valid)  # a run of blocks is one entry
            at = stop
            continue
        blocks.append(BlockEntry(kind, x, at * y_element, 0, len(valid)))
        places.append(sum(map(len, masks)))
        if edge:
            most = max(tile.vectors)
            masks += [_masks(machine, valid, range(at + v * lanes, stop)) for v in range(most)]
            starts = [(at + v * lanes) * step for v in range(most)]
            masks += [_masks(machine, r, range(start, start + lanes)) for r in image for start in starts]
        at = stop
    memory = np.concatenate(masks) if masks else np.zeros(0, np.uint8)
    table = (BlockEntry * len(blocks))(*blocks)
    for block, place in zip(table, places, strict=True):
        block.masks = memory.ctypes.data + place
    return table, memory


def _reads(c: Convolution, choice: Choice, lanes: int) -> tuple[int, ...]:
    """First elements of what a direct tile reads of a row, from what its first column reads."""
    if choice.tile.kernel_columns:
        return choice.tile.reads(lanes)
    return tuple(tap * c.horizontal.dilation for tap in range(c.horizontal.kernel))


def _masks(machine: VectorMachine, wanted: range, valid: range, vectors: int = 1) -> np.ndarray:
    """Masks of `vectors` vectors from number `valid.start` on: lanes that are in both ranges."""
    numbers = valid.start + np.arange(vectors * machine.lanes)
    lanes = (numbers >= wanted.start) & (numbers < min(wanted.stop, valid.stop))
    if machine.mask_class == "vector":
        return (-lanes.astype(np.int32)).view(np.uint8)
    return np.packbits(lanes, bitorder="little")
