"""Lines of elements that lie one behind the other, each reduced to a number, or rewritten by what it sums to.

    mean, largest     y[line] = mean or largest of x[line][0..n)        a plane of an image is a line
    softmax           y[line][i] = exp(x[line][i] - largest) / sum of these
    layer norm        y[line][i] = (x[line][i] - mean) / sqrt(variance + epsilon) * scale[i] + bias[i]

    16 lanes, n = 150     [4 vectors at a time x 2][1 vector][6 lanes]  -> four vectors of partial results,
                          then one, then lanes are added crosswise: every lane holds the whole line's

One sum over thousands of elements is ten times less exact than onnxruntime's, so sums go on for 64 steps and
are then added to totals (as `blocks.means` does). The largest of a line ignores NaN behind the first element,
as onnxruntime's does; all others become NaN.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.arguments import arguments_type, field_offset
from regweave.kernels.common.division import share_among
from regweave.kernels.functions.activations import exp2
from regweave.kernels.functions.buildermath import BuilderMath
from regweave.machines.x86 import VectorMachine

#: Partial results side by side, and steps until they are added to the totals.
_SIDE, _STEPS = 4, 64

#: Entry and number that exchange halves, quarters, pairs and lanes, by lanes of a vector.
_LANES = (("shuffle_within", 0x4E), ("shuffle_within", 0xB1))
_EXCHANGES = {
    16: (("shuffle_quarters", 0x4E), ("shuffle_quarters", 0xB1), *_LANES),
    8: (("shuffle_halves", 0x01), *_LANES),
}


@dataclass(frozen=True)
class Mean:
    """The mean of each line."""


@dataclass(frozen=True)
class LargestOfLine:
    """The largest element of each line."""


@dataclass(frozen=True)
class Softmax:
    """Each line as shares of one, by the exponentials of its elements."""


@dataclass(frozen=True)
class LayerNorm:
    """Each line less its mean, by the root of its variance and `epsilon`; a scale and a bias for each
    element."""

    epsilon: float


LineWork = Mean | LargestOfLine | Softmax | LayerNorm


def line_arguments() -> type[ctypes.Structure]:
    """The structure that kernels take: `batch` lines of `rows` elements; extras are scale and bias."""
    return arguments_type(2, 0)


def line_kernel(work: LineWork, machine: VectorMachine) -> Listing:
    """The kernel `void f(const Args *, size_t part)`; a part does a range of lines."""
    return _Lines(work, machine).write()


Take = Callable[[Memory, "Variable | None"], Variable]
"""Makes a value of what lies at an address, with the mask of the last lanes of a line or without."""


class _Lines:
    def __init__(self, work: LineWork, machine: VectorMachine) -> None:
        self.work, self.line, self.lanes = work, machine.vector_bytes, machine.lanes
        self.b = b = Builder(machine, name="rw_lines", arguments=("args", "part"))
        self.source, self.to, self.at = b.general("source"), b.general("to"), b.general("at")
        self.whole, self.quads, self.rest = b.general("whole"), b.general("quads"), b.general("rest")
        self.extras = [b.general("scale"), b.general("bias")] if isinstance(work, LayerNorm) else []
        self.count, self.mask = b.vector("count"), b.mask("last")

    def _field(self, name: str, index: int = 0) -> Memory:
        return self.b.at("args", field_offset(line_arguments(), name, index))

    def write(self) -> Listing:
        b = self.b
        left, size, bytes_out = b.general("left"), b.general("size"), b.general("bytes_out")
        line, done = b.fresh_label("line"), b.fresh_label("done")
        self._range(left, size, bytes_out)
        b.emit("mov", self.rest, self._field("rows"))
        b.emit("broadcast", self.count, self.rest)
        b.emit("from_int", self.count, self.count)
        b.emit("and", self.rest, self.lanes - 1)
        b.emit("mask_from_count", self.mask, self.rest)
        for bound, step in ((self.whole, self.line), (self.quads, _SIDE * self.line)):
            b.emit("mov", bound, size)
            b.emit("and", bound, -step)
        for index, extra in enumerate(self.extras):
            b.emit("mov", extra, self._field("extras", index))
        b.emit("test", left, left)
        b.emit("jump_less_equal", done)
        b.label(line)
        self._do_line()
        b.emit("add", self.source, size)
        b.emit("add", self.to, bytes_out)
        b.emit("dec", left)
        b.emit("jump_nonzero", line)
        b.label(done)
        b.emit("return")
        return b.finish()

    def _range(self, left: Variable, size: Variable, bytes_out: Variable) -> None:
        """How many lines the part does, their bytes in and out, and where they start."""
        b, count = self.b, self.b.general("count")
        b.emit("mov", count, self._field("batch"))
        first, last = share_among(b, count, self._field("parts"))
        b.emit("mov", left, last)
        b.emit("sub", left, first)
        b.emit("mov", size, self._field("rows"))
        b.emit("shl", size, 2)
        b.emit("mov", bytes_out, 4 if isinstance(self.work, (Mean, LargestOfLine)) else size)
        for pointer, name, pitch in ((self.source, "x", size), (self.to, "y", bytes_out)):
            b.emit("mov", pointer, first)
            b.emit("imul", pointer, pitch)
            b.emit("add", pointer, self._field(name))

    def _do_line(self) -> None:
        work = self.work
        if isinstance(work, Mean):
            self.b.emit("store_first", self.b.at(self.to), self._mean(self._loaded))
        elif isinstance(work, LargestOfLine):
            self.b.emit("store_first", self.b.at(self.to), self._largest())
        elif isinstance(work, Softmax):
            self._softmax()
        else:
            self._layer_norm(work.epsilon)

    def _softmax(self) -> None:
        b, largest = self.b, self._largest()

        def exponential(place: Memory, mask: Variable | None) -> Variable:
            value = self._loaded(place, mask)
            b.emit("sub", value, value, largest)
            math_ = BuilderMath(b)
            power = exp2(math_, math_.mul(value, math.log2(math.e)))
            self._store(power, mask)
            return power

        share = b.vector("share")
        total = self._reduced(exponential, "add", None)
        b.emit("broadcast", share, b.constant(1.0))
        b.emit("div", share, share, total)

        def scaled(place: Memory, mask: Variable | None) -> None:
            power = b.vector("power")
            self._load(power, b.at(self.to, index=self.at), mask)
            b.emit("mul", power, power, share)
            self._store(power, mask)

        self._each(scaled)

    def _layer_norm(self, epsilon: float) -> None:
        b, mean = self.b, self._mean(self._loaded)

        def centred(place: Memory, mask: Variable | None) -> Variable:
            value = self._loaded(place, mask)
            b.emit("sub", value, value, mean)
            return value

        def squared(place: Memory, mask: Variable | None) -> Variable:
            value = centred(place, mask)
            b.emit("mul", value, value, value)
            return value

        scale, root = b.vector("by"), self._mean(squared)
        b.emit("add", root, root, b.constant(epsilon))
        b.emit("sqrt", root, root)
        b.emit("broadcast", scale, b.constant(1.0))
        b.emit("div", scale, scale, root)

        def normed(place: Memory, mask: Variable | None) -> None:
            value, factor, bias = centred(place, mask), b.vector("factor"), b.vector("bias")
            for extra, vector in zip(self.extras, (factor, bias), strict=True):
                self._load(vector, b.at(extra, index=self.at), mask)
            b.emit("mul", value, value, scale)
            b.emit("mul_add", value, factor, bias)
            self._store(value, mask)

        self._each(normed)

    def _mean(self, take: Take) -> Variable:
        total = self._reduced(take, "add", None)
        self.b.emit("div", total, total, self.count)
        return total

    def _largest(self) -> Variable:
        first = self.b.vector("first")
        self.b.emit("broadcast", first, self.b.at(self.source))
        return self._reduced(self._loaded, "max", first)

    def _reduced(self, take: Take, entry: str, neutral: Variable | None) -> Variable:
        """What `entry` makes of the values of a line, in every lane; `neutral` is zero where it is None."""
        b, line, at = self.b, self.line, self.at
        if neutral is None:
            neutral = b.vector("nothing")
            b.emit("zero", neutral)
        totals, sums, stop = b.vectors("total", _SIDE), b.vectors("sum", _SIDE), b.general("stop")
        piece, quad, some = (b.fresh_label(name) for name in ("piece", "quad", "some"))
        for total in totals:
            b.emit("move", total, neutral)
        b.emit("zero", at)
        b.label(piece)
        b.emit("cmp", at, self.quads)
        b.emit("jump_greater_equal", some)
        b.emit("lea", stop, b.at(at, _SIDE * _STEPS * line))
        b.emit("min", stop, self.quads)
        for partial in sums:
            b.emit("move", partial, neutral)
        b.label(quad)
        for partial in sums:
            # the newer value first: of two that cannot be compared `max` takes the second
            b.emit(entry, partial, take(b.at(self.source, index=at), None), partial)
            b.emit("add", at, line)
        b.emit("cmp", at, stop)
        b.emit("jump_less", quad)
        for total, partial in zip(totals, sums, strict=True):
            b.emit(entry, total, partial, total)
        b.emit("jump", piece)
        b.label(some)

        def last(place: Memory, mask: Variable | None) -> None:
            value = take(place, mask)
            if mask is not None:
                b.emit("select", value, mask, value, neutral)
            b.emit(entry, totals[0], value, totals[0])

        self._each(last, going_on=True)
        for one, other in ((0, 1), (2, 3), (0, 2)):
            b.emit(entry, totals[one], totals[one], totals[other])
        for exchange, number in _EXCHANGES[self.lanes]:
            moved = b.vector("moved")
            b.emit(exchange, moved, totals[0], totals[0], number)
            b.emit(entry, totals[0], totals[0], moved)
        return totals[0]

    def _each(self, do: Callable[[Memory, Variable | None], None], going_on: bool = False) -> None:
        """`do` for every vector of the line (or those that are left) and for its last lanes."""
        b, at = self.b, self.at
        vector, tail, done = (b.fresh_label(name) for name in ("vector", "tail", "line_done"))
        if not going_on:
            b.emit("zero", at)
        b.label(vector)
        b.emit("cmp", at, self.whole)
        b.emit("jump_greater_equal", tail)
        do(b.at(self.source, index=at), None)
        b.emit("add", at, self.line)
        b.emit("jump", vector)
        b.label(tail)
        b.emit("test", self.rest, self.rest)
        b.emit("jump_zero", done)
        do(b.at(self.source, index=at), self.mask)
        b.label(done)

    def _loaded(self, place: Memory, mask: Variable | None) -> Variable:
        value = self.b.vector("value")
        self._load(value, place, mask)
        return value

    def _load(self, to: Variable, place: Memory, mask: Variable | None) -> None:
        if mask is None:
            self.b.emit("load", to, place)
        else:
            self.b.emit("load_masked", to, place, mask)

    def _store(self, value: Variable, mask: Variable | None) -> None:
        """At the same distance in the result."""
        place = self.b.at(self.to, index=self.at)
        if mask is None:
            self.b.emit("store", place, value)
        else:
            self.b.emit("store_masked", place, value, mask)
