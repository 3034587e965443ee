"""Depthwise convolutions of images in blocks of channels as wide as a vector.

    a row of results, in tiles of some pixels    for each row of the kernel: its weights are loaded,
                                                 then each vector of the image's row meets all of them

A vector holds all channels of a block of one pixel, so there is nothing to rearrange: a tile of T results in
a row reads (T - 1) * stride + kernel vectors of a row for T * kernel products. The first and the last tile of
a row know which taps hang over the image's edge; the last but one moves back over what was done where the row
is no multiple of a tile. Rows above and below the image are left out. While a row is read, the one below it
is fetched: 7 x 7 on 96 channels of 160 x 160 takes 2.1 instead of 2.4 ms (2.0 at the processor's peak). So
are the results two rows below, which nothing else brings from memory: 3 x 3 on 192 channels of 40 x 40 takes
0.07 instead of 0.11 ms.

Where a kernel's row of weights would leave fewer registers than keep both multipliers busy, a tile meets some
columns of it after the others: with 16 registers, 10 results meet 3, then 4 columns of 7 x 7. So the image's
vectors are read twice, in all 32 loads for 70 products.

Padded channels have weights and a bias of zero.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.errors import UnsupportedError
from regweave.kernels.blocks.rows import PlaneRows
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.buildermath import BuilderMath
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise
from regweave.values import frozen

_MOST_PIXELS = 14
"""Of a tile; more of them read hardly fewer vectors for each."""

_LEAST_PIXELS = 8
"""Of a tile where rows are long enough: as many sums as two multipliers of four cycles have at work."""

_WORKING = 3
"""Registers beside a tile's sums and a row of weights."""

_LEAST_HELD = 2
"""Weights of a row of the kernel that a tile keeps, where not all of them fit beside enough sums."""

_LINE = 64
"""Bytes that come together from memory."""


class DepthwiseArguments(ctypes.Structure):
    """Addresses and sizes. `weights`: of each block the taps, row by row, and the bias. `images` are of
    `blocks` blocks, of `x_rows` x `x_columns` pixels and `rows` x `columns` results. `inner` tiles follow the
    first one; one more starts at `gap`, if that is not zero."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "x", "y", "weights", "images", "blocks", "x_rows", "x_columns", "rows", "columns", "inner", "gap",
            "parts",
        )
    )  # fmt: skip


@frozen
class DepthwiseTiles:
    """How rows of results are cut: tiles of `pixels`; the first and the last (or, if `single`, the only one)
    have `left` and `right` taps outside the image. At most `held` columns of the kernel are met at a time."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    top: int
    left: int
    right: int
    pixels: int
    single: bool
    held: int


