"""What the parts of a kernel share while it is written: builder, geometry, registers, slots, routines.

The general registers have fixed roles, listed in `Registers`; what does not change inside a tile lives in
named slots of the stack and is fetched when a tile starts. A routine is asked for by its key and written
once, after the driver, however many stages call it:

    w.call(RowLoop(...))      emits the call; RowLoop.write(w) runs when the kernel is finished
"""

from __future__ import annotations

import ctypes
from typing import Protocol

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.arguments import field_offset
from regweave.kernels.common.geometry import Geometry
from regweave.machines.x86 import VectorMachine


class Routine(Protocol):
    """A local routine; equal ones (they hash) are written once. `stem` starts its label."""

    @property
    def stem(self) -> str: ...

    def write(self, w: Workspace) -> None:
        """Emit the body up to and including `ret`."""
        ...


class Registers:
    """Roles of the general registers.

    `source` first scalar of the tile; `near`, `far` walk from it (far: three rows on); `pitch` bytes
    between its rows; `walk` walks down the vectors; `steps` counts the product's steps; `out` first result
    of the tile, `out_far` three rows on, `out_pitch` between its rows; `left` scalars still to do; `ahead`
    the input that will be needed next; `asked` how far behind `walk` the weights are that will be.
    """

    def __init__(self, b: Builder) -> None:
        self.source = b.general("source")
        self.near = b.general("near")
        self.far = b.general("far")
        self.pitch = b.general("pitch")
        self.walk = b.general("walk")
        self.steps = b.general("steps")
        self.out = b.general("out")
        self.out_far = b.general("out_far")
        self.out_pitch = b.general("out_pitch")
        self.left = b.general("left")
        self.ahead = b.general("ahead")
        self.asked = b.general("asked")


class Workspace:
    """One kernel `void name(const Args *args, size_t part)` being written.

    `structure` is Args; `slot(name)` is a 64-bit place on the stack, made when first named. `longest` is the
    most steps of any product, None if only known at run time.
    """

    def __init__(
        self,
        machine: VectorMachine,
        geometry: Geometry,
        name: str,
        structure: type[ctypes.Structure],
        longest: int | None = None,
    ) -> None:
        self.b = Builder(machine, name=name, arguments=("args", "part"))
        self.geometry = geometry
        self.structure = structure
        self.longest = longest
        self.r = Registers(self.b)
        self._slots: dict[str, Memory] = {}
        self._routines: dict[Routine, str] = {}
        self._pending: list[Routine] = []

    def slot(self, name: str) -> Memory:
        """The stack slot called `name`."""
        if name not in self._slots:
            self._slots[name] = self.b.stack(8)
        return self._slots[name]

    def field(self, name: str, index: int = 0, *, args: Variable | None = None) -> Memory:
        """A field of Args, given their address; without it, slot `args` is read first."""
        if args is None:
            args = self.b.general("arguments")
            self.b.emit("mov", args, self.slot("args"))
        return self.b.at(args, field_offset(self.structure, name, index))

    def tile_memory(self) -> Memory:
        """Room on the stack for one tile of results, row after row."""
        return self.kept_memory("tile", self.geometry.scalars * self.geometry.panel_bytes)

    def kept_memory(self, name: str, size: int) -> Memory:
        """`size` bytes of the stack, aligned to vectors, the same ones for every call with that name."""
        if name not in self._slots:
            self._slots[name] = self.b.stack(size, align=64)
        return self._slots[name]

    def copy_slot(self, to: str, start: str) -> None:
        """slot `to` = slot `start`."""
        value = self.b.general("value")
        self.b.emit("mov", value, self.slot(start))
        self.b.emit("mov", self.slot(to), value)

    def advance_slot(self, name: str, by: int | Variable) -> None:
        """slot += by."""
        value = self.b.general("value")
        self.b.emit("mov", value, self.slot(name))
        self.b.emit("add", value, by)
        self.b.emit("mov", self.slot(name), value)

    def count_down(self, name: str, by: int, again: str, jump: str) -> None:
        """slot -= by, then to `again` if `jump` says so."""
        value = self.b.general("value")
        self.b.emit("mov", value, self.slot(name))
        self.b.emit("sub", value, by)
        self.b.emit("mov", self.slot(name), value)
        self.b.emit(jump, again)

    def repeat(self, again: str, name: str, value: Variable | None = None) -> None:
        """slot -= 1, then to `again` while something is left; by way of `value`, if that is to be reused."""
        value = value or self.b.general("value")
        self.b.emit("mov", value, self.slot(name))
        self.b.emit("dec", value)
        self.b.emit("mov", self.slot(name), value)
        self.b.emit("jump_nonzero", again)

    def call(self, routine: Routine) -> None:
        """Call a routine, which is written later if it is new."""
        if routine not in self._routines:
            self._routines[routine] = self.b.fresh_label(routine.stem)
            self._pending.append(routine)
        self.b.emit("call", self._routines[routine])

    def finish(self) -> Listing:
        """End the driver, write all routines that were asked for, assign registers."""
        self.b.emit("fence_stores")
        self.b.emit("return")
        while self._pending:
            routine = self._pending.pop()
            self.b.emit("align", 32)
            self.b.label(self._routines[routine])
            routine.write(self)
        return self.b.finish()
