"""Element-wise runs on blocked images in which one of the extra inputs is enlarged by nearest neighbours.

    y = x * gate + x + enlarged(z)        a level of a feature pyramid: the smaller one is added to it

A pixel of the small image is loaded once for `scale` pixels of a row, and its row is read for `scale` rows:
the large image of it is never made.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.blocks.rows import PlaneRows
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.buildermath import BuilderMath, Value
from regweave.kernels.sweeps import AHEAD, RunStructure
from regweave.machines.x86 import VectorMachine
from regweave.values import frozen

MOST_EXTRAS = 4
"""Extra inputs: each has an address in a register."""
MOST_SCALE = 8


class EnlargingArguments(ctypes.Structure):
    """Addresses and sizes: `rows` x `columns` are those of the small image, with `blocks` blocks for each of
    `images`."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("x", "y", "images", "blocks", "rows", "columns", "parts")),
        ("extras", ctypes.c_int64 * MOST_EXTRAS),
    )


@frozen
class EnlargingRun:
    """A run in blocks, whose extra input `index` is `scale` times as small as x in both directions."""

    run: RunStructure
    index: int
    scale: int


def can_enlarge(work: EnlargingRun) -> bool:
    """Whether there is a kernel: images and gates as the only operands, few of them."""
    run = work.run
    plain = run.form == "blocks" and all(op.operand in ("none", "tensor") for op in run.ops)
    return (
        plain
        and work.index not in run.gates
        and run.extra_inputs <= MOST_EXTRAS
        and 2 <= work.scale <= MOST_SCALE
    )


@lru_cache(maxsize=32)
def enlarging_kernel(work: EnlargingRun, machine: VectorMachine) -> Listing:
    """The kernel `void f(const EnlargingArguments *, size_t part)`; a part does some rows of results."""
    return _Enlarging(work, machine).write()


class _Enlarging:
    def __init__(self, work: EnlargingRun, machine: VectorMachine) -> None:
        self.work, self.size, self.lanes = work, machine.vector_bytes, machine.lanes
        self.b = b = Builder(machine, name="rw_enlarging", arguments=("args", "part"))
        self.rows = PlaneRows(b)
        self.x, self.y = b.general("x"), b.general("y")
        self.extras = [b.general(f"extra{index}") for index in range(work.run.extra_inputs)]

    def field(self, name: str, index: int = 0) -> Memory:
        return self.b.at("args", getattr(EnlargingArguments, name).offset + 8 * index)

    def write(self) -> Listing:
        planes = self.field("images"), self.field("blocks")
        self.rows.write(planes, (self.field("rows"), self.work.scale), self.field("parts"), self._line)
        return self.b.finish()

    def _loaded(self, memory: Memory) -> Variable:
        value = self.b.general("loaded")
        self.b.emit("mov", value, memory)
        return value

    def _line(self) -> None:
        """One row of results: where everything lies, then pixel by pixel of the small image."""
        b, work = self.b, self.work
        large, small = b.general("large"), b.general("small")
        b.emit("mov", large, self.rows.plane)
        b.emit("imul", large, self.field("rows"))
        b.emit("mov", small, large)
        b.emit("imul", large, large, work.scale)
        b.emit("add", large, self.rows.row)
        b.emit("imul", large, self.field("columns"))
        b.emit("imul", large, large, work.scale * self.size)
        row, scale = b.general("row"), b.general("scale")
        b.emit("mov", scale, work.scale)
        b.emit("divide_unsigned", row, self._loaded(self.rows.row), scale)
        b.emit("add", small, row)
        b.emit("imul", small, self.field("columns"))
        b.emit("imul", small, small, self.size)
        gates = self._loaded(self.rows.plane)
        b.emit("imul", gates, gates, self.size)
        for pointer, field in ((self.x, "x"), (self.y, "y")):
            b.emit("mov", pointer, self.field(field))
            b.emit("add", pointer, large)
        for index, pointer in enumerate(self.extras):
            b.emit("mov", pointer, self.field("extras", index))
            b.emit(
                "add", pointer, gates if index in work.run.gates else small if index == work.index else large
            )
        held = {}
        for gate in sorted(work.run.gates):
            held[gate] = b.vector("gate")
            b.emit("load", held[gate], b.at(self.extras[gate]))
        columns, top = self._loaded(self.field("columns")), b.fresh_label("column")
        b.label(top)
        held[work.index] = b.vector("enlarged")
        b.emit("load", held[work.index], b.at(self.extras[work.index]))
        for pixel in range(work.scale):
            self._pixel(pixel, held)
        b.emit("add", self.extras[work.index], self.size)
        moving = [p for i, p in enumerate(self.extras) if i not in work.run.gates and i != work.index]
        for pointer in (self.x, self.y, *moving):
            b.emit("add", pointer, work.scale * self.size)
        b.emit("dec", columns)
        b.emit("jump_nonzero", top)

    def _pixel(self, pixel: int, held: dict[int, Variable]) -> None:
        b, run, value = self.b, self.work.run, self.b.vector("value")
        b.emit("load", value, b.at(self.x, pixel * self.size))

        def load(index: int) -> Value:
            extra = run.extras[index]
            assert extra is not None, "operands are images and gates"
            return held[extra] if extra in held else b.at(self.extras[extra], pixel * self.size)

        result = activate_all(BuilderMath(b, shared=0), run.ops, value, load)  # type: ignore[arg-type]
        assert isinstance(result, Variable), "a run ends in a register"
        b.emit("prefetch_l2", b.at(self.y, pixel * self.size + AHEAD))
        b.emit("store", b.at(self.y, pixel * self.size), result)
