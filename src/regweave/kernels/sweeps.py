"""Element-wise work inside a model: gates, and every way in which images keep their channels.

How the channels lie decides what an operand with one element per channel is:

    flat      no such operand; the tensor is one plane                        x [elements]
    rows      neighbours are channels: a vector of the operand per vector     x [M, C]
    planes    a plane has one channel: the operand is repeated                x [batch, C, P]
    blocks    neighbours are the channels of a block: a vector per plane      x [batch, blocks, P, lanes]

Beside constants (bias, scale) an extra input can be a *gate*: one element per image and channel, known when
it runs, as squeeze-and-excitation computes it. For planes and blocks operands stay in a register for a whole
plane:

    for each plane: s = gate[plane]; for each vector of the part's pixels: y = x * s

The arguments are those of chain kernels (see common/arguments.py) with channel operands in place of weights.
Planes may lie apart (`x_pitch`, `y_pitch`, `pitches`; 0: contiguous), rows and blocks are contiguous. A part
does a range of rows, or of pixels of every plane.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.errors import UnsupportedError
from regweave.kernels.common.arguments import arguments_type, field_offset
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.buildermath import BuilderMath, Value
from regweave.machines.x86 import VectorMachine
from regweave.operators import Elementwise
from regweave.values import frozen

Form = Literal["flat", "rows", "planes", "blocks"]

_UNROLL = 4
AHEAD = 4096
"""Bytes: results so far on are fetched to the second-level cache. The processor does not do that by itself,
and a gate on 2.5 MB takes 0.15 instead of 0.21 ms."""
_MOST_OPERANDS = 5
"""Operands that may sit in general registers at once."""


@frozen
class RunStructure:
    """What a kernel is generated for: operators, the extra input that each reads, form and channels.

    `gates` are the extra inputs with one element per image and channel; `channels` counts padded ones too,
    and is 0 where no operand looks at channels.
    """

    ops: tuple[Elementwise, ...]
    extras: tuple[int | None, ...]
    form: Form
    channels: int = 0
    gates: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        assert len(self.ops) == len(self.extras), "one entry per operator"
        assert self.form == "flat" or self.channels > 0, "channels need a number"
        assert not self.gates or self.form in ("planes", "blocks"), "gates belong to images"

    @property
    def extra_inputs(self) -> int:
        """How many run-time tensors are read beside x."""
        return max((extra + 1 for extra in self.extras if extra is not None), default=0)

    @property
    def vectors(self) -> int:
        """How many channel operands there are."""
        return sum(op.operand == "channel" for op in self.ops)


def run_arguments(structure: RunStructure) -> type[ctypes.Structure]:
    """The structure that the kernel takes: `weights` are the channel operands, padded to whole vectors."""
    return arguments_type(structure.extra_inputs, structure.vectors)


@lru_cache(maxsize=64)
def sweep_kernel(structure: RunStructure, machine: VectorMachine) -> Listing:
    """The kernel `void f(const Args *, size_t part)`. UnsupportedError for too many operands."""
    if structure.extra_inputs + structure.vectors > _MOST_OPERANDS:
        raise UnsupportedError(
            f"{structure.extra_inputs + structure.vectors} operands in one element-wise run",
            expected=f"at most {_MOST_OPERANDS}",
        )
    writer = _Rows if structure.form == "rows" else _Planes
    return writer(structure, machine).write()


class _Writer:
    """What both loops share: addresses, the part's range, a group of vectors through all operators."""

    def __init__(self, structure: RunStructure, machine: VectorMachine) -> None:
        self.s, self.machine = structure, machine
        self.size = machine.vector_bytes
        self.b = Builder(machine, name=f"rw_sweep_{structure.form}", arguments=("args", "part"))
        self.type = run_arguments(structure)
        b = self.b
        self.x, self.y = b.general("x"), b.general("y")
        self.extras = [b.general(f"extra{t}") for t in range(structure.extra_inputs)]
        self.channel = [b.general(f"channel{t}") for t in range(structure.vectors)]
        self.offset, self.end = b.general("offset"), b.general("end")

    def field(self, name: str, index: int = 0) -> Memory:
        return self.b.at("args", field_offset(self.type, name, index))

    def load_pointers(self) -> None:
        for variable, name, index in (
            (self.x, "x", 0),
            (self.y, "y", 0),
            *((extra, "extras", t) for t, extra in enumerate(self.extras)),
            *((channel, "weights", t) for t, channel in enumerate(self.channel)),
        ):
            self.b.emit("mov", variable, self.field(name, index))

    def part_range(self, first: Variable, last: Variable, unit: int) -> None:
        """rows [first, last) of this part, a multiple of `unit` rows each but for the last part."""
        b = self.b
        per = b.general("per")
        b.emit("mov", per, self.field("rows"))
        b.emit("mov", last, per)
        b.emit("add", per, self.field("parts"))
        b.emit("dec", per)
        b.emit("divide_unsigned", first, per, self._loaded(self.field("parts")))
        b.emit("add", first, unit - 1)
        b.emit("and", first, -unit)
        b.emit("mov", per, first)
        b.emit("imul", first, b["part"])
        b.emit("min", first, last)
        b.emit("add", per, first)
        b.emit("min", last, per)

    def _loaded(self, memory: Memory) -> Variable:
        value = self.b.general("loaded")
        self.b.emit("mov", value, memory)
        return value

    def vectors(self, count: int, mask: Variable | None, operand) -> None:
        """`count` vectors at `offset`: load, all operators, store. `operand(index, j)` is a channel's or
        gate's."""
        b = self.b
        math = BuilderMath(b)
        for j in range(count):
            value = b.vector("value")
            self._load(value, b.at(self.x, j * self.size, index=self.offset), mask)

            def load(index: int, j: int = j) -> Value:
                extra = self.s.extras[index]
                if extra is None or extra in self.s.gates:
                    return operand(index, j)
                where = b.at(self.extras[extra], j * self.size, index=self.offset)
                if mask is None:
                    return where
                loaded = b.vector("extra")
                b.emit("load_masked", loaded, where, mask)
                return loaded

            result = activate_all(math, self.s.ops, value, load)  # type: ignore[arg-type]
            to = b.at(self.y, j * self.size, index=self.offset)
            if mask is None:
                b.emit("prefetch_l2", b.at(self.y, j * self.size + AHEAD, index=self.offset))
                b.emit("store", to, result)
            else:
                b.emit("store_masked", to, result, mask)

    def _load(self, value: Variable, where: Memory, mask: Variable | None) -> None:
        if mask is None:
            self.b.emit("load", value, where)
        else:
            self.b.emit("load_masked", value, where, mask)

    def sweep(self, operand, tail: bool) -> None:
        """All vectors from `offset` to `end` (bytes): groups, single ones, and with `tail` the rest by a
        mask."""
        b, size = self.b, self.size
        bound = b.general("bound")
        for count in (_UNROLL, 1):
            top, done = b.fresh_label("group"), b.fresh_label("done")
            b.emit("lea", bound, b.at(self.offset, count * size))
            b.emit("cmp", bound, self.end)
            b.emit("jump_greater", done)
            b.label(top)
            self.vectors(count, None, operand)
            b.emit("add", self.offset, count * size)
            b.emit("lea", bound, b.at(self.offset, count * size))
            b.emit("cmp", bound, self.end)
            b.emit("jump_less_equal", top)
            b.label(done)
        if tail:
            none = b.fresh_label("whole")
            rest, mask = b.general("rest"), b.mask("rest_mask")
            b.emit("mov", rest, self.end)
            b.emit("sub", rest, self.offset)
            b.emit("jump_less_equal", none)
            b.emit("shr", rest, 2)
            b.emit("mask_from_count", mask, rest)
            self.vectors(1, mask, operand)
            b.label(none)

    def ordinal(self, index: int) -> int:
        """The number of operator `index` among those with a channel operand."""
        return sum(op.operand == "channel" for op in self.s.ops[:index])


