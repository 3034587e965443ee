"""A run of element-wise work on a whole tensor: read once, written once, whatever the number of operators.

The tensor is taken as rows of `length` elements, the last one maybe shorter:

    no channels       rows of any length the caller likes, a few KB          x [total] channels last     a
    row is one vector of all channels                    x [rows, N]      operands lie beside it channels
    first    a row is one channel of one image                      x [batch, N, P]  operands are scalars

A row is done four vectors at a time, then one, then the last one through a mask.
"""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.activations import activate_all
from regweave.kernels.arguments import STREAM, field_offset
from regweave.kernels.buildermath import BuilderMath, Value
from regweave.machines.x86 import VectorMachine
from regweave.operators import RunSignature

_UNROLL = 4


@cache
def run_arguments_type(extras: int, operands: int) -> type[ctypes.Structure]:
    """The arguments for a number of extra tensors and channel operands."""
    head = ("x", "y", "total", "length", "parts", "flags")
    fields = [(name, ctypes.c_int64) for name in head]
    fields += [("extras", ctypes.c_int64 * extras), ("operands", ctypes.c_int64 * operands)]
    return type("RunArguments", (ctypes.Structure,), {"_fields_": fields})


def run_arguments(signature: RunSignature) -> type[ctypes.Structure]:
    """Argument of `void run(const Args *, size_t part)`.

    Addresses x, y and extras[] of `total` floats each (y may be x or an extra itself, but not overlap
    otherwise); `length` floats per row (N, or P, or any number without channels); operands[]: addresses of
    the channel operands, float32 [N], in the order of the operators; parts; flags: STREAM if y and 4 *
    length are multiples of the vector's bytes and y is none of the inputs.
    """
    return run_arguments_type(signature.extra_inputs, _channel_operands(signature))


def _channel_operands(signature: RunSignature) -> int:
    return sum(op.operand == "channel" for op in signature.ops)


@lru_cache(maxsize=64)
def run_kernel(signature: RunSignature, machine: VectorMachine) -> Listing:
    """The kernel of a run; see `run_arguments`."""
    return _RunWriter(signature, machine).write()


