"""The kernel for channels last: a part's units one after the other, in each the filters and tiles of pixels.

for each unit (image, share of the filters, band of rows, window of columns):
    where there is padding: the band's rows go to a strip with zeros around them
    for each tile of filters, each tile of pixels: call the tile's routine
"""

from __future__ import annotations

from functools import lru_cache

from regweave.assembly import Listing
from regweave.assembly.variables import Variable
from regweave.errors import UnsupportedError
from regweave.kernels.channels_last.arguments import (
    BandEntry,
    FilterEntry,
    LastArguments,
    SpanEntry,
    WindowEntry,
)
from regweave.kernels.channels_last.dense import DenseProducts
from regweave.kernels.channels_last.depthwise import DepthProducts
from regweave.kernels.channels_last.planar import PlanarRows
from regweave.kernels.channels_last.strip import FillRows
from regweave.kernels.channels_last.tiles import DenseTile, DepthTile
from regweave.kernels.channels_last.transformed import (
    FillTransformedRows,
    RestoreRows,
    clear_line,
    tell,
)
from regweave.kernels.common.division import share
from regweave.kernels.common.geometry import geometry_of
from regweave.kernels.common.workspace import Workspace
from regweave.machines.x86 import VectorMachine


@lru_cache(maxsize=64)
def last_kernel(tile: DenseTile | DepthTile, machine: VectorMachine) -> Listing:
    """The kernel `void conv(const LastArguments *, size_t part)` for a tile.

    Errors: UnsupportedError for machines without kernels and for tiles beyond their registers.
    """
    geometry = geometry_of(machine.name)
    registers = len(machine.register_class("vector").registers)
    if isinstance(tile, DenseTile) and not tile.fits(registers):
        raise UnsupportedError(
            f"{tile.pixels} pixels x {max(tile.vectors)} vectors of filters",
            where="tile",
            expected=f"at most {registers} vector registers with the weights",
        )
    w = Workspace(machine, geometry, "rw_conv_last", LastArguments)
    return _Driver(w, tile).write()


