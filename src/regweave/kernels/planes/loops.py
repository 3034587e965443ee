"""What kernels on planes have in common: their arguments, and the loops over images and planes.

A part of the work is a range of planes, of every image.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.machines.x86 import VectorMachine


class PlaneArguments(ctypes.Structure):
    """Addresses, sizes of an input plane, and the distances between planes and between images in bytes.

    Only sums of taps (see taps.py) read the `addend`, and rows that stand `above` and `below` (1, or 0).
    """

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "x", "y", "batch", "planes", "rows", "columns", "x_plane", "y_plane", "x_image", "y_image",
            "parts", "addend", "addend_plane", "addend_image", "above", "below",
        )
    )  # fmt: skip


class PlaneLoops(ABC):
    """The loops over images and planes; `source` and `to` are the plane's addresses."""

    def __init__(self, machine: VectorMachine, name: str, sources: int = 1) -> None:
        """`sources`: planes that one plane of the result is made of."""
        self.machine, self.size, self.sources = machine, machine.vector_bytes, sources
        self.b = b = Builder(machine, name=name, arguments=("args", "part"))
        self.source, self.to = b.general("source"), b.general("to")
        self.pointers = [(self.source, "x"), (self.to, "y")]

    def field(self, name: str) -> Memory:
        return self.b.at("args", getattr(PlaneArguments, name).offset)

    def held(self, name: str) -> Variable:
        value = self.b.general(name)
        self.b.emit("mov", value, self.field(name))
        return value

    def write(self) -> Listing:
        b = self.b
        start, end = b.stack(8), b.stack(8)
        image, plane = b.general("image"), b.general("plane")
        first, last, per = b.general("first"), self.held("planes"), b.general("per")
        b.emit("lea", per, b.at(last, -1))
        b.emit("add", per, self.field("parts"))
        b.emit("divide_unsigned", first, per, self.held("parts"))
        b.emit("mov", per, first)
        b.emit("imul", first, b["part"])
        b.emit("add", per, first)
        b.emit("min", last, per)
        b.emit("mov", start, first)
        b.emit("mov", end, last)
        b.emit("zero", image)
        with self.loop(image, self.field("batch"), "image"):
            b.emit("mov", plane, start)
            with self.loop(plane, end, "plane"):
                for pointer, base in self.pointers:
                    step = b.general("step")
                    b.emit("mov", pointer, self.field(base))
                    for index, pitch in ((image, f"{base}_image"), (plane, f"{base}_plane")):
                        b.emit("mov", step, index)
                        b.emit("imul", step, self.field(pitch))
                        if pitch == "x_plane":
                            b.emit("imul", step, step, self.sources)
                        b.emit("add", pointer, step)
                self.plane()
        return b.finish()

    def mask(self, count: int | Variable) -> Variable:
        number, mask = self.b.general("count"), self.b.mask("lanes")
        self.b.emit("mov", number, count)
        self.b.emit("mask_from_count", mask, number)
        return mask

    @abstractmethod
    def plane(self) -> None:
        """One plane."""

    @contextmanager
    def loop(self, counter: Variable, end: Variable | Memory, name: str, step: int = 1) -> Iterator[None]:
        """While `counter` < `end`."""
        b, top, done = self.b, self.b.fresh_label(name), self.b.fresh_label(f"{name}_done")
        b.label(top)
        b.emit("cmp", counter, end)
        b.emit("jump_greater_equal", done)
        yield
        b.emit("add", counter, step)
        b.emit("jump", top)
        b.label(done)
