"""Rearranging rows: a band of image rows into a strip in cache, padding and planes included.

    strip[channel][line][plane][element]

A plane takes every x_step-th byte of a row: one plane for stride 1; the phases of a row for larger strides
(polyphase); one plane per kernel column (unrolled). Zeros stand where the image does not reach, also for
whole lines, so that whoever reads a strip needs no borders.
"""

from __future__ import annotations

from regweave.assembly.variables import Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.arguments import PlaneEntry
from regweave.kernels.convolution.copying import copy_elements
from regweave.values import frozen


@frozen
class FillStrip:
    """Routine: the strip at slot `strip` from the image at slot `lines_at`, whose first line is row `line`.

    Slot `planes` is the address of the plane entries.
    """

    @property
    def stem(self) -> str:
        return "fill"

    def write(self, w: Workspace) -> None:
        b, value, again = w.b, w.b.general("value"), w.b.fresh_label("channel")
        w.copy_slot("line_to", "strip")
        w.copy_slot("channel_at", "lines_at")
        b.emit("mov", value, w.field("channels"))
        b.emit("mov", w.slot("channels_left"), value)
        b.label(again)
        w.call(FillChannel())
        next_channel(w, again)
        b.emit("ret")


def next_channel(w: Workspace, again: str) -> None:
    """Slot `channel_at` moves on; to `again` while slot `channels_left` is not used up."""
    value = w.b.general("value")
    w.b.emit("mov", value, w.slot("channel_at"))
    w.b.emit("add", value, w.field("x_channel"))
    w.b.emit("mov", w.slot("channel_at"), value)
    w.repeat(again, "channels_left", value)


@frozen
class FillChannel:
    """Routine: the lines of the channel at slot `channel_at` to slot `line_to`, which moves behind them."""

    @property
    def stem(self) -> str:
        return "fill_channel"

    def write(self, w: Workspace) -> None:
        b = w.b
        names = ("to", "line_at", "plane")
        to, line_at, plane = (b.general(name) for name in names)
        each_line, each_plane = (b.fresh_label(s) for s in ("line", "plane"))
        copy = b.general("value")
        b.emit("mov", to, w.slot("line_to"))
        b.emit("mov", line_at, w.slot("channel_at"))
        b.emit("mov", copy, w.slot("line"))
        b.emit("mov", w.slot("line_now"), copy)
        b.emit("mov", copy, w.field("lines"))
        b.emit("mov", w.slot("lines_left"), copy)
        b.label(each_line)
        b.emit("mov", plane, w.slot("planes"))
        b.emit("mov", copy, w.field("planes"))
        b.emit("mov", w.slot("planes_left"), copy)
        b.label(each_plane)
        self._plane(w, to, line_at, plane)
        b.emit("add", plane, 8 * len(PlaneEntry._fields_))
        w.repeat(each_plane, "planes_left")
        b.emit("add", line_at, w.field("x_row"))
        w.advance_slot("line_now", 1)
        w.repeat(each_line, "lines_left")
        b.emit("mov", w.slot("line_to"), to)
        b.emit("ret")

    def _plane(self, w: Workspace, to: Variable, line_at: Variable, plane: Variable) -> None:
        """One plane of a line to `to`, which moves behind it."""
        b, lanes = w.b, w.geometry.lanes
        here, end, source, count = (b.general(s) for s in ("here", "end", "source", "count"))
        zero = b.vector("zero")
        inside, outside, done = (b.fresh_label(s) for s in ("inside", "outside", "plane_done"))
        b.emit("zero", zero)
        b.emit("mov", end, b.at(plane, PlaneEntry.size.offset))
        b.emit("lea", end, b.at(to, index=end, scale=4))
        b.emit("mov", count, w.slot("line_now"))
        b.emit("cmp", count, w.field("height"))  # unsigned: a row above the image is far behind it
        b.emit("jump_below", inside)
        b.label(outside)
        b.emit("mov", here, to)
        zeros(w, zero, here, end)
        b.emit("jump", done)
        b.label(inside)
        b.emit("mov", count, b.at(plane, PlaneEntry.last.offset))
        b.emit("sub", count, b.at(plane, PlaneEntry.first.offset))
        b.emit("jump_less_equal", outside)
        # zeros first, by whole vectors: what they cover of the image's elements is written behind them
        b.emit("mov", here, to)
        before = b.general("before")
        b.emit("mov", before, b.at(plane, PlaneEntry.first.offset))
        b.emit("lea", before, b.at(to, index=before, scale=4))
        zeros(w, zero, here, before)
        b.emit("mov", here, b.at(plane, PlaneEntry.last.offset))
        b.emit("and", here, -lanes)
        b.emit("lea", here, b.at(to, index=here, scale=4))
        zeros(w, zero, here, end)
        b.emit("mov", source, line_at)
        b.emit("add", source, b.at(plane, PlaneEntry.x.offset))
        b.emit("mov", here, before)
        copy_elements(w, here, source, count)
        b.label(done)
        b.emit("mov", to, end)


def zeros(w: Workspace, zero: Variable, here: Variable, end: Variable) -> None:
    """Zeros by whole vectors while `here` is below `end`."""
    b = w.b
    top, done = b.fresh_label("zeros"), b.fresh_label("zeroed")
    b.emit("cmp", here, end)
    b.emit("jump_above_equal", done)
    b.label(top)
    b.emit("store", b.at(here), zero)
    b.emit("add", here, w.geometry.vector_bytes)
    b.emit("cmp", here, end)
    b.emit("jump_below", top)
    b.label(done)