class _Planes(_Writer):
    """flat, planes and blocks: operands in registers, one sweep per plane."""

    def write(self) -> Listing:
        b, blocks = self.b, self.s.form == "blocks"
        unit = self.size if blocks else 4
        first, last, done = b.general("first"), b.general("last"), b.fresh_label("nothing")
        self.part_range(first, last, 1 if blocks else 64)
        b.emit("cmp", first, last)
        b.emit("jump_greater_equal", done)
        for bound in (first, last):
            b.emit("imul", bound, bound, unit)
        pitches = self._pitches(unit)
        self.load_pointers()
        images, planes = b.general("images"), b.general("planes")
        b.emit("mov", images, self.field("batch"))
        image, plane = b.fresh_label("image"), b.fresh_label("plane")
        b.emit("test", images, images)
        b.emit("jump_less_equal", done)
        b.label(image)
        per_image = self._planes_per_image()
        b.emit("mov", planes, per_image)
        b.label(plane)
        held = {index: self._operand(index) for index in self._operands()}
        b.emit("mov", self.offset, first)
        b.emit("mov", self.end, last)
        self.sweep(lambda index, j: held[index], tail=not blocks)
        for pointer, pitch in pitches:
            b.emit("add", pointer, pitch)
        step = self.size if blocks else 4
        for pointer in (*self.channel, *(self.extras[gate] for gate in sorted(self.s.gates))):
            b.emit("add", pointer, step)
        b.emit("dec", planes)
        b.emit("jump_nonzero", plane)
        for pointer in self.channel:
            b.emit("sub", pointer, step * per_image)
        b.emit("dec", images)
        b.emit("jump_nonzero", image)
        b.label(done)
        return b.finish()

    def _pitches(self, unit: int) -> list[tuple[Variable, Variable | Memory]]:
        """Bytes from one plane to the next, with the pointer of each tensor: they wait on the stack."""
        b, s = self.b, self.s
        whole = self._loaded(self.field("rows"))
        b.emit("imul", whole, whole, unit)
        extras = [t for t in range(s.extra_inputs) if t not in s.gates]
        if s.form != "planes":
            return [(pointer, whole) for pointer in (self.x, self.y, *(self.extras[t] for t in extras))]
        given = [(self.x, "x_pitch", 0), (self.y, "y_pitch", 0)]
        found = []
        for pointer, name, index in (*given, *((self.extras[t], "pitches", t) for t in extras)):
            kept, value, apart = b.stack(8), self._loaded(self.field(name, index)), b.fresh_label("apart")
            b.emit("test", value, value)
            b.emit("jump_nonzero", apart)
            b.emit("mov", value, whole)
            b.label(apart)
            b.emit("mov", kept, value)
            found.append((pointer, kept))
        return found

    def _planes_per_image(self) -> int:
        if self.s.form == "flat":
            return 1
        return self.s.channels // self.machine.lanes if self.s.form == "blocks" else self.s.channels

    def _operands(self) -> Sequence[int]:
        return [
            index
            for index, (op, extra) in enumerate(zip(self.s.ops, self.s.extras, strict=True))
            if op.operand == "channel" or extra in self.s.gates
        ]

    def _operand(self, index: int) -> Variable:
        """The operand of this plane in a register."""
        extra = self.s.extras[index]
        pointer = self.channel[self.ordinal(index)] if extra is None else self.extras[extra]
        held = self.b.vector("operand")
        self.b.emit("load" if self.s.form == "blocks" else "broadcast", held, self.b.at(pointer))
        return held


class _Rows(_Writer):
    """rows: operands from memory beside the elements, one sweep per row."""

    def write(self) -> Listing:
        b = self.b
        first, last, done = b.general("first"), b.general("last"), b.fresh_label("nothing")
        self.part_range(first, last, 1)
        b.emit("sub", last, first)
        b.emit("jump_less_equal", done)
        self.load_pointers()
        pitch = 4 * self.s.channels
        b.emit("imul", first, first, pitch)
        for pointer in (self.x, self.y, *self.extras):
            b.emit("add", pointer, first)
        row = b.fresh_label("row")
        b.label(row)
        b.emit("zero", self.offset)
        b.emit("mov", self.end, pitch)
        self.sweep(
            lambda index, j: b.at(self.channel[self.ordinal(index)], j * self.size, index=self.offset),
            tail=bool(pitch % self.size),
        )
        for pointer in (self.x, self.y, *self.extras):
            b.emit("add", pointer, pitch)
        b.emit("dec", last)
        b.emit("jump_nonzero", row)
        b.label(done)
        return b.finish()
