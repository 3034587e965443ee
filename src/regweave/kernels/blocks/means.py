"""The mean of each channel's plane, of images in blocks as wide as a vector.

    y[unit] = (x[unit][0] + x[unit][1] + ...) / pixels          a unit is a block of channels of an image

One sum over a plane of thousands of pixels is ten times less exact than onnxruntime's mean of plain images,
and a gate made of it errs for its whole channel: a text recogniser differed by 3e-4 at a width of 2400, now
by 2e-5. So four sums side by side go on for 64 steps, then they are added to four totals.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory
from regweave.kernels.common.arguments import arguments_type, field_offset
from regweave.kernels.common.division import share_among
from regweave.machines.x86 import VectorMachine

#: Sums side by side, and steps until they are added to the totals.
_SUMS, _STEPS = 4, 64


def mean_arguments() -> type[ctypes.Structure]:
    """The structure that the kernel takes; `rows` are the pixels of a plane."""
    return arguments_type(0, 0)


@lru_cache(maxsize=32)
def mean_kernel(blocks: int, machine: VectorMachine) -> Listing:
    """The kernel `void f(const Args *, size_t part)` for images of so many blocks; a part does some units."""
    b, line = Builder(machine, name="rw_mean", arguments=("args", "part")), machine.vector_bytes

    def field(name: str) -> Memory:
        return b.at("args", field_offset(mean_arguments(), name))

    source, to = b.general("source"), b.general("to")
    pixels, left, steps, value = (b.general(name) for name in ("pixels", "left", "steps", "value"))
    unit, piece, rest, one, added, done = (
        b.fresh_label(name) for name in ("unit", "piece", "rest", "one", "added", "done")
    )
    b.emit("imul", value, field("batch"), blocks)
    first, last = share_among(b, value, field("parts"))
    b.emit("mov", pixels, field("rows"))
    b.emit("imul", source, pixels, line)
    b.emit("imul", source, first)
    b.emit("add", source, field("x"))
    b.emit("imul", to, first, line)
    b.emit("add", to, field("y"))
    count = b.vector("count")
    b.emit("broadcast", count, pixels)
    b.emit("from_int", count, count)
    b.emit("sub", last, first)
    b.emit("jump_less_equal", done)
    sums, totals = b.vectors("sum", _SUMS), b.vectors("total", _SUMS)
    b.label(unit)
    for total in totals:
        b.emit("zero", total)
    b.emit("mov", left, pixels)
    b.label(piece)
    b.emit("mov", steps, _SUMS * _STEPS)
    b.emit("min", steps, left)
    b.emit("sub", left, steps)
    for total in sums:
        b.emit("zero", total)
    b.emit("sub", steps, _SUMS)
    b.emit("jump_less", rest)
    quad = b.fresh_label("quad")
    b.label(quad)
    for number, total in enumerate(sums):
        b.emit("add", total, total, b.at(source, number * line))
    b.emit("add", source, _SUMS * line)
    b.emit("sub", steps, _SUMS)
    b.emit("jump_greater_equal", quad)
    b.label(rest)
    b.emit("add", steps, _SUMS)
    b.emit("jump_zero", added)
    b.label(one)
    b.emit("add", sums[0], sums[0], b.at(source))
    b.emit("add", source, line)
    b.emit("dec", steps)
    b.emit("jump_nonzero", one)
    b.label(added)
    for total, part in zip(totals, sums, strict=True):
        b.emit("add", total, total, part)
    b.emit("test", left, left)
    b.emit("jump_nonzero", piece)
    b.emit("add", totals[0], totals[0], totals[1])
    b.emit("add", totals[2], totals[2], totals[3])
    b.emit("add", totals[0], totals[0], totals[2])
    b.emit("div", totals[0], totals[0], count)
    b.emit("store", b.at(to), totals[0])
    b.emit("add", to, line)
    b.emit("dec", last)
    b.emit("jump_nonzero", unit)
    b.label(done)
    b.emit("return")
    return b.finish()
