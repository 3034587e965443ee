"""Strips of channels last: the rows that a band reads, of a window's pixels, with zeros where there are none.

    strip[line][pixel][channel]

An image row is copied as it lies in memory, or pixel by pixel where other channels lie between them.
"""

from __future__ import annotations

from regweave.assembly.variables import Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.copying import copy_neighbours
from regweave.kernels.convolution.strip import zeros
from regweave.values import frozen


@frozen
class FillRows:
    """Routine: the strip at slot `strip` from the image rows at slot `from`, whose first is row `line`, from
    image pixel `pixel` on. Slot `from` is lost.

    Zeros are written by whole vectors, up to one more than there are: a strip has room for that.
    """

    @property
    def stem(self) -> str:
        return "fill_rows"

    def write(self, w: Workspace) -> None:
        b = w.b
        to, source, left = b.general("to"), b.general("source"), b.general("left")
        line, inside, outside, done = (b.fresh_label(s) for s in ("line", "inside", "outside", "line_done"))
        find_bounds(w)
        b.emit("mov", to, w.slot("strip"))
        b.emit("mov", left, w.field("lines"))
        b.emit("mov", w.slot("lines_left"), left)
        b.label(line)
        zero, here, end = b.vector("zero"), b.general("here"), b.general("end")
        b.emit("zero", zero)
        b.emit("mov", here, to)
        b.emit("mov", end, to)
        b.emit("add", end, w.slot("line_bytes"))
        b.emit("mov", source, w.slot("line"))
        b.emit("cmp", source, w.field("height"))  # unsigned: a row above the image is far behind it
        b.emit("jump_below", inside)
        b.label(outside)
        zeros(w, zero, here, end)
        b.emit("jump", done)
        b.label(inside)
        b.emit("mov", source, w.slot("pixels"))
        b.emit("test", source, source)
        b.emit("jump_zero", outside)
        # zeros first: what they cover of the image's elements is written behind them
        b.emit("mov", source, to)
        b.emit("add", source, w.slot("bytes_before"))
        zeros(w, zero, here, source)
        b.emit("mov", here, end)
        b.emit("sub", here, w.slot("bytes_behind"))
        zeros(w, zero, here, end)
        b.emit("mov", here, source)
        b.emit("mov", source, w.slot("from"))
        b.emit("add", source, w.slot("skipped"))
        self._copy(w, here, source)
        b.label(done)
        b.emit("add", to, w.field("strip_row"))
        b.emit("mov", left, w.field("x_row"))
        w.advance_slot("from", left)
        w.advance_slot("line", 1)
        w.repeat(line, "lines_left", left)
        b.emit("ret")

    def _copy(self, w: Workspace, here: Variable, source: Variable) -> None:
        """The pixels that there are, from `source` to `here`."""
        b = w.b
        count, left, start, place = (b.general(s) for s in ("count", "left", "start", "place"))
        whole, pixel, copied = (b.fresh_label(s) for s in ("whole", "pixel", "pixels_copied"))
        b.emit("mov", left, w.slot("pixels"))
        b.emit("mov", count, w.field("pixel_bytes"))
        b.emit("shr", count, 2)
        b.emit("cmp", w.field("dense"), 0)
        b.emit("jump_not_equal", whole)
        b.emit("mov", w.slot("pixels_left"), left)
        b.emit("mov", start, source)
        b.emit("mov", place, here)
        b.label(pixel)
        b.emit("mov", count, w.field("pixel_bytes"))
        b.emit("shr", count, 2)
        b.emit("mov", source, start)
        b.emit("mov", here, place)
        next_pixel = b.fresh_label("next_pixel")
        copy_neighbours(w, here, source, count, next_pixel)
        b.label(next_pixel)
        b.emit("add", start, w.field("x_pixel"))
        b.emit("add", place, w.field("pixel_bytes"))
        w.repeat(pixel, "pixels_left", left)
        b.emit("jump", copied)
        b.label(whole)
        b.emit("imul", count, left)
        copy_neighbours(w, here, source, count, copied)
        b.label(copied)


def find_bounds(w: Workspace) -> None:
    """Slots of the unit's lines: pixels (that the image has), bytes_before and bytes_behind (of zeros),
    line_bytes, skipped (bytes from `from` to the first pixel there is)."""
    b = w.b
    first, last, value, size = (b.general(name) for name in ("first", "last", "value", "pixel_bytes"))
    nothing = b.general("nothing")
    b.emit("zero", nothing)
    b.emit("mov", size, w.field("pixel_bytes"))
    b.emit("mov", value, w.slot("pixel"))
    b.emit("mov", first, value)
    b.emit("neg", first)
    b.emit("mov", last, w.field("width"))
    b.emit("sub", last, value)
    b.emit("mov", value, w.field("window_pixels"))
    for number in (first, last):
        b.emit("max", number, nothing)
        b.emit("min", number, value)
    b.emit("sub", value, last)
    b.emit("imul", value, size)
    b.emit("mov", w.slot("bytes_behind"), value)
    b.emit("mov", value, w.field("window_pixels"))
    b.emit("imul", value, size)
    b.emit("mov", w.slot("line_bytes"), value)
    b.emit("imul", size, first)
    b.emit("mov", w.slot("bytes_before"), size)
    b.emit("sub", last, first)
    b.emit("mov", w.slot("pixels"), last)
    b.emit("imul", first, w.field("x_pixel"))
    b.emit("mov", w.slot("skipped"), first)
