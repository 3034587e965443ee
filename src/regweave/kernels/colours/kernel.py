"""Pixels times a small matrix on a CPU: the sequence of `kernels.sequence`, channels in vector registers.

    target[p, n] = sum over k of matrix[n, k] * source[p, k] + matrix[n, K]         1 to 4 channels each

A tile is as many pixels as a vector has lanes, or twice as many. What LDS is on a GPU are vector registers
here, since a block of four channels fits into them whole:

    load       K vectors of interleaved channels, bytes and 16-bit numbers widened to f32
    stage      K vectors of one channel each
    multiply   N sums, the matrix's elements repeated from memory
    store      N vectors of interleaved results, rounded to even and clamped where they are integers

Pixels that fill no vector are the caller's: it runs them once more in memory that does. Source and target may
be planes, one per channel, which then need no staging; without a matrix the kernel converts between the two.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.errors import UnsupportedError
from regweave.kernels.colours.bytes import ByteReader, ByteWriter
from regweave.kernels.colours.lanes import MOST_HELD, Lanes, apart, together
from regweave.kernels.colours.structure import ELEMENT_BYTES, ColourArguments, Colours
from regweave.kernels.sequence import Schedule, write_product
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import VectorMachine

# loads widen to f32, stores narrow from it; "from" and "to" are addresses
_AVX512 = {
    "load": {
        "u8": Pattern("d:v from:a", ("vpmovzxbd %=0, xmmword ptr %1", "vcvtdq2ps %+0, %+0")),
        "u16": Pattern("d:v from:a", ("vpmovzxwd %=0, ymmword ptr %1", "vcvtdq2ps %+0, %+0")),
    },
    # a NaN becomes 0; numbers beyond 32 bits become the largest
    "store": {
        "u8": Pattern(
            "to:a x:v ~t:v",
            ("vmaxps %=2, %1, %#00000000", "vcvtps2dq %+2, %+2", "vpmovusdb xmmword ptr %0, %2"),
        ),
        "u16": Pattern(
            "to:a x:v ~t:v",
            ("vmaxps %=2, %1, %#00000000", "vcvtps2dq %+2, %+2", "vpmovusdw ymmword ptr %0, %2"),
        ),
    },
}
_PACKED = ("vcvtps2dq %+2, %+2", "vextracti128 %=3:x, %2, 1", "vpackusdw %+2:x, %+2:x, %3:x")
_AVX2 = {
    "load": {
        "u8": Pattern("d:v from:a", ("vpmovzxbd %=0, qword ptr %1", "vcvtdq2ps %+0, %+0")),
        "u16": Pattern("d:v from:a", ("vpmovzxwd %=0, xmmword ptr %1", "vcvtdq2ps %+0, %+0")),
    },
    "store": {
        "u8": Pattern(
            "to:a x:v ~t:v ~u:v",
            ("vmaxps %=2, %1, %#00000000", "vminps %+2, %+2, %#437f0000", *_PACKED,
             "vpackuswb %+2:x, %+2:x, %+2:x", "vmovq qword ptr %0, %2:x"),
        ),
        "u16": Pattern(
            "to:a x:v ~t:v ~u:v",
            ("vmaxps %=2, %1, %#00000000", "vminps %+2, %+2, %#477fff00", *_PACKED,
             "vmovdqu xmmword ptr %0, %2:x"),
        ),
    },
}  # fmt: skip
_TABLES = {"avx512": _AVX512, "avx2": _AVX2}


@lru_cache(maxsize=64)
def colour_kernel(colours: Colours, machine: VectorMachine) -> Listing:
    """The kernel, see ColourArguments. UnsupportedError for machines without one."""
    if machine.name not in _TABLES:
        raise UnsupportedError(
            f"no colour kernels for machine {machine.name!r}", expected=" or ".join(_TABLES)
        )
    steps = ColourSteps(colours, machine)
    write_product(steps)
    return steps.b.finish()


class ColourSteps:
    """The steps, emitted into a Builder. One block is the whole contraction, so that nothing follows it."""

    schedule = Schedule(1, 1, load=(0, 0), stage=(0, 0))

    def __init__(self, colours: Colours, machine: VectorMachine) -> None:
        self.colours, self.machine, self.table = colours, machine, _TABLES[machine.name]
        self.b = Builder(machine, name="rw_colours", arguments=("args",))
        self.loaded: list[Variable] = []
        self.planes: list[Variable] = []
        self.bytes: list[Variable] = []
        self.moves = Lanes(self.b, machine)
        self.factors: list[Variable] = []

    def enter(self) -> None:
        """Where the pixels are; the head of the loop over tiles."""
        b = self.b
        colours = self.colours
        self.matrix, self.tiles = b.general("matrix"), b.general("tiles")
        for variable, name in ((self.matrix, "matrix"), (self.tiles, "tiles")):
            b.emit("mov", variable, self._field(name))
        self.sources = self._pointers("source", colours.channels if colours.source_planes else 1)
        self.targets = self._pointers("target", colours.results if colours.target_planes else 1)
        tiles = colours.tiles_at_once(self.machine)
        self.reader = ByteReader(b, colours.channels, tiles) if self._bytes_in else None
        self.writer = (
            ByteWriter(b, colours.results, tiles, bounded=colours.bounded) if self._bytes_out else None
        )
        if self.moves.wide:
            self.moves.hold(self._orders())
            self._hold_matrix()
        b.emit("align", 32)
        b.label("tile")

    @property
    def _bytes_in(self) -> bool:
        return self.colours.source == "u8" and not self.colours.source_planes

    @property
    def _bytes_out(self) -> bool:
        return self.colours.target == "u8" and not self.colours.target_planes

    def _field(self, name: str) -> Memory:
        return self.b.at("args", getattr(ColourArguments, name).offset)

    def _pointers(self, name: str, count: int) -> list[Variable]:
        """Addresses of the first pixel, in each plane."""
        found = []
        for i in range(count):
            pointer = self.b.general(f"{name}{i}")
            if i:
                self.b.emit("mov", pointer, found[-1])
                self.b.emit("add", pointer, self._field(f"{name}_step"))
            else:
                self.b.emit("mov", pointer, self._field(name))
            found.append(pointer)
        return found

    def _orders(self) -> list[list[np.ndarray]]:
        """Those that picks are told of: of pixels that are no planes, and no bytes."""
        colours, lanes, orders = self.colours, self.machine.lanes, []
        if colours.channels > 1 and not (colours.source_planes or self._bytes_in):
            orders.append(apart(colours.channels, lanes))
        if colours.results > 1 and not (colours.target_planes or self._bytes_out):
            orders.append(together(colours.results, lanes))
        return orders

    def _hold_matrix(self) -> None:
        """The matrix's elements, repeated, where there are registers for all."""
        count = self.colours.results * (self.colours.channels + 1)
        if self.colours.matrix and count + len(self.moves.held) <= MOST_HELD:
            self.factors = self.b.vectors("factor", count)
            for i, factor in enumerate(self.factors):
                self.b.emit("broadcast", factor, self.b.at(self.matrix, 4 * i))

    def load(self, operand: str, buffer: int | None) -> None:
        """A tile's pixels, of which there is one block; the matrix is in cache and stays there."""
        if operand == "B" or buffer is not None:
            return
        if self.reader is not None:
            self.bytes = self.reader.load(self.sources[0])
            return
        size = self._bytes(self.colours.source)
        self.loaded = self.b.vectors("interleaved", self.colours.channels)
        for i, vector in enumerate(self.loaded):
            planes = self.colours.source_planes
            place = self.b.at(self.sources[i]) if planes else self.b.at(self.sources[0], i * size)
            self._move("load", self.colours.source, vector, place)

    def stage(self, operand: str, buffer: int) -> None:
        """One vector per channel of what was loaded, and of bytes when their tile is multiplied. The block
        after it, which the sequence stages too, is none."""
        if operand == "A" and self.reader is None and not self.planes:
            self.planes = self.loaded
            if not self.colours.source_planes:
                orders = apart(self.colours.channels, self.machine.lanes)
                self.planes = list(self.moves.each(self.loaded, orders))

    def publish(self) -> None:
        """There is nobody else."""

    def open_loop(self) -> None:
        """There is one block."""

    def next_block(self, buffer: int) -> None:
        """There is none."""

    def multiply(self, buffer: int, piece: int) -> None:
        """All results of the tile."""
        if self.reader is None:
            self.sums = [self._multiplied(self.planes)]
        else:
            self.sums = [self._multiplied(self.reader.planes(loaded)) for loaded in self.bytes]

    def _multiplied(self, planes: list[Variable]) -> list[Variable]:
        """The results of a vector of pixels."""
        b, count = self.b, self.colours.channels
        if not self.colours.matrix:
            return planes
        sums = b.vectors("sum", self.colours.results)
        for n, value in enumerate(sums):
            row = n * (count + 1)
            if self.factors:
                b.emit("move", value, self.factors[row + count])
            else:
                b.emit("broadcast", value, b.at(self.matrix, 4 * (row + count)))
            for k, plane in enumerate(planes):
                place = b.at(self.matrix, 4 * (row + k), repeat=True)
                b.emit("fma", value, plane, self.factors[row + k] if self.factors else place)
        return sums

    def leave_if_done(self) -> None:
        """One block is all."""

    def close_loop(self) -> None:
        """There was none."""

    def store(self) -> None:
        """Interleaved results, and on to the next tile."""
        b, colours = self.b, self.colours
        loaded, size = self._bytes(colours.source), self._bytes(colours.target)
        (sums, *_) = self.sums
        if self.writer is not None:
            self.writer.store(self.targets[0], self.sums)
        if colours.target_planes:
            for vector, target in zip(sums, self.targets, strict=True):
                self._move("store", colours.target, vector, b.at(target))
        elif self.writer is None:
            orders = together(colours.results, self.machine.lanes)
            for i, vector in enumerate(self.moves.each(sums, orders)):
                self._move("store", colours.target, vector, b.at(self.targets[0], i * size))
        for pointer in self.sources:
            b.emit("add", pointer, loaded if colours.source_planes else colours.channels * loaded)
        for pointer in self.targets:
            b.emit("add", pointer, size if colours.target_planes else colours.results * size)
        b.emit("dec", self.tiles)
        b.emit("jump_nonzero", "tile")
        if colours.stream:
            b.emit("fence_stores")
        b.emit("return")

    def _bytes(self, dtype: str) -> int:
        """Bytes of a channel of a tile in memory."""
        return self.colours.pixels(self.machine) * ELEMENT_BYTES[dtype]

    def _move(self, which: str, dtype: str, vector: Variable, place: Memory) -> None:
        operands = (vector, place) if which == "load" else (place, vector)
        pattern = self.table[which].get(dtype)
        if pattern is None:
            self.b.emit("store_stream" if which == "store" and self.colours.stream else which, *operands)
        else:
            self.b.emit_template(pattern, *operands)