class _Driver:
    """Writes the loops around the tiles."""

    def __init__(self, w: Workspace, tile: DenseTile | DepthTile) -> None:
        self.w, self.b, self.tile = w, w.b, tile

    def write(self) -> Listing:
        w, b = self.w, self.b
        unit, done = b.fresh_label("unit"), b.fresh_label("done")
        args, value = b["args"], b.general("value")
        b.emit("mov", w.slot("args"), args)
        b.emit("mov", value, w.field("scratch_bytes", args=args))
        b.emit("imul", value, b["part"])
        b.emit("add", value, w.field("scratch", args=args))
        b.emit("mov", w.slot("strip"), value)
        if self.tile.transform is not None:
            clear_line(w)
        if self.tile.staged:
            b.emit("mov", value, w.slot("strip"))
            b.emit("add", value, w.field("stage_offset", args=args))
            b.emit("mov", w.slot("stage"), value)
        for name in ("y_row", "x_step"):
            b.emit("mov", value, w.field(name, args=args))
            b.emit("mov", w.slot(name), value)
        units = b.general("units")
        b.emit("mov", units, w.field("batch", args=args))
        for name in ("shares", "band_count", "window_count"):
            b.emit("imul", units, w.field(name, args=args))
        b.emit("mov", w.slot("part"), b["part"])
        first, last = share(w, units)
        b.emit("mov", w.slot("unit"), first)
        b.emit("mov", w.slot("last"), last)
        b.label(unit)
        b.emit("mov", units, w.slot("unit"))
        b.emit("cmp", units, w.slot("last"))
        b.emit("jump_greater_equal", done)
        self._place(units)
        if self.tile.strip:
            t = self.tile.transform
            w.call(FillRows() if t is None else FillTransformedRows(t))
            w.copy_slot("from", "strip")
        self._filters()
        w.advance_slot("unit", 1)
        b.emit("jump", unit)
        b.label(done)
        if self.tile.transform is not None:
            tell(w)
        return w.finish()

    def _place(self, unit: Variable) -> None:
        """Slots of this unit: from, to, first_filter, filters_left, pixel, and those of its band."""
        w, b = self.w, self.b
        args, at, to = b.general("arguments"), b.general("at"), b.general("to")
        entry, number, left = b.general("entry"), b.general("number"), b.general("left")
        b.emit("mov", args, w.slot("args"))
        b.emit("mov", at, w.field("x", args=args))
        b.emit("mov", to, w.field("y", args=args))
        self._remainder(unit, number, "window_count", args)
        b.emit("imul", entry, number, 8 * len(WindowEntry._fields_))
        b.emit("add", entry, w.field("windows", args=args))
        b.emit("mov", number, b.at(entry, WindowEntry.pixel.offset))
        b.emit("mov", w.slot("pixel"), number)
        b.emit("add", at, b.at(entry, WindowEntry.x.offset))
        b.emit("add", to, b.at(entry, WindowEntry.y.offset))
        self._remainder(unit, number, "band_count", args)
        b.emit("imul", entry, number, 8 * len(BandEntry._fields_))
        b.emit("add", entry, w.field("bands", args=args))
        for slot in ("line", "rows", "height", "groups", "tiles"):
            place = getattr(BandEntry, slot)
            b.emit("mov", number, b.at(entry, place.offset))
            b.emit("mov", w.slot(slot), number)
        b.emit("add", at, b.at(entry, BandEntry.x.offset))
        b.emit("add", to, b.at(entry, BandEntry.y.offset))
        self._remainder(unit, number, "shares", args)
        b.emit("imul", number, w.field("share_filters", args=args))
        b.emit("mov", left, w.field("filter_count", args=args))
        b.emit("sub", left, number)
        b.emit("imul", entry, number, 8 * len(FilterEntry._fields_))
        b.emit("add", entry, w.field("filters", args=args))
        b.emit("mov", w.slot("first_filter"), entry)
        b.emit("mov", number, w.field("share_filters", args=args))
        b.emit("min", left, number)
        b.emit("mov", w.slot("filters_left"), left)
        for place, name in ((at, "x_image"), (to, "y_image")):
            b.emit("mov", number, unit)
            b.emit("imul", number, w.field(name, args=args))
            b.emit("add", place, number)
        b.emit("mov", w.slot("from"), at)
        b.emit("mov", w.slot("to"), to)

    def _remainder(self, value: Variable, rest: Variable, name: str, args: Variable) -> None:
        """rest = value % field, value = value / field."""
        b, count, quotient = self.b, self.b.general("count"), self.b.general("quotient")
        b.emit("mov", count, self.w.field(name, args=args))
        b.emit("divide_unsigned", quotient, value, count)
        b.emit("imul", count, quotient)
        b.emit("mov", rest, value)
        b.emit("sub", rest, count)
        b.emit("mov", value, quotient)

    def _filters(self) -> None:
        """All tiles of filters of the unit, each with all tiles of pixels."""
        w, b, r = self.w, self.b, self.w.r
        entry, value = b.general("entry"), b.general("value")
        again, finished = b.fresh_label("filters"), b.fresh_label("next_filters")
        w.copy_slot("filter", "first_filter")
        b.label(again)
        b.emit("mov", entry, w.slot("filter"))
        for slot, start, place in (
            ("source", "from", FilterEntry.x),
            ("target", "stage" if self.tile.staged else "to", FilterEntry.y),
            *([("result", "to", FilterEntry.result)] if self.tile.staged else []),
        ):
            b.emit("mov", value, w.slot(start))
            b.emit("add", value, b.at(entry, place.offset))
            b.emit("mov", w.slot(slot), value)
        b.emit("mov", value, w.field("packed"))
        b.emit("add", value, b.at(entry, FilterEntry.weights.offset))
        b.emit("mov", w.slot("weights"), value)
        if self.tile.masked:
            b.emit("mov", value, b.at(entry, FilterEntry.mask.offset))
            b.emit("mov", w.slot("mask"), value)
        b.emit("mov", r.near, w.field("spans"))
        w.copy_slot("tiles_left", "tiles")
        tile = self.tile
        if isinstance(tile, DepthTile):
            self._tiles(DepthProducts(tile), 1)
        else:
            b.emit("mov", value, b.at(entry, FilterEntry.vectors.offset))
            for vectors in tile.vectors:
                other = b.fresh_label("other_width")
                if vectors != tile.vectors[-1]:
                    b.emit("cmp", value, vectors)
                    b.emit("jump_not_equal", other)
                self._tiles(DenseProducts(tile, vectors), tile.entries)
                if tile.staged:
                    self._restore(tile, vectors, finished)
                if vectors != tile.vectors[-1]:
                    b.emit("jump", finished)
                    b.label(other)
        b.label(finished)
        w.advance_slot("filter", 8 * len(FilterEntry._fields_))
        self.w.repeat(again, "filters_left")

    def _restore(self, tile: DenseTile, vectors: int, finished: str) -> None:
        """After the last product: the way back."""
        b, entry = self.b, self.b.general("entry")
        b.emit("mov", entry, self.w.slot("filter"))
        b.emit("mov", entry, b.at(entry, FilterEntry.done.offset))
        b.emit("test", entry, entry)
        b.emit("jump_zero", finished)
        self.w.call(PlanarRows(vectors) if tile.planar else RestoreRows(tile, vectors))

    def _tiles(self, routine: DenseProducts | DepthProducts, spans: int) -> None:
        """All tiles of pixels with one tile of filters."""
        b, again = self.b, self.b.fresh_label("pixels")
        b.label(again)
        self.w.call(routine)
        b.emit("add", self.w.r.near, spans * 8 * len(SpanEntry._fields_))
        self.w.repeat(again, "tiles_left")
