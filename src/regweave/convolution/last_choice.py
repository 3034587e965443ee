"""Channels last: which tile, bands and windows a convolution gets.

    filters in lanes     pixels x vectors of filters; 14 x 2 on AVX-512: the rows of 7, 14, 28, 56 and 112
                         pixels are whole tiles, or half ones
    channels in lanes    depthwise kernels: rows x columns of one vector of channels

Lanes that are filters need as many filters: up to 8 of them are done by AVX2's vectors, which are two for one
on a processor that halves the wide ones (as `choice` assumes).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import ceil, gcd

from regweave.convolution.choice import transforms
from regweave.convolution.strips import (
    STRIP_BYTES,
    lines_of,
    row_transform,
    strip_budget,
    untransformed,
)
from regweave.kernels.channels_last import DenseTile, DepthTile
from regweave.kernels.channels_last.tiles import MOST_LINES, MOST_SPANS
from regweave.machines.x86 import AVX2, AVX512, VectorMachine
from regweave.operators import Axis, Convolution, Elementwise
from regweave.values import frozen

#: Bytes of the image that a band of a window reads, at most: each tile of filters reads them again.
_WINDOW_BYTES = 448 * 1024
#: Cycles of a tile beside its products; bytes per cycle that go to a strip, that come from a core's own
#: caches, and from beyond.
_START, _FILL_BYTES, _NEAR_BYTES, _FAR_BYTES = 60.0, 16, 32, 10
#: Weights of a tile of filters that stay in a core's own cache beside what it reads.
_NEAR_WEIGHTS = 640 * 1024
#: Taps of a kernel in channel lanes, all results of a tile together, at most: each is an instruction.
_MOST_PRODUCTS = 512
#: Filters that share a run's elements, at most as vectors of a tile; of one pixel more of them hide latency.
_MOST_VECTORS = 8
#: Units that each thread finds; numbers of windows that are weighed.
_UNITS, _WINDOWS = 4, 4
#: Pixels of a span at most, where filters are lanes.
_MOST_PIXELS = 7
#: Lines of a set of the first-level cache that pixels of a tile may take. Registers that going back from a
#: transform takes; what rows that are transformed cost beside those that are copied.
_SET_LINES, _TRANSFORMING, _TRANSFORM = 7, 4, 4.0
#: Pixels that share the weights of a product, for these to come in time from a core's own cache.
_LEAST_PIXELS = 2.8


@frozen
class LastChoice:
    """How a convolution of channels last is run: the kernel's tile and machine, vectors of each tile of
    filters, output rows of a band, columns of a window."""

    tile: DenseTile | DepthTile
    machine: VectorMachine
    tiles: tuple[int, ...]
    band_rows: int
    window_columns: int

    @property
    def form(self) -> str:
        """What is read: the image itself, or strips of its rows."""
        return "none" if self.tile.transform is None else "transformed"

    @property
    def packing(self) -> tuple[object, ...]:
        """What the packed weights depend on."""
        return self.machine.lanes, self.tiles, self.tile.transform


def choose_last(
    c: Convolution,
    machine: VectorMachine,
    *,
    stream: bool,
    epilogue: tuple[Elementwise, ...],
    threads: int,
    dense: bool,
    form: str | None = None,
) -> LastChoice | None:
    """The choice for `c`; None where these kernels are not for it. `dense`: pixels of a row follow one
    another. `form`: what `strips.untransformed` gives insists on no transform."""
    if c.groups > 1 and c.group_channels == c.group_filters == 1:
        return _depthwise(c, machine, stream, epilogue)
    transformed = False
    if transforms(c) and dense and form != untransformed(c):
        transformed = cycles(c, machine, transformed=True) < cycles(c, machine, transformed=False)
    return _dense(c, machine, stream, epilogue, threads, transformed)


def _depthwise(
    c: Convolution, machine: VectorMachine, stream: bool, epilogue: tuple[Elementwise, ...]
) -> LastChoice | None:
    best, least = None, float("inf")
    registers = len(machine.register_class("vector").registers)
    down, across = c.axes
    taps = down.kernel * across.kernel
    for rows, columns in product(range(1, min(8, down.outputs) + 1), range(1, min(8, across.outputs) + 1)):
        results = rows * columns
        lines = [(axis, count) for axis, count in zip(c.axes, (rows, columns), strict=True)]
        if results > registers - 3 or results * taps > max(_MOST_PRODUCTS, taps) or taps > _MOST_PRODUCTS:
            continue
        if any((count - 1) * axis.stride + axis.span > MOST_LINES for axis, count in lines):
            continue
        read = 1
        for axis, count in lines:
            read *= len(
                {i * axis.stride + k * axis.dilation for i in range(count) for k in range(axis.kernel)}
            )
        held = results + taps + 3 <= registers
        products = results * taps
        loads = read + (taps if held else products)
        cycles = max(products, loads) + 0.3 * min(products, loads) + 2 * results + 10
        total = cycles * ceil(down.outputs / rows) * ceil(across.outputs / columns)
        if total < least:
            best, least = (rows, columns), total
    if best is None:
        return None
    tile = DepthTile(
        *best,
        kernel=(down.kernel, across.kernel),
        stride=(down.stride, across.stride),
        dilation=(down.dilation, across.dilation),
        padded=(_beyond(down), _beyond(across)),
        masked=c.channels < machine.lanes,
        stream=stream and c.channels >= machine.lanes,
        epilogue=epilogue,
    )
    return LastChoice(tile, machine, (1,), best[0], across.outputs)


def _beyond(axis: Axis) -> bool:
    """Whether a result reads beyond the image."""
    return axis.before > 0 or (axis.outputs - 1) * axis.stride + axis.span - axis.before > axis.size


def _dense(
    c: Convolution,
    machine: VectorMachine,
    stream: bool,
    epilogue: tuple[Elementwise, ...],
    threads: int,
    transformed: bool,
) -> LastChoice:
    machines = (AVX512, AVX2) if machine is AVX512 else (machine,)
    strip = transformed or any(_beyond(axis) for axis in c.axes)
    best, least = None, float("inf")
    for lanes in machines:
        shape = _transformed_shape(c, lanes) if transformed else _shape(c, lanes)
        if shape[3] < least:
            best, least = (lanes, *shape[:3]), shape[3]
    assert best is not None
    machine, pixels, spans, vectors = best
    tiles = even_parts(-(-c.group_filters // machine.lanes), vectors)
    t = row_transform(c) if transformed else None
    steps = c.group_channels * c.horizontal.kernel * (1 if transformed else c.vertical.kernel)
    tile = DenseTile(
        spans=(pixels,) * spans,
        vectors=tuple(sorted(set(tiles), reverse=True)),
        strip=strip,
        masked=c.group_filters % machine.lanes != 0,
        pieces=steps > piece(transformed=transformed),
        stream=stream and c.group_filters % machine.lanes == 0,
        epilogue=epilogue,
        transform=t,
    )
    rows, columns = _window(c, tile, strip=strip, threads=threads)
    return LastChoice(tile, machine, tiles, rows, columns)


def piece(*, transformed: bool) -> int:
    """Elements that are summed in one chain, at most."""
    return 64 if transformed else 256


def even_parts(count: int, most: int) -> tuple[int, ...]:
    """`count` in as few parts of at most `most` as possible, larger first."""
    parts = -(-count // most)
    return tuple((count + parts - 1 - part) // parts for part in range(parts))


def cycles(c: Convolution, machine: VectorMachine, *, transformed: bool) -> float:
    """What the cheapest tile takes."""
    machines = (AVX512, AVX2) if machine is AVX512 else (machine,)
    strip = any(_beyond(axis) for axis in c.axes)
    image = 4.0 * c.channels * c.vertical.size * c.horizontal.size / _FILL_BYTES
    if not transformed:
        return c.groups * min(_shape(c, m)[3] for m in machines) + image * strip
    t = row_transform(c)
    filled = image * _TRANSFORM * t.image_rows / (t.outputs * t.stride)
    return c.groups * min(_transformed_shape(c, m)[3] for m in machines) + filled


@lru_cache(maxsize=256)
def _shape(c: Convolution, machine: VectorMachine) -> tuple[int, int, int, float]:
    """(pixels of a span, spans, vectors, cycles) of the cheapest tile for a group of filters."""
    registers = len(machine.register_class("vector").registers)
    product_cycles = machine.lanes / 16
    rows, columns = c.vertical.outputs, c.horizontal.outputs
    steps = c.group_channels * c.vertical.kernel * c.horizontal.kernel
    needed = -(-c.group_filters // machine.lanes)
    # pixels a page apart compete for the same sets of the cache
    pitch = 4 * c.channels * c.horizontal.stride
    most_pixels = _SET_LINES * 4096 // gcd(pitch, 4096)
    best, least = (1, 1, 1), float("inf")
    for pixels, spans, vectors in product(
        range(1, min(_MOST_PIXELS, columns) + 1),
        range(1, MOST_SPANS + 1),
        range(1, min(needed, _MOST_VECTORS) + 1),
    ):
        count = pixels * spans
        if (count + 1) * vectors + (machine.lanes == 8) > registers or count > max(most_pixels, 1):
            continue
        in_all = rows * -(-columns // pixels)
        if spans > 1 and spans > in_all:
            continue
        total = 0.0
        for width in even_parts(needed, vectors):
            far = 4 * machine.lanes * width * steps > _NEAR_WEIGHTS
            weights = 4 * machine.lanes * width / (_FAR_BYTES if far else _NEAR_BYTES)
            step = max(count * width * product_cycles, count / 2 + width * product_cycles, weights, 4.0)
            total += (step + 0.15 * (weights + count / 2)) * steps
            total += _START + 2 * count * width * product_cycles
        total *= -(-in_all // spans)
        if total < least:
            best, least = (pixels, spans, vectors), total
    return (*best, least)


@lru_cache(maxsize=256)
def _transformed_shape(c: Convolution, machine: VectorMachine) -> tuple[int, int, int, float]:
    """As `_shape`, for tiles of all products of a group of rows."""
    t, registers = row_transform(c), len(machine.register_class("vector").registers)
    product_cycles, columns = machine.lanes / 16, c.horizontal.outputs
    steps = c.group_channels * c.horizontal.kernel
    tiles = -(-c.group_filters // machine.lanes) * -(-c.vertical.outputs // t.outputs)
    best, least = (t.products, 1, 1), float("inf")
    for pixels in range(1, min(MOST_SPANS, columns) + 1):
        if t.products * pixels + _TRANSFORMING > registers:
            break
        step = t.products * (max(pixels, _LEAST_PIXELS) * product_cycles + 0.3)
        there_and_back = pixels * (4 * t.products + 4 * t.outputs) * product_cycles
        total = tiles * -(-columns // pixels) * (steps * step + _START + there_and_back)
        if total < least:
            best, least = (t.products, pixels, 1), total
    return (*best, least)


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


def _window(c: Convolution, tile: DenseTile, *, strip: bool, threads: int) -> tuple[int, int]:
    """(output rows of a band, columns of a window): what costs least of tiles that take pixels again, rows
    that go to strips, and weights that each band reads anew."""
    down, across = c.axes
    t, length = tile.transform, tile.length
    budget = min(_WINDOW_BYTES, strip_budget(c)) if strip else _WINDOW_BYTES
    weights = 4 * c.group_filters * c.group_channels * down.kernel * across.kernel
    shared = threads > 1 and c.groups * weights <= STRIP_BYTES
    step = 1 if t is None else t.outputs
    saved = 1.0 if t is None else t.products / (t.outputs * t.taps)

    def fits(columns: int, rows: int) -> bool:
        return line_bytes(c, columns) * strip_rows(c, tile, rows) <= budget

    def width(windows: int) -> int:
        each = -(-across.outputs // windows)
        return min(across.outputs, -(-each // length) * length)

    def total(columns: int, rows: int) -> float:
        units = c.batch * -(-down.outputs // rows) * -(-across.outputs // columns)
        if shared and units < _UNITS * threads and (rows > step or columns > 4 * tile.pixels):
            return float("inf")
        places = -(-rows // step) * -(-columns // length)
        tiles = places if t is not None else -(-places // len(tile.spans))
        found = tiles * tile.pixels * weights * saved * step / 64 / (1 if t is None else t.products)
        found += c.groups * weights / (_NEAR_BYTES if weights <= STRIP_BYTES else _FAR_BYTES)
        found += line_bytes(c, columns) * strip_rows(c, tile, rows) / _FILL_BYTES if strip else 0
        return found * units

    most = -(-across.outputs // length)
    first = next((n for n in range(1, most) if fits(width(n), step)), most)
    choices = [
        (rows, columns)
        for columns in {width(n) for n in range(first, min(first + _WINDOWS, most) + 1)}
        for rows in range(step, down.outputs + step, step)
        if rows == step or fits(columns, rows)
    ]
    rows, columns = min(choices, key=lambda pair: (total(pair[1], pair[0]), -pair[0], -pair[1]))
    return rows if t is not None else min(rows, down.outputs), columns
