"""Copying a panel of pixels to scratch memory: K0 rows, slot `x_pitch` bytes apart, to rows a full panel
apart.

The copy is what reads the input, so it is also where an image whose rows end inside a vector is read
through a mask. Lanes beyond it become zero.
"""

from __future__ import annotations

from regweave.assembly.variables import Variable
from regweave.kernels.common.workspace import Workspace
from regweave.values import frozen


def _start(w: Workspace) -> tuple[Variable, Variable, Variable]:
    """(source, destination, rows to do)."""
    b = w.b
    source, to, rows = b.general("from"), b.general("to"), b.general("rows")
    b.emit("mov", source, w.slot("x_here"))
    b.emit("mov", to, w.slot("scratch"))
    b.emit("mov", rows, w.slot("k0"))
    return source, to, rows


def _next_row(w: Workspace, source: Variable, to: Variable, rows: Variable, top: str) -> None:
    b = w.b
    b.emit("add", source, w.slot("x_pitch"))
    b.emit("add", to, w.geometry.panel_bytes)
    b.emit("dec", rows)
    b.emit("jump_nonzero", top)


@frozen
class CopyWhole:
    """Routine: a panel of whole vectors. Slots x_here, x_pitch, scratch, k0."""

    @property
    def stem(self) -> str:
        return "copy_whole"

    def write(self, w: Workspace) -> None:
        b, g = w.b, w.geometry
        source, to, rows = _start(w)
        top = b.fresh_label("row")
        b.label(top)
        for j in range(g.vectors):
            value = b.vector("value")
            b.emit("load", value, b.at(source, j * g.vector_bytes))
            b.emit("store", b.at(to, j * g.vector_bytes), value)
        _next_row(w, source, to, rows, top)
        b.emit("ret")


@frozen
class CopyNarrow:
    """Routine: a panel of slot `whole_bytes` of whole vectors and slot `rest` lanes of one more."""

    @property
    def stem(self) -> str:
        return "copy_narrow"

    def write(self, w: Workspace) -> None:
        b, g = w.b, w.geometry
        source, to, rows = _start(w)
        lanes, offset = b.general("lanes"), b.general("offset")
        mask, value = b.mask("mask"), b.vector("value")
        top, vector, whole, done = (b.fresh_label(s) for s in ("row", "vector", "whole_done", "row_done"))
        b.emit("mov", lanes, w.slot("rest"))
        b.emit("mask_from_count", mask, lanes)
        b.label(top)
        b.emit("zero", offset)
        b.label(vector)
        b.emit("cmp", offset, w.slot("whole_bytes"))
        b.emit("jump_greater_equal", whole)
        b.emit("load", value, b.at(source, index=offset))
        b.emit("store", b.at(to, index=offset), value)
        b.emit("add", offset, g.vector_bytes)
        b.emit("jump", vector)
        b.label(whole)
        b.emit("cmp", lanes, 0)
        b.emit("jump_equal", done)
        b.emit("load_masked", value, b.at(source, index=offset), mask)
        b.emit("store", b.at(to, index=offset), value)
        b.label(done)
        _next_row(w, source, to, rows, top)
        b.emit("ret")
