"""Small files that are nearly full: what fits is found, whoever lives where."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from regweave.assembly.amd import Kernel, Part
from regweave.errors import RegisterError
from regweave.machines.amd.assembly import GFX90A, GFX906, GcnMachine


def crowded(machine: GcnMachine, file: int, seed: int, *, given: int | None = None) -> Kernel:
    """Variables of 1, 2 and 4 registers that come and go in a file that is always nearly full."""
    choose = random.Random(seed)
    kernel = Kernel(machine, name="k")
    kernel.machine = cut(machine, given or file)
    kernel.emit("s_movk_i32", "s20", 0)
    living, held = [], 0
    for number in range(9):
        if living and (choose.random() < 0.5 or held >= file - 1):
            held -= drop(kernel, living.pop(choose.randrange(len(living))))
        count = choose.choice((1, 1, 1, 2, 2, 4))
        if held + count <= file:
            living.append(kernel.vector(f"x{number}", count=count))
            for at in range(count):
                kernel.emit("v_mov_b32", Part(living[-1], at), at)
            held += count
    for variable in living:
        drop(kernel, variable)
    return kernel


def drop(kernel, variable) -> int:
    for at in range(variable.count):
        kernel.emit("v_readfirstlane_b32", "s20", Part(variable, at))
    return variable.count


def cut(machine: GcnMachine, file: int) -> GcnMachine:
    classes = [replace(c, registers=c.registers[:file]) if c.name == "vector" else c for c in machine.classes]
    return replace(machine, classes=tuple(classes))


@pytest.mark.parametrize("machine", [GFX906, GFX90A], ids=lambda m: m.name)
def test_no_false_overflow(machine: GcnMachine):
    for seed in range(100):
        assert crowded(machine, 8, seed).finish().used["vector"] <= 8


def test_what_cannot_fit_is_refused():
    least = crowded(GFX906, 8, 7).finish().bound["vector"]
    refused = crowded(GFX906, 8, 7, given=least - 1)
    with pytest.raises(RegisterError, match=f"needs {least} of {least - 1} vector registers"):
        refused.finish()


def test_a_hole_below_a_long_lived_register_is_used():
    kernel = Kernel(GFX90A, name="k")
    kernel.machine = cut(GFX90A, 8)
    first, long, pair = kernel.vector("first"), kernel.vector("long"), kernel.vector("pair", count=2)
    quad = kernel.vector("quad", count=4)
    kernel.emit("v_mov_b32", first, 1)
    kernel.emit("v_mov_b32", long, first)  # in order of appearance it would get v0 or v1
    for at in range(2):
        kernel.emit("v_mov_b32", Part(pair, at), at)
    for at in range(4):
        kernel.emit("v_mov_b32", Part(quad, at), at)
    for variable in (pair, quad, long):
        drop(kernel, variable)
    assert kernel.finish().used["vector"] <= 8
