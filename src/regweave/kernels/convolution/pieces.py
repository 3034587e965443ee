"""Sums in pieces: what a chain of products adds up goes to the stack and starts again from zero.

The error of a sum grows with the length of its chain. Against float64, on the activations of speech models
(32 to 64 channels, 3 columns): one chain of transformed rows is 1.5 to 3 times less exact than onnxruntime's
sums, which it makes of 16 channels at a time; in pieces of 48 the two are equal. It costs 2 to 4 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from regweave.assembly.variables import Variable
from regweave.kernels.common.workspace import Workspace

#: Taps that are summed in one chain: 16 channels of a kernel of three columns.
PIECE = 48


def in_pieces(w: Workspace, sums: Iterable[Variable], loop: Callable[[], None]) -> None:
    """Run `loop`, which does `steps` taps, for all of field `tap_count`; `sums` start at zero."""
    b, size = w.b, w.geometry.vector_bytes
    sums = list(sums)
    memory = w.kept_memory(f"partial_sums_{len(sums)}", size * len(sums))
    left, value = b.general("taps_left"), b.general("value")
    again, first, complete = (b.fresh_label(stem) for stem in ("piece", "first_piece", "all_taps"))
    b.emit("mov", left, w.field("tap_count"))
    b.emit("mov", w.slot("taps_left"), left)
    b.emit("mov", w.slot("pieces_done"), 0)
    b.label(again)
    next_piece(w)
    loop()
    b.emit("mov", value, w.slot("pieces_done"))
    b.emit("test", value, value)
    b.emit("jump_zero", first)
    for number, variable in enumerate(sums):
        b.emit("add", variable, variable, memory + number * size)
    b.label(first)
    b.emit("mov", value, w.slot("taps_left"))
    b.emit("test", value, value)
    b.emit("jump_zero", complete)
    for number, variable in enumerate(sums):
        b.emit("store", memory + number * size, variable)
        b.emit("zero", variable)
    b.emit("mov", w.slot("pieces_done"), 1)
    b.emit("jump", again)
    b.label(complete)


def next_piece(w: Workspace, together: int = 1) -> None:
    """Register `steps`: the taps of the next piece, of slot `taps_left`; a multiple of `together`, as those
    are."""
    b, r, left = w.b, w.r, w.b.general("taps_left")
    b.emit("mov", left, w.slot("taps_left"))
    b.emit("mov", r.steps, PIECE - PIECE % together)
    b.emit("min", r.steps, left)
    b.emit("sub", left, r.steps)
    b.emit("mov", w.slot("taps_left"), left)