def depthwise_tiles(c: Convolution, machine: VectorMachine) -> DepthwiseTiles:
    """The tiles of a convolution. Errors: UnsupportedError where there are none for some size of image."""
    down, along = c.vertical, c.horizontal
    if c.group_channels != 1 or c.filters != c.channels or (down.dilation, along.dilation) != (1, 1):
        raise UnsupportedError("no convolution of single channels without dilation", where="depthwise_tiles")
    if max(down.before, down.after) >= down.kernel:
        raise UnsupportedError("rows of results without a row of the image", where="depthwise_tiles")
    registers = len(machine.register_class("vector").registers)
    room = registers - along.kernel - _WORKING
    most = min(_MOST_PIXELS, room if room >= _LEAST_PIXELS else registers - _LEAST_HELD - _WORKING)
    edges = max(1, -(-along.before // along.stride) + -(-along.after // along.stride))
    if 2 * edges > most + 1:
        raise UnsupportedError("rows too short for two tiles, too long for one", where="depthwise_tiles")
    count, single = along.outputs, along.outputs <= most
    right = max(0, (along.outputs - 1) * along.stride - along.before + along.kernel - along.size)
    fits = [pixels for pixels in range(edges, most + 1) if 2 * pixels <= count]
    pixels = count if single else min(fits, key=lambda p: -(-count // p) * (2 * p + 1))
    kernel, strides = (down.kernel, along.kernel), (down.stride, along.stride)
    held = min(along.kernel, registers - pixels - 1)
    return DepthwiseTiles(kernel, strides, down.before, along.before, right, pixels, single, held)


def inner_tiles(tiles: DepthwiseTiles, columns: int) -> tuple[int, int]:
    """How many tiles follow the first one, and where one more starts; 0 where there is none."""
    if tiles.single:
        return 0, 0
    count, rest = divmod(columns - 2 * tiles.pixels, tiles.pixels)
    return count, max(columns - 2 * tiles.pixels, -(-tiles.left // tiles.strides[1])) if rest else 0


def packed_depthwise(weights: np.ndarray, bias: np.ndarray | None, block: int) -> np.ndarray:
    """Weights [channels, 1, height, width] and a bias [channels] as the kernel reads them."""
    channels, taps = weights.shape[0], weights[0].size
    packed = np.zeros((-(-channels // block) * block, taps + 1), np.float32)
    packed[:channels, :taps] = weights.reshape(channels, taps)
    if bias is not None:
        packed[:channels, taps] = bias
    return np.ascontiguousarray(packed.reshape(-1, block, taps + 1).transpose(0, 2, 1))


@lru_cache(maxsize=64)
def depthwise_kernel(
    tiles: DepthwiseTiles, epilogue: tuple[Elementwise, ...], machine: VectorMachine
) -> Listing:
    """The kernel `void f(const DepthwiseArguments *, size_t part)`; a part does some rows of results."""
    return _Depthwise(tiles, epilogue, machine).write()


class _Depthwise:
    def __init__(
        self, tiles: DepthwiseTiles, epilogue: tuple[Elementwise, ...], machine: VectorMachine
    ) -> None:
        self.tiles, self.epilogue, self.size = tiles, epilogue, machine.vector_bytes
        self.b = b = Builder(machine, name="rw_depthwise", arguments=("args", "part"))
        self.rows = PlaneRows(b)
        self.source, self.to, self.weights = b.general("source"), b.general("to"), b.general("weights")
        self.first, self.taps = b.general("first"), b.general("taps")

    def field(self, name: str) -> Memory:
        return self.b.at("args", getattr(DepthwiseArguments, name).offset)

    def write(self) -> Listing:
        b = self.b

        def begin(first: Variable) -> None:
            b.emit("mov", self.to, first)
            b.emit("imul", self.to, self.field("columns"))
            b.emit("imul", self.to, self.to, self.size)
            b.emit("add", self.to, self.field("y"))

        planes = self.field("images"), self.field("blocks")
        self.rows.write(planes, (self.field("rows"), 1), self.field("parts"), self._line, begin)
        return b.finish()

    def _line(self) -> None:
        """One row of results: which rows of the kernel meet the image, then tile by tile."""
        b, tiles = self.b, self.tiles
        (height, width), (step, along) = tiles.kernel, tiles.strides
        at, low, blocks, plane = b.general("at"), b.general("low"), b.general("blocks"), b.general("plane")
        b.emit("mov", plane, self.rows.plane)
        b.emit("mov", blocks, self.field("blocks"))
        b.emit("divide_unsigned", at, plane, blocks)
        b.emit("imul", at, blocks)
        b.emit("mov", self.weights, plane)
        b.emit("sub", self.weights, at)
        b.emit("imul", self.weights, self.weights, (height * width + 1) * self.size)
        b.emit("add", self.weights, self.field("weights"))
        b.emit("mov", at, self.rows.row)
        b.emit("imul", at, at, step)
        b.emit("sub", at, tiles.top)
        none = b.general("none")
        b.emit("zero", none)
        b.emit("zero", low)
        b.emit("sub", low, at)
        b.emit("max", low, none)  # rows of the kernel above the image
        b.emit("mov", self.taps, self.field("x_rows"))
        b.emit("sub", self.taps, at)
        b.emit("mov", none, height)
        b.emit("min", self.taps, none)
        b.emit("sub", self.taps, low)
        b.emit("imul", self.first, low, width * self.size)
        b.emit("add", at, low)
        b.emit("imul", plane, self.field("x_rows"))
        b.emit("add", plane, at)
        b.emit("imul", plane, self.field("x_columns"))
        b.emit("imul", self.source, plane, self.size)
        b.emit("add", self.source, self.field("x"))
        self._tile(left=True, right=tiles.single)
        if tiles.single:
            b.emit("add", self.to, tiles.pixels * self.size)
            return
        bytes_read, made = tiles.pixels * along * self.size, tiles.pixels * self.size
        b.emit("add", self.source, bytes_read - tiles.left * self.size)
        b.emit("add", self.to, made)
        count = b.stack(8)
        left, top, done = b.general("left"), b.fresh_label("inner"), b.fresh_label("inner_done")
        b.emit("mov", left, self.field("inner"))
        b.label(top)
        b.emit("sub", left, 1)
        b.emit("jump_less", done)
        b.emit("mov", count, left)
        self._tile()
        b.emit("add", self.source, bytes_read)
        b.emit("add", self.to, made)
        b.emit("mov", left, count)
        b.emit("jump", top)
        b.label(done)
        # the results so far are `inner` + 1 tiles: on to `gap`, and to the end
        whole, at = b.fresh_label("whole"), b.general("at")
        b.emit("mov", at, self.field("gap"))
        b.emit("test", at, at)
        b.emit("jump_zero", whole)
        self._move(self.field("gap"))
        self._tile()
        self._move_back(self.field("gap"))
        b.label(whole)
        last = b.general("last")
        b.emit("mov", last, self.field("columns"))
        b.emit("sub", last, tiles.pixels)
        self._move(last)
        self._tile(right=True)
        b.emit("add", self.to, made)

    def _shift(self, to: Variable | Memory) -> Variable:
        """Pixels from where the tiles so far end to `to`."""
        b, shift = self.b, self.b.general("shift")
        b.emit("mov", shift, self.field("inner"))
        b.emit("add", shift, 1)
        b.emit("imul", shift, shift, -self.tiles.pixels)
        b.emit("add", shift, to)
        return shift

    def _move(self, to: Variable | Memory) -> None:
        b, shift = self.b, self._shift(to)
        b.emit("imul", shift, shift, self.size)
        b.emit("add", self.to, shift)
        b.emit("imul", shift, shift, self.tiles.strides[1])
        b.emit("add", self.source, shift)

    def _move_back(self, to: Variable | Memory) -> None:
        b, shift = self.b, self._shift(to)
        b.emit("imul", shift, shift, self.size)
        b.emit("sub", self.to, shift)
        b.emit("imul", shift, shift, self.tiles.strides[1])
        b.emit("sub", self.source, shift)

    def _tile(self, *, left: bool = False, right: bool = False) -> None:
        """One tile of results at `to`; `source` is the image's first vector that its inner taps meet, at the
        left edge that of the image."""
        b, tiles = self.b, self.tiles
        (height, width), step = tiles.kernel, tiles.strides[1]
        sums = b.vectors("sum", tiles.pixels)
        b.emit("load", sums[0], b.at(self.weights, height * width * self.size))
        for total in sums[1:]:
            b.emit("move", total, sums[0])
        read, taps, rows, line = (b.general(name) for name in ("read", "taps", "rows", "line"))
        b.emit("mov", read, self.source)
        b.emit("lea", taps, b.at(self.weights, index=self.first))
        b.emit("mov", rows, self.taps)
        b.emit("mov", line, self.field("x_columns"))
        b.emit("imul", line, line, self.size)
        top = b.fresh_label("taps")
        b.label(top)
        begin = tiles.left if left else 0
        columns = range(begin, (tiles.pixels - 1) * step + width - (tiles.right if right else 0))
        groups = -(-width // tiles.held)
        for group in range(groups):
            held = range(group * width // groups, (group + 1) * width // groups)
            self._products(sums, columns, held, read, taps, line if group == 0 else None)
        b.emit("add", read, line)
        b.emit("add", taps, width * self.size)
        b.emit("dec", rows)
        b.emit("jump_nonzero", top)
        b.emit("mov", line, self.field("columns"))
        b.emit("imul", line, line, 2 * self.size)
        for pixel, total in enumerate(sums):
            b.emit("prefetch_l2", b.at(self.to, pixel * self.size, index=line))
            value = activate_all(BuilderMath(b, shared=0), self.epilogue, total, _no_operand)
            assert isinstance(value, Variable), "an epilogue ends in a register"
            b.emit("store", b.at(self.to, pixel * self.size), value)

    def _products(
        self,
        sums: list[Variable],
        columns: range,
        held: range,
        read: Variable,
        taps: Variable,
        line: Variable | None,
    ) -> None:
        """What the columns of an image's row add to the sums by the `held` columns of the kernel. The row
        below, `line` bytes on, is fetched meanwhile."""
        b, step = self.b, self.tiles.strides[1]
        weights = dict(zip(held, b.vectors("weight", len(held)), strict=True))
        for tap, weight in weights.items():
            b.emit("load", weight, b.at(taps, tap * self.size))
        for column in columns:
            meets = [
                (total, weights[column - pixel * step])
                for pixel, total in enumerate(sums)
                if column - pixel * step in held
            ]
            place = (column - columns.start) * self.size
            where: Memory | Variable = b.at(read, place)
            if len(meets) > 1:
                value = b.vector("value")
                b.emit("load", value, where)
                where = value
            for total, weight in meets:
                b.emit("fma", total, weight, where)
            if line is not None and place % _LINE == 0:
                b.emit("prefetch", b.at(read, place, index=line))


def _no_operand(index: int) -> Variable:
    raise AssertionError("operands are in the weights and the bias")
