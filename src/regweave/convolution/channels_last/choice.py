"""Channels last: which tile, bands and windows a convolution gets.

    filters in lanes     see `shapes`; rows are transformed where that costs less
    channels in lanes    depthwise kernels: rows x columns of one vector of channels

Lanes that are filters need as many filters: up to 8 of them are done by AVX2's vectors, which are two for one
on a processor that halves the wide ones (as `planes.shapes` assumes).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import ceil

from regweave.convolution.channels_last.runs import Runs, piece, runs_of
from regweave.convolution.channels_last.shapes import (
    FILL_BYTES,
    Shape,
    fused_shape,
    plain_shape,
    staged_shape,
)
from regweave.convolution.channels_last.windows import window
from regweave.convolution.parts import even_parts
from regweave.convolution.planes.form import transforms
from regweave.convolution.planes.strips import LINE, row_transform, untransformed
from regweave.kernels.channels_last import DenseTile, DepthTile
from regweave.kernels.channels_last.tiles import MOST_LINES, SPLITS
from regweave.machines.x86 import AVX2, AVX512, VectorMachine
from regweave.operators import Axis, Convolution, Elementwise
from regweave.values import frozen

#: Of tiles whose lanes are channels: products, each an instruction, at most; rows and columns, at most.
_MOST_PRODUCTS, _MOST_SIDE = 512, 8
#: Channels of a depthwise kernel below which lanes that are channels do not pay; filters below which lanes
#: that are filters need not.
_FEW = 8
#: Cycles to move an element to or from a plane, of pixels of up to so many channels and of others, or by
#: vectors; and what planes must save to be made.
_NEAR_ELEMENT, _NEAR_CHANNELS, _FAR_ELEMENT, _VECTOR_ELEMENT, _PLANES = 2.0, 16, 10.0, 0.6, 1.3
#: Lanes that are pixels come in so many; share of them from which on they are full; pixels of a plane at most
#: and channels at least for results to be worth turning.
_HALF_VECTOR, _FULL, _MOST_PLANAR, _DEEP = 8, 0.99, 256, 64
#: Elements of a line; bytes of an image from which on it comes from beyond a core's own cache.
_LINE, _PASSING = 16, 1 << 20
#: What rows that are transformed cost beside those that are copied.
_TRANSFORM = 4.0


@frozen
class LastChoice:
    """How a convolution of channels last is run: the kernel's tile and machine, vectors of each tile of
    filters, output rows of a band, columns of a window."""

    tile: DenseTile | DepthTile
    machine: VectorMachine
    tiles: tuple[int, ...]
    band_rows: int
    window_columns: int
    runs: Runs = Runs()

    @property
    def form(self) -> str:
        """What is read: the image itself, or strips of its rows."""
        return "none" if self.tile.transform is None else "transformed"

    @property
    def packing(self) -> tuple[object, ...]:
        """What the packed weights depend on."""
        split = 1 if isinstance(self.tile, DepthTile) else self.tile.split
        return self.machine.lanes, self.tiles, self.tile.transform, self.tile.staged, split, self.runs


def choose_last(
    c: Convolution,
    machine: VectorMachine,
    *,
    stream: bool,
    epilogue: tuple[Elementwise, ...],
    threads: int,
    dense: bool,
    joined: bool = False,
    banded: bool = False,
    form: str | None = None,
) -> LastChoice | None:
    """The choice for `c`; None where these kernels are not for it. `dense`: pixels of a row follow one
    another, `joined`: those of the result do; `banded`: else bands are taken apart into planes by vectors.
    `form`: what `strips.untransformed` gives insists on no
    transform."""
    # halves of lines pass the caches slowly, beside products that read as much
    stream = stream and machine.vector_bytes == LINE
    if c.groups > 1 and c.group_channels == 1:
        if c.group_filters > 1 or c.channels < _FEW:
            return None
        return _depthwise(c, machine, stream, epilogue)
    found = _cycles(c, machine, dense=dense, transformed=False)
    transformed = False
    if transforms(c) and dense and form != untransformed(c):
        fewer = _cycles(c, machine, dense=dense, transformed=True)
        transformed, found = fewer < found, min(fewer, found)
    if c.group_filters < _FEW and _taken_apart(c, banded=banded) < _PLANES * found:
        return None
    return _dense(c, machine, stream, epilogue, threads, dense, joined and c.groups == 1, transformed)


def moved_cycles(c: Convolution, *, image: bool = True, result: bool = True, banded: bool = False) -> float:
    """Cycles to make planes of an image's pixels, element by element, and to put a result back so; `banded`:
    by vectors."""
    moved = 0.0
    for wanted, channels, (down, across) in (
        (image, c.channels, (c.vertical.size, c.horizontal.size)),
        (result, c.filters, (c.vertical.outputs, c.horizontal.outputs)),
    ):
        each = _NEAR_ELEMENT if channels <= _NEAR_CHANNELS else _FAR_ELEMENT
        each = _VECTOR_ELEMENT * (channels > 1) if banded else each
        moved += wanted * c.batch * channels * down * across * each
    return moved


def _taken_apart(c: Convolution, *, banded: bool) -> float:
    """Cycles where planes are made of the image: their lanes are pixels, and all of them are used however few
    the filters are."""
    moved = moved_cycles(replace(c, batch=1), banded=banded)
    taps = c.group_channels * c.vertical.kernel * c.horizontal.kernel
    return moved + c.filters * c.vertical.outputs * c.horizontal.outputs * taps / 16


def _depthwise(
    c: Convolution, machine: VectorMachine, stream: bool, epilogue: tuple[Elementwise, ...]
) -> LastChoice | None:
    best, least = None, float("inf")
    registers = len(machine.register_class("vector").registers)
    down, across = c.axes
    taps = down.kernel * across.kernel
    sides = [range(1, min(_MOST_SIDE, axis.outputs) + 1) for axis in c.axes]
    for rows, columns in product(*sides):
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
        stream=stream and c.channels % machine.lanes == 0,
        epilogue=epilogue,
    )
    return LastChoice(tile, machine, (1,), best[0], across.outputs)


def choose_planar(
    c: Convolution, machine: VectorMachine, *, epilogue: tuple[Elementwise, ...], form: str | None
) -> LastChoice | None:
    """The choice for products of pixels (1 x 1) in one row of an image whose channels are planes of a few, so
    that lanes that are pixels are not full: filters in lanes all the same. None where they are."""
    one, pixels, lanes = Axis(1, 1), c.horizontal.size, machine.lanes
    if (c.vertical, c.horizontal) != (one, Axis(pixels, 1)) or c.groups > 1 or c.filters % lanes or form:
        return None
    full = pixels / (-(-pixels // _HALF_VECTOR) * _HALF_VECTOR)
    if not lanes <= pixels <= _MOST_PLANAR or full > _FULL or c.channels < _DEEP:
        return None
    runs = runs_of(c, dense=True, transformed=False)
    shape = plain_shape(c, machine, runs, planar=True)
    tiles = even_parts(c.filters // lanes, shape.vectors)
    tile = DenseTile(
        spans=(shape.pixels,) * shape.spans,
        vectors=tuple(sorted(set(tiles), reverse=True)),
        pieces=c.channels > piece(transformed=False),
        epilogue=epilogue,
        staged=True,
    )
    return LastChoice(tile, machine, tiles, 1, pixels, runs)


def _passes(c: Convolution, *, dense: bool) -> bool:
    """Whether a large image is read once from end to end: pixels in one row, of one tap."""
    one = c.vertical == Axis(1, 1) and c.horizontal == Axis(c.horizontal.size, 1)
    return one and dense and c.groups == 1 and 4 * c.channels * c.horizontal.size >= _PASSING


def _beyond(axis: Axis) -> bool:
    """Whether a result reads beyond the image."""
    return axis.before > 0 or (axis.outputs - 1) * axis.stride + axis.span - axis.before > axis.size


def _dense(
    c: Convolution,
    machine: VectorMachine,
    stream: bool,
    epilogue: tuple[Elementwise, ...],
    threads: int,
    dense: bool,
    joined: bool,
    transformed: bool,
) -> LastChoice:
    strip = transformed or any(_beyond(axis) for axis in c.axes)
    runs = runs_of(c, dense=dense or strip, transformed=transformed)
    machine, shape, staged = _cheapest(c, machine, runs, transformed=transformed)
    pixels, spans, vectors, split = shape.pixels, shape.spans, shape.vectors, shape.split
    tiles = even_parts(-(-c.group_filters // machine.lanes), vectors)
    t = row_transform(c) if transformed else None
    steps = c.group_channels * c.horizontal.kernel * (1 if transformed else c.vertical.kernel)
    if split == 1:
        lines = c.group_filters % machine.lanes == 0
    else:  # vectors of whole pixels, each at the start of one
        length = spans if transformed else pixels
        lines = joined and split * c.filters == machine.lanes
        lines = lines and length % split == c.horizontal.outputs % length == 0
    tile = DenseTile(
        spans=(pixels,) * spans,
        vectors=tuple(sorted(set(tiles), reverse=True)),
        strip=strip,
        masked=split > 1 or c.group_filters % machine.lanes != 0,
        pieces=steps > piece(transformed=transformed),
        stream=stream and lines,
        epilogue=epilogue,
        transform=t,
        staged=staged,
        split=split,
        tail=runs.length % split > 0,
        joined=c.filters if joined and split > 1 else 0,
        ahead=-(-pixels * spans * split // _LINE) if _passes(c, dense=dense) else 0,
    )
    rows, columns = window(c, tile, machine, threads=threads)
    return LastChoice(tile, machine, tiles, rows, columns, runs)


def _cheapest(
    c: Convolution, machine: VectorMachine, runs: Runs, *, transformed: bool
) -> tuple[VectorMachine, Shape, bool]:
    """(machine, shape, whether products are staged) of the cheapest tile."""
    found = []
    for lanes in (AVX512, AVX2) if machine is AVX512 else (machine,):
        splits = [n for n in SPLITS if n == 1 or (n * c.group_filters <= lanes.lanes and n <= runs.length)]
        shape_of = fused_shape if transformed else plain_shape
        found += [(lanes, shape_of(c, lanes, runs, split), False) for split in splits]
        if transformed:
            found.append((lanes, staged_shape(c, lanes), True))
    return min(found, key=lambda each: each[1].cycles)


def _cycles(c: Convolution, machine: VectorMachine, *, dense: bool, transformed: bool) -> float:
    """What the cheapest tile takes, with its strips."""
    strip = any(_beyond(axis) for axis in c.axes)
    runs = runs_of(c, dense=dense or strip or transformed, transformed=transformed)
    least = c.groups * _cheapest(c, machine, runs, transformed=transformed)[1].cycles
    image = 4.0 * c.channels * c.vertical.size * c.horizontal.size / FILL_BYTES
    if not transformed:
        return least + image * strip
    t = row_transform(c)
    return least + image * _TRANSFORM * t.image_rows / (t.outputs * t.stride)
