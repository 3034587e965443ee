"""From plain images to blocked ones and back, a square of pixels and channels at a time.

    planes  [C][P]       a0 a1 a2 a3       blocks  [C / n][P][n]     a0 b0 c0 d0   a1 b1 c1 d1   ...
                         b0 b1 b2 b3
                         c0 c1 c2 c3
                         d0 d1 d2 d3

n vectors of n pixels of one channel each become n vectors of n channels of one pixel each: first within every
128 bits, as here, then what are 128 bits moves as a whole. Channels of the last block that there are not are
zeros. Nothing is rounded, so values that are not finite pass.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.arguments import arguments_type, field_offset
from regweave.machines.x86 import VectorMachine


def reorder_arguments() -> type[ctypes.Structure]:
    """The structure that the kernels take: x, y, batch, parts; `rows` are the pixels of a plane."""
    return arguments_type(0, 0)


@lru_cache(maxsize=64)
def reorder_kernel(channels: int, machine: VectorMachine, to_blocks: bool) -> Listing:
    """The kernel `void f(const Args *, size_t part)` for images of so many channels; a part does some pixels
    of every plane. Blocks are as wide as a vector."""
    assert channels > 0, "images without channels have nothing to move"
    return (_ToBlocks if to_blocks else _ToPlanes)(channels, machine).write()


def transposed(b: Builder, rows: Sequence[Variable]) -> list[Variable]:
    """As many vectors as each has lanes (8 or 16), turned: vector i of the result holds lane i of each."""
    lanes = len(rows)
    quarters = "shuffle_quarters"
    fours = [_four(b, rows[first : first + 4]) for first in range(0, lanes, 4)]
    if lanes == 8:
        halves = [_two(b, "shuffle_halves", low, high, 0x20, 0x31) for low, high in zip(*fours, strict=True)]
        return [pair[half] for half in range(2) for pair in halves]
    columns = []
    for parts in zip(*fours, strict=True):
        low, high = (_two(b, quarters, parts[at], parts[at + 1], 0x88, 0xDD) for at in (0, 2))
        even, odd = (_two(b, quarters, low[i], high[i], 0x88, 0xDD) for i in range(2))
        columns.append((even[0], odd[0], even[1], odd[1]))
    return [column[quarter] for quarter in range(4) for column in columns]


def _four(b: Builder, rows: Sequence[Variable]) -> list[Variable]:
    """Four vectors, turned within every 128 bits."""
    low, high = (_two(b, "unpack", rows[at], rows[at + 1]) for at in (0, 2))
    return [result for i in range(2) for result in _two(b, "unpack", low[i], high[i], pairs=True)]


def _two(
    b: Builder, name: str, x: Variable, y: Variable, *numbers: int, pairs: bool = False
) -> list[Variable]:
    """Both results of two vectors: a shuffle by each number, or the low and the high unpacking."""
    results = b.vectors(name, 2)
    for index, result in enumerate(results):
        if numbers:
            b.emit(name, result, x, y, numbers[index])
        else:
            b.emit(f"unpack_{('low', 'high')[index]}{'_pairs' * pairs}", result, x, y)
    return results


class _Reorder:
    """The loops over images, blocks and squares; `source` and `to` are those of a block."""

    def __init__(self, channels: int, machine: VectorMachine) -> None:
        self.channels, self.lanes, self.line = channels, machine.lanes, machine.vector_bytes
        self.b = b = Builder(machine, name="rw_reorder", arguments=("args", "part"))
        self.source, self.to, self.plane = b.general("source"), b.general("to"), b.general("plane")
        self.at, self.left = b.general("at"), b.general("left")
        self.first, self.last = b.stack(8), b.stack(8)

    def write(self) -> Listing:
        b = self.b
        done, images, blocks = b.fresh_label("done"), b.stack(8), b.general("blocks")
        self._range(done)
        b.emit("mov", self.source, self._field("x"))
        b.emit("mov", self.to, self._field("y"))
        whole, rest = divmod(self.channels, self.lanes)
        b.emit("mov", blocks, self._field("batch"))
        b.emit("mov", images, blocks)
        image = b.fresh_label("image")
        b.label(image)
        if whole:
            b.emit("mov", blocks, whole)
            block = b.fresh_label("block")
            b.label(block)
            self._block(self.lanes)
            b.emit("dec", blocks)
            b.emit("jump_nonzero", block)
        if rest:
            self._block(rest)
        b.emit("mov", blocks, images)
        b.emit("dec", blocks)
        b.emit("mov", images, blocks)
        b.emit("test", blocks, blocks)
        b.emit("jump_nonzero", image)
        b.label(done)
        return b.finish()

    def _field(self, name: str) -> Memory:
        return self.b.at("args", field_offset(reorder_arguments(), name))

    def _range(self, done: str) -> None:
        """The part's pixels, whole squares but for the last ones, as byte offsets into a plane."""
        b, per, parts, pixels = self.b, self.b.general("per"), self.b.general("parts"), self.plane
        b.emit("mov", pixels, self._field("rows"))
        b.emit("lea", per, b.at(pixels, self.lanes - 1))
        b.emit("shr", per, self.lanes.bit_length() - 1)
        b.emit("mov", parts, self._field("parts"))
        b.emit("lea", per, b.at(per, -1, index=parts))
        b.emit("divide_unsigned", per, per, parts)
        b.emit("imul", per, per, self.line)
        b.emit("shl", pixels, 2)
        b.emit("mov", parts, per)
        b.emit("imul", per, b["part"])
        b.emit("cmp", per, pixels)
        b.emit("jump_greater_equal", done)
        b.emit("mov", self.first, per)
        b.emit("add", per, parts)
        b.emit("min", per, pixels)
        b.emit("mov", self.last, per)
        b.emit("mov", per, self._field("batch"))
        b.emit("test", per, per)
        b.emit("jump_less_equal", done)

    def _block(self, channels: int) -> None:
        """All squares of a block of so many channels, and the addresses of the next one."""
        b = self.b
        square, rest, over = (b.fresh_label(name) for name in ("square", "rest", "over"))
        b.emit("mov", self.at, self.first)
        b.emit("mov", self.left, self.last)
        b.emit("sub", self.left, self.at)
        b.emit("sub", self.left, self.line)
        b.emit("jump_less", rest)
        b.label(square)
        self.square(channels, None)
        b.emit("add", self.at, self.line)
        b.emit("sub", self.left, self.line)
        b.emit("jump_greater_equal", square)
        b.label(rest)
        b.emit("add", self.left, self.line)
        b.emit("jump_zero", over)
        b.emit("shr", self.left, 2)
        mask = b.mask("there")
        b.emit("mask_from_count", mask, self.left)
        self.square(channels, mask)
        b.label(over)
        planes, blocks = self.sides()
        step = b.general("step")
        b.emit("imul", step, self.plane, channels)
        b.emit("add", planes, step)
        b.emit("imul", step, self.plane, self.lanes)
        b.emit("add", blocks, step)

    def sides(self) -> tuple[Variable, Variable]:
        """The addresses of the planes and of the blocks."""
        raise NotImplementedError

    def square(self, channels: int, mask: Variable | None) -> None:
        """One square at byte `at` of the planes; with a mask it has only `left` pixels."""
        raise NotImplementedError

    def _block_address(self, base: Variable) -> Variable:
        pixel = self.b.general("pixel")
        self.b.emit("imul", pixel, self.at, self.lanes)
        self.b.emit("add", pixel, base)
        return pixel

    def _planes(self, base: Variable, count: int) -> Iterator[Memory]:
        """The square's place in each of `count` planes."""
        plane = self.b.general("channel")
        self.b.emit("lea", plane, self.b.at(base, index=self.at))
        for number in range(count):
            if number:
                self.b.emit("add", plane, self.plane)
            yield self.b.at(plane)

    @contextmanager
    def _guarded(self) -> Iterator[str]:
        """Work on pixels, which ends where there are no more."""
        done = self.b.fresh_label("pixels_done")
        yield done
        self.b.label(done)


