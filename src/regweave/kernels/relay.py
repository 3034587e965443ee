"""A kernel that calls kernels: the steps of a part, one after the other.

    part 0:   take rows 0 .. 7 apart, convolve them, put them together, take rows 8 .. 15 apart, ...
    part 1:   ...

Steps that share memory in a core's own cache are best done by one thread, without the interpreter between.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from regweave.assembly import Builder, Listing
from regweave.machines.x86 import VectorMachine


class RelayStep(ctypes.Structure):
    """`function(arguments, part)`, addresses both."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("function", "arguments", "part"))


class RelayPart(ctypes.Structure):
    """The steps of a part: the address of the first one, and how many there are, at least 1."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("steps", "count"))


@lru_cache(maxsize=4)
def relay_kernel(machine: VectorMachine) -> Listing:
    """The kernel `void relay(const RelayPart *, size_t part)`."""
    b = Builder(machine, name="rw_relay", arguments=("parts", "part"))
    step, left = b.general("step"), b.general("left")
    function, arguments, part = (b.general(name) for name in ("function", "arguments", "step_part"))
    entry, again = b.general("entry"), b.fresh_label("step")
    b.emit("imul", entry, b["part"], ctypes.sizeof(RelayPart))
    b.emit("add", entry, b["parts"])
    b.emit("mov", step, b.at(entry, RelayPart.steps.offset))
    b.emit("mov", left, b.at(entry, RelayPart.count.offset))
    b.label(again)
    b.emit("mov", function, b.at(step, RelayStep.function.offset))
    b.emit("mov", arguments, b.at(step, RelayStep.arguments.offset))
    b.emit("mov", part, b.at(step, RelayStep.part.offset))
    b.call_pointer(function, arguments, part)
    b.emit("add", step, ctypes.sizeof(RelayStep))
    b.emit("dec", left)
    b.emit("jump_nonzero", again)
    b.emit("return")
    return b.finish()
