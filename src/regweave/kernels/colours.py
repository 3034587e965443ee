"""Pixels times a small matrix on a CPU: the sequence of `kernels.sequence`, channels in vector registers.

    target[p, n] = sum over k of matrix[n, k] * source[p, k] + matrix[n, K]         1 to 4 channels each

A tile is as many pixels as a vector has lanes. What LDS is on a GPU are vector registers here, since a block
of four channels fits into them whole:

    load       K vectors of interleaved channels, bytes and 16-bit numbers widened to f32
    stage      K vectors of one channel each
    multiply   N sums, the matrix's elements repeated from memory
    store      N vectors of interleaved results, rounded to even and clamped where they are integers

Pixels that fill no vector are the caller's: it runs them once more in memory that does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.errors import UnsupportedError
from regweave.kernels.sequence import Schedule, write_product
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import VectorMachine
from regweave.values import frozen

#: Channels that a pixel may have, before and after.
MOST_CHANNELS = 4
#: Bytes of an element of each type.
ELEMENT_BYTES = {"u8": 1, "u16": 2, "f32": 4}

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
# any lanes of two vectors; lanes of one
_PICK = Pattern("d:v index:m a:v b:v", ("vmovaps %=0, %1", "vpermi2ps %+0, %2, %3"))
_PERMUTE = Pattern("d:v index:m a:v", ("vmovaps %=0, %1", "vpermps %+0, %+0, %2"))


_FIELDS = ("source", "target", "matrix", "tiles")


class ColourArguments(ctypes.Structure):
    """Argument of a colour kernel: `void colours(const ColourArguments *)`.

    Addresses of the first pixels and of the matrix (f32, N rows of K factors and the constant); `tiles` of as
    many pixels as a vector has lanes, at least 1.
    """

    _fields_ = tuple((name, ctypes.c_int64) for name in _FIELDS)


@frozen
class Colours:
    """What a colour kernel is made for: channels before and after, and the types of their elements."""

    channels: int
    results: int
    source: str
    target: str


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

    def enter(self) -> None:
        """Where the pixels are; the head of the loop over tiles."""
        b = self.b
        self.source, self.target, self.matrix, self.tiles = (b.general(name) for name in _FIELDS)
        for name in _FIELDS:
            b.emit("mov", getattr(self, name), b.at("args", getattr(ColourArguments, name).offset))
        b.emit("align", 32)
        b.label("tile")

    def load(self, operand: str, buffer: int | None) -> None:
        """A tile's pixels, of which there is one block; the matrix is in cache and stays there."""
        if operand == "B" or buffer is not None:
            return
        size = self._bytes(self.colours.source)
        self.loaded = self.b.vectors("interleaved", self.colours.channels)
        for i, vector in enumerate(self.loaded):
            self._move("load", self.colours.source, vector, self.b.at(self.source, i * size))

    def stage(self, operand: str, buffer: int) -> None:
        """One vector per channel of what was loaded."""
        if operand == "A" and self.loaded:
            count, lanes = self.colours.channels, np.arange(self.machine.lanes)
            self.planes = [self._take(self.loaded, lanes * count + k) for k in range(count)]
            self.loaded = []

    def publish(self) -> None:
        """There is nobody else."""

    def open_loop(self) -> None:
        """There is one block."""

    def next_block(self, buffer: int) -> None:
        """There is none."""

    def multiply(self, buffer: int, piece: int) -> None:
        """All results of the tile."""
        b, count = self.b, self.colours.channels
        self.sums = b.vectors("sum", self.colours.results)
        for n, value in enumerate(self.sums):
            row = 4 * n * (count + 1)
            b.emit("broadcast", value, b.at(self.matrix, row + 4 * count))
            for k, plane in enumerate(self.planes):
                b.emit("fma", value, plane, b.at(self.matrix, row + 4 * k, repeat=True))

    def leave_if_done(self) -> None:
        """One block is all."""

    def close_loop(self) -> None:
        """There was none."""

    def store(self) -> None:
        """Interleaved results, and on to the next tile."""
        b, count, lanes = self.b, self.colours.results, self.machine.lanes
        size = self._bytes(self.colours.target)
        for i in range(count):
            element = np.arange(lanes) + i * lanes
            vector = self._take(self.sums, element % count * lanes + element // count)
            self._move("store", self.colours.target, vector, b.at(self.target, i * size))
        b.emit("add", self.source, self.colours.channels * self._bytes(self.colours.source))
        b.emit("add", self.target, count * size)
        b.emit("dec", self.tiles)
        b.emit("jump_nonzero", "tile")
        b.emit("return")

    def _bytes(self, dtype: str) -> int:
        """Bytes of a vector's elements in memory."""
        return self.machine.lanes * ELEMENT_BYTES[dtype]

    def _move(self, which: str, dtype: str, vector: Variable, place: Memory) -> None:
        operands = (vector, place) if which == "load" else (place, vector)
        pattern = self.table[which].get(dtype)
        if pattern is None:
            self.b.emit(which, *operands)
        else:
            self.b.emit_template(pattern, *operands)

    def _take(self, sources: Sequence[Variable], order: np.ndarray) -> Variable:
        """A vector of the elements `order`, counted through all sources."""
        b, lanes = self.b, self.machine.lanes
        if len(sources) == 1:
            return sources[0]
        taken: Variable | None = None
        wide = self.machine.name == "avx512"
        for i in range(1 if wide else 0, len(sources)):
            mine = order // lanes == i
            if taken is None and wide:
                index, operands = np.where(order < 2 * lanes, order, 0), (sources[0], sources[1])
            elif wide:
                assert taken is not None, "the first two came first"
                index = np.where(mine, lanes + order % lanes, np.arange(lanes))
                operands = (taken, sources[i])
            else:
                index, operands = order % lanes, (sources[i],)
            place = b.data(index.astype(np.uint32).tobytes())
            moved = b.vector("moved")
            b.emit_template(_PICK if wide else _PERMUTE, moved, place, *operands)
            if taken is None or wide:
                taken = moved
            else:
                both = b.vector("both")
                number = int(sum(1 << lane for lane in np.flatnonzero(mine)))
                b.emit("blend", both, taken, moved, number)
                taken = both
        assert taken is not None, "there are sources"
        return taken