class _ToBlocks(_Reorder):
    def sides(self) -> tuple[Variable, Variable]:
        return self.source, self.to

    def square(self, channels: int, mask: Variable | None) -> None:
        b, rows = self.b, self.b.vectors("channel", self.lanes)
        for row, place in zip(rows, self._planes(self.source, channels), strict=False):
            if mask is None:
                b.emit("load", row, place)
            else:
                b.emit("load_masked", row, place, mask)
        for row in rows[channels:]:
            b.emit("zero", row)
        pixel = self._block_address(self.to)
        with self._guarded() as done:
            for index, column in enumerate(transposed(b, rows)):
                b.emit("store", b.at(pixel, index * self.line), column)
                if mask is not None and index + 1 < self.lanes:
                    b.emit("cmp", self.left, index + 1)
                    b.emit("jump_less_equal", done)


class _ToPlanes(_Reorder):
    def sides(self) -> tuple[Variable, Variable]:
        return self.to, self.source

    def square(self, channels: int, mask: Variable | None) -> None:
        b, rows = self.b, self.b.vectors("pixel", self.lanes)
        pixel = self._block_address(self.source)
        if mask is not None:
            for row in rows:
                b.emit("zero", row)
        with self._guarded() as done:
            for index, row in enumerate(rows):
                b.emit("load", row, b.at(pixel, index * self.line))
                if mask is not None and index + 1 < self.lanes:
                    b.emit("cmp", self.left, index + 1)
                    b.emit("jump_less_equal", done)
        for row, place in zip(transposed(b, rows)[:channels], self._planes(self.to, channels), strict=True):
            if mask is None:
                b.emit("store", place, row)
            else:
                b.emit("store_masked", place, row, mask)