class _RunWriter:
    """Writes the kernel: this part's rows, in each the vectors."""

    def __init__(self, signature: RunSignature, machine: VectorMachine) -> None:
        self.signature, self.machine = signature, machine
        self.b = b = Builder(machine, name="rw_run", arguments=("args", "part"))
        self.first = signature.axis == "first" and signature.channels is not None
        self.x, self.y = b.general("x"), b.general("y")
        self.offset, self.left, self.row, self.rows = (
            b.general(n) for n in ("offset", "left", "row", "rows")
        )
        self.extras = [b.general(f"extra{i}") for i in range(signature.extra_inputs)]
        count = _channel_operands(signature)
        self.operands = [b.general(f"operand{i}") for i in range(count)]
        self.scalars = [b.vector(f"channel{i}") for i in range(count)] if self.first else []
        self.channel = b.general("channel")

    def _field(self, name: str, index: int = 0) -> Memory:
        return self.b.at("args", field_offset(run_arguments(self.signature), name, index))

    def write(self) -> Listing:
        b = self.b
        next_row, done = b.fresh_label("row"), b.fresh_label("done")
        self._divide(done)
        b.label(next_row)
        self._start_row()
        plain, row_done = b.fresh_label("cached"), b.fresh_label("row_done")
        flags = b.general("flags")
        b.emit("mov", flags, self._field("flags"))
        b.emit("test", flags, STREAM)
        b.emit("jump_zero", plain)
        self._vectors(_UNROLL, stream=True)
        self._vectors(1, stream=True)
        b.label(plain)
        self._vectors(_UNROLL, stream=False)
        self._vectors(1, stream=False)
        b.emit("cmp", self.left, 0)
        b.emit("jump_equal", row_done)
        self._masked()
        b.label(row_done)
        self._next_row()
        b.emit("dec", self.rows)
        b.emit("jump_nonzero", next_row)
        b.label(done)
        b.emit("fence_stores")
        b.emit("return")
        return b.finish()

    def _divide(self, done: str) -> None:
        """`row` and `rows` of this part, and the pointers."""
        b = self.b
        count, parts = b.general("count"), b.general("parts")
        length = b.general("length")
        b.emit("mov", count, self._field("total"))
        b.emit("cmp", count, 0)
        b.emit("jump_less_equal", done)
        b.emit("mov", length, self._field("length"))
        b.emit("add", count, length)
        b.emit("sub", count, 1)
        b.emit("divide_unsigned", count, count, length)
        b.emit("mov", parts, self._field("parts"))
        b.emit("mov", self.row, count)
        b.emit("imul", self.row, b["part"])
        b.emit("lea", self.rows, b.at(self.row, index=count))
        b.emit("divide_unsigned", self.row, self.row, parts)
        b.emit("divide_unsigned", self.rows, self.rows, parts)
        b.emit("sub", self.rows, self.row)
        b.emit("jump_less_equal", done)
        b.emit("mov", self.x, self._field("x"))
        b.emit("mov", self.y, self._field("y"))
        for i, extra in enumerate(self.extras):
            b.emit("mov", extra, self._field("extras", i))
        for i, operand in enumerate(self.operands):
            b.emit("mov", operand, self._field("operands", i))
        start = b.general("start")
        b.emit("mov", start, self.row)
        b.emit("imul", start, length)
        for pointer in (self.x, self.y, *self.extras):
            b.emit("lea", pointer, b.at(pointer, index=start, scale=4))
        if self.first:
            quotient, channels = b.general("quotient"), b.general("channels")
            b.emit("mov", channels, self.signature.channels)
            b.emit("divide_unsigned", quotient, self.row, channels)
            b.emit("imul", quotient, channels)
            b.emit("mov", self.channel, self.row)
            b.emit("sub", self.channel, quotient)

    def _start_row(self) -> None:
        """`left` elements, `offset` 0; with channels first, the row's scalars."""
        b = self.b
        length, before = b.general("length"), b.general("before")
        b.emit("mov", length, self._field("length"))
        b.emit("mov", self.left, self._field("total"))
        b.emit("mov", before, self.row)
        b.emit("imul", before, length)
        b.emit("sub", self.left, before)
        b.emit("min", self.left, length)
        b.emit("zero", self.offset)
        for scalar, operand in zip(self.scalars, self.operands, strict=False):
            b.emit("broadcast", scalar, b.at(operand, index=self.channel, scale=4))

    def _next_row(self) -> None:
        b = self.b
        step = b.general("step")
        b.emit("mov", step, self._field("length"))
        for pointer in (self.x, self.y, *self.extras):
            b.emit("lea", pointer, b.at(pointer, index=step, scale=4))
        b.emit("inc", self.row)
        if self.first:
            same = b.fresh_label("same_image")
            b.emit("inc", self.channel)
            b.emit("cmp", self.channel, self.signature.channels)
            b.emit("jump_less", same)
            b.emit("zero", self.channel)
            b.label(same)

    def _vectors(self, count: int, *, stream: bool) -> None:
        """As many groups of `count` whole vectors as are left."""
        b, size = self.b, self.machine.vector_bytes
        top, end = b.fresh_label("vectors"), b.fresh_label("vectors_done")
        b.label(top)
        b.emit("cmp", self.left, count * self.machine.lanes)
        b.emit("jump_less", end)
        math = BuilderMath(b)
        results = []
        for j in range(count):
            value = b.vector("value")
            b.emit("load", value, b.at(self.x, j * size, index=self.offset))
            results.append(self._apply(math, value, j * size, None))
        for j, result in enumerate(results):
            store = "store_stream" if stream else "store"
            b.emit(store, b.at(self.y, j * size, index=self.offset), result)
        b.emit("add", self.offset, count * size)
        b.emit("sub", self.left, count * self.machine.lanes)
        b.emit("jump", top)
        b.label(end)

    def _masked(self) -> None:
        """The last lanes of a row."""
        b = self.b
        mask, value = b.mask("mask"), b.vector("value")
        b.emit("mask_from_count", mask, self.left)
        b.emit("load_masked", value, b.at(self.x, index=self.offset), mask)
        result = self._apply(BuilderMath(b), value, 0, mask)
        b.emit("store_masked", b.at(self.y, index=self.offset), result, mask)

    def _apply(self, math: BuilderMath, value: Variable, further: int, mask: Variable | None) -> Variable:
        """All operators on one vector, `further` bytes behind `offset`."""
        signature = self.signature

        def load(index: int) -> Value:
            op = signature.ops[index]
            if op.operand == "channel":
                number = sum(other.operand == "channel" for other in signature.ops[:index])
                if self.first:
                    return self.scalars[number]
                return self._operand(self.operands[number], further, mask)
            extra = signature.extras[index]
            assert extra is not None
            return self._operand(self.extras[extra], further, mask)

        return activate_all(math, signature.ops, value, load)  # type: ignore[arg-type]

    def _operand(self, base: Variable, further: int, mask: Variable | None) -> Value:
        where = self.b.at(base, further, index=self.offset)
        if mask is None:
            return where
        value = self.b.vector("operand")
        self.b.emit("load_masked", value, where, mask)
        return value
