"""The kernel: a part's units one after the other, in each the channel tiles, rows and blocks.

    for each unit (image, share of the filters, group, band of rows, strip of columns):
        the image itself is read if the kernel is direct and all the band's rows exist, else a strip is filled
        for each channel tile, each tile row of the band, each block of the strip: call the tile's routine

What a unit is, which blocks a strip has and where its taps lie comes from tables (see arguments), so a kernel
serves all sizes that need the same tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from regweave.assembly import Listing
from regweave.assembly.variables import Variable
from regweave.errors import UnsupportedError
from regweave.kernels.common.division import share
from regweave.kernels.common.geometry import geometry_of
from regweave.kernels.common.workspace import Routine, Workspace
from regweave.kernels.convolution.arguments import BlockEntry, ConvArguments, StripEntry, TileEntry
from regweave.kernels.convolution.column import Column
from regweave.kernels.convolution.filling import FillInPlace
from regweave.kernels.convolution.folding import FillFolded
from regweave.kernels.convolution.overlap import begin_rows, end_rows, row_place, whole_steps
from regweave.kernels.convolution.paired import PairedBand
from regweave.kernels.convolution.products import Products
from regweave.kernels.convolution.results import row_masks
from regweave.kernels.convolution.rolling import RollingBand, open_rolling
from regweave.kernels.convolution.strip import FillStrip
from regweave.kernels.convolution.tile import ConvTile
from regweave.kernels.convolution.transformed import FillTransformed, watched
from regweave.machines.x86 import VectorMachine


@lru_cache(maxsize=64)
def conv_kernel(tile: ConvTile, machine: VectorMachine) -> Listing:
    """The kernel `void conv(const ConvArguments *, size_t part)` for a tile.

    Errors: UnsupportedError for machines without kernels and for tiles beyond their registers.
    """
    geometry = geometry_of(machine.name)
    registers = len(machine.register_class("vector").registers)
    if not tile.fits(registers, held_masks=tile.direct and machine.mask_class == "vector"):
        raise UnsupportedError(
            f"{max(tile.outputs)} x {tile.rows} x {max(tile.vectors)} results",
            where="tile",
            expected=f"at most {registers} vector registers with an image vector and a weight",
        )
    w = Workspace(machine, geometry, "rw_conv", ConvArguments)
    return _Driver(w, tile).write()


class _Driver:
    """Writes the loops around the tiles."""

    def __init__(self, w: Workspace, tile: ConvTile) -> None:
        self.w, self.b, self.tile = w, w.b, tile

    def write(self) -> Listing:
        w, b = self.w, self.b
        unit, done = b.fresh_label("unit"), b.fresh_label("done")
        b.emit("mov", w.slot("args"), b["args"])
        self._open(b["args"])
        units = b.general("units")
        b.emit("mov", units, w.field("batch", args=b["args"]))
        for name in ("shares", "groups", "bands", "strip_count"):
            b.emit("imul", units, w.field(name, args=b["args"]))
        first, last = share(w, units)
        b.emit("mov", w.slot("unit"), first)
        b.emit("mov", w.slot("last"), last)
        b.label(unit)
        b.emit("mov", units, w.slot("unit"))
        b.emit("cmp", units, w.slot("last"))
        b.emit("jump_greater_equal", done)
        self._place(units)
        self._source()
        self._tiles()
        w.advance_slot("unit", 1)
        b.emit("jump", unit)
        b.label(done)
        if self.tile.combined is not None:
            self._tell()
        return w.finish()

    def _tell(self) -> None:
        """Field `flags`[part] = what was watched: zeros, or NaN where a result is not finite."""
        w, b = self.w, self.b
        value, to = b.vector("watch"), b.general("flags")
        b.emit("mov", to, b["part"])
        b.emit("imul", to, to, w.geometry.vector_bytes)
        b.emit("add", to, w.field("flags"))
        b.emit("load", value, watched(w))
        b.emit("store", b.at(to), value)

    def _open(self, args: Variable) -> None:
        """Slots that stay: the part's strip, pitches of the result."""
        w, b = self.w, self.b
        value = b.general("value")
        b.emit("mov", value, w.field("scratch_bytes", args=args))
        b.emit("imul", value, b["part"])
        b.emit("add", value, w.field("scratch", args=args))
        b.emit("mov", w.slot("strip"), value)
        if self.tile.rolling:
            open_rolling(w, 2 if self.tile.paired else 1)
        if self.tile.transform is not None:
            b.emit("add", value, w.field("stage_offset", args=args))
            b.emit("mov", w.slot("stage"), value)
        if self.tile.combined is not None:
            nothing = b.vector("nothing")
            b.emit("zero", nothing)
            b.emit("store", watched(w), nothing)
        for name in ("y_channel", "y_row", "y_element"):
            b.emit("mov", value, w.field(name, args=args))
            b.emit("mov", w.slot(name), value)
        if self.tile.overlaps:
            whole_steps(w, self.tile)

    def _place(self, unit: Variable) -> None:
        """Slots of this unit: strip_entry, planes, line, lines_at (its first image line), out_at, packed; of
        transformed rows had (output rows that the band before writes)."""
        w, b = self.w, self.b
        args, value = b.general("arguments"), b.general("value")
        lines_at, out, row, index = (b.general(s) for s in ("lines_at", "out", "row", "index"))
        b.emit("mov", args, w.slot("args"))
        self._remainder(unit, index, "strip_count", args)
        b.emit("imul", index, index, 8 * len(StripEntry._fields_))
        b.emit("add", index, w.field("strips", args=args))
        b.emit("mov", w.slot("strip_entry"), index)
        b.emit("mov", value, b.at(index, StripEntry.planes.offset))
        b.emit("mov", w.slot("planes"), value)
        self._remainder(unit, row, "bands", args)
        b.emit("imul", row, w.field("band_rows", args=args))
        b.emit("mov", value, w.field("out_rows", args=args))
        b.emit("sub", value, w.field("band_rows", args=args))
        if self.tile.paired:  # the first row of a pair is an even one, whichever band it is in
            b.emit("inc", value)
            b.emit("and", value, -2)
        if self.tile.overlaps:
            b.emit("mov", out, row)
        b.emit("min", row, value)
        if self.tile.overlaps:
            b.emit("sub", out, row)
            b.emit("mov", w.slot("had"), out)
        b.emit("mov", out, row)
        b.emit("imul", out, w.field("y_row", args=args))
        b.emit("add", out, w.field("y", args=args))
        b.emit("imul", row, w.field("row_stride", args=args))
        b.emit("sub", row, w.field("top", args=args))
        b.emit("mov", w.slot("line"), row)
        b.emit("mov", lines_at, row)
        b.emit("imul", lines_at, w.field("x_row", args=args))
        b.emit("add", lines_at, w.field("x", args=args))
        self._remainder(unit, index, "groups", args)
        for to, name in ((lines_at, "x_group"), (out, "y_group")):
            b.emit("mov", value, index)
            b.emit("imul", value, w.field(name, args=args))
            b.emit("add", to, value)
        b.emit("imul", index, w.field("packed_group", args=args))
        b.emit("add", index, w.field("packed", args=args))
        b.emit("mov", w.slot("packed"), index)
        self._share(unit, index, args)
        for to, name in ((lines_at, "x_image"), (out, "y_image")):
            b.emit("mov", value, unit)
            b.emit("imul", value, w.field(name, args=args))
            b.emit("add", to, value)
        b.emit("mov", w.slot("lines_at"), lines_at)
        b.emit("mov", w.slot("out_at"), out)

    def _share(self, unit: Variable, number: Variable, args: Variable) -> None:
        """Slots first_tile and tile_total: the unit's share of the channel tiles; `number` is lost."""
        w, b, first, left = self.w, self.b, self.b.general("first"), self.b.general("left")
        self._remainder(unit, number, "shares", args)
        b.emit("mov", first, number)
        b.emit("imul", first, w.field("share_tiles", args=args))
        b.emit("mov", left, w.field("tile_count", args=args))
        b.emit("sub", left, first)
        b.emit("imul", first, first, 8 * len(TileEntry._fields_))
        b.emit("add", first, w.field("tiles", args=args))
        b.emit("mov", w.slot("first_tile"), first)
        b.emit("mov", first, w.field("share_tiles", args=args))
        b.emit("min", left, first)
        b.emit("mov", w.slot("tile_total"), left)

    def _remainder(self, value: Variable, rest: Variable, name: str, args: Variable) -> None:
        """rest = value % field, value = value / field; often there is one of them only."""
        w, b = self.w, self.b
        count, quotient, divided = b.general("count"), b.general("quotient"), b.fresh_label("divided")
        b.emit("mov", count, w.field(name, args=args))
        b.emit("zero", rest)
        b.emit("cmp", count, 1)
        b.emit("jump_equal", divided)
        b.emit("divide_unsigned", quotient, value, count)
        b.emit("imul", count, quotient)
        b.emit("mov", rest, value)
        b.emit("sub", rest, count)
        b.emit("mov", value, quotient)
        b.label(divided)

    def _source(self) -> None:
        """Slots base, pitch, taps: where this unit is read from; fills the strip where it is needed."""
        w, b = self.w, self.b
        value, other = b.general("value"), b.general("other")
        fill, ready = b.fresh_label("strip"), b.fresh_label("ready")
        if self.tile.direct:
            if self.tile.filled:
                self._unless_all_lines_exist(value, fill)
            b.emit("mov", other, w.slot("strip_entry"))
            b.emit("mov", value, w.slot("lines_at"))
            b.emit("add", value, b.at(other, StripEntry.x.offset))
            b.emit("mov", w.slot("band"), value)
            self._copy_field("taps", "taps")
            self._copy_field("x_row", "pitch")
            if not self.tile.filled:
                return
            b.emit("jump", ready)
            b.label(fill)
        self._fill()
        w.copy_slot("band", "strip")
        self._copy_field("strip_taps", "taps")
        self._copy_field("strip_row", "pitch")
        b.label(ready)

    def _unless_all_lines_exist(self, value: Variable, elsewhere: str) -> None:
        """To `elsewhere` where the band reads a line above or below the image; `value` is lost."""
        b = self.b
        b.emit("mov", value, self.w.slot("line"))
        b.emit("cmp", value, 0)
        b.emit("jump_less", elsewhere)
        b.emit("add", value, self.w.field("lines"))
        b.emit("cmp", value, self.w.field("height"))
        b.emit("jump_greater", elsewhere)

    def _fill(self) -> None:
        """The strip, in place if that can be; of transformed rows all must exist for it."""
        w, b, t = self.w, self.b, self.tile.transform
        if self.tile.image_pieces:
            w.call(FillFolded(self.tile.in_place, self.tile.in_place_step, t, self.tile.image_pieces))
            return
        general = FillStrip() if t is None else FillTransformed(t)
        if not self.tile.in_place:
            w.call(general)
            return
        in_place = FillInPlace(self.tile.in_place, self.tile.in_place_step, t)
        if t is None:
            w.call(in_place)
            return
        value, stage, filled = b.general("value"), b.fresh_label("by_stage"), b.fresh_label("filled")
        self._unless_all_lines_exist(value, stage)
        w.call(in_place)
        b.emit("jump", filled)
        b.label(stage)
        w.call(general)
        b.label(filled)

    def _copy_field(self, field: str, slot: str) -> None:
        value = self.b.general("value")
        self.b.emit("mov", value, self.w.field(field))
        self.b.emit("mov", self.w.slot(slot), value)

    def _tiles(self) -> None:
        """All channel tiles of the unit: each goes through the rows of the band, or all of them are done
        block by block."""
        if not self.tile.by_blocks:
            self._channel_tiles(lambda outputs: self._rows(lambda done: self._block(outputs, done)))
            return
        self._begin_rows()
        self.b.emit("mov", self.w.slot("row_out"), 0)
        self._rows(lambda done: self._channel_tiles(lambda outputs: self._in_tile(outputs)))

    def _in_tile(self, outputs: int) -> None:
        """The block at `near` for the channel tile under way."""
        done = self.b.fresh_label("block_done")
        self._block(outputs, done)
        self.b.label(done)

    def _channel_tiles(self, one: Callable[[int], None]) -> None:
        """`one` for each channel tile of the unit, by its filters."""
        w, b = self.w, self.b
        entry, value = b.general("entry"), b.general("value")
        again, finished = b.fresh_label("channel_tile"), b.fresh_label("next_tile")
        w.copy_slot("tile_entry", "first_tile")
        w.copy_slot("tiles_left", "tile_total")
        b.label(again)
        b.emit("mov", entry, w.slot("tile_entry"))
        b.emit("mov", value, w.slot("packed"))
        b.emit("add", value, b.at(entry, TileEntry.weights.offset))
        b.emit("mov", w.slot("weights"), value)
        b.emit("mov", value, w.slot("out_at"))
        b.emit("add", value, b.at(entry, TileEntry.y.offset))
        if self.tile.by_blocks:
            b.emit("add", value, w.slot("row_out"))
        b.emit("mov", w.slot("out_base"), value)
        if not self.tile.by_blocks:
            self._begin_rows(entry)
        b.emit("mov", value, b.at(entry, TileEntry.outputs.offset))
        for outputs in self.tile.outputs[:-1]:
            other = b.fresh_label("other_size")
            b.emit("cmp", value, outputs)
            b.emit("jump_not_equal", other)
            one(outputs)
            b.emit("jump", finished)
            b.label(other)
        if self.tile.rolling:
            w.call(PairedBand(self.tile) if self.tile.paired else RollingBand(self.tile))
        else:
            one(self.tile.outputs[-1])
        b.label(finished)
        w.advance_slot("tile_entry", 8 * len(TileEntry._fields_))
        w.repeat(again, "tiles_left", value)

    def _begin_rows(self, entry: Variable | None = None) -> None:
        """Slots base, rows_left, had_left, row_masks as of the band's first rows; `entry` of the channel tile
        says where it reads, where no strip is filled."""
        w, b = self.w, self.b
        if self.tile.filled:
            w.copy_slot("base", "band")
        else:
            assert entry is not None
            value = b.general("value")
            b.emit("mov", value, w.slot("band"))
            b.emit("add", value, b.at(entry, TileEntry.x.offset))
            b.emit("mov", w.slot("base"), value)
        self._copy_field("band_rows", "rows_left")
        if self.tile.overlaps:
            w.copy_slot("had_left", "had")
        if self.tile.result_pieces:
            b.emit("mov", w.slot("row_masks"), 0)

    def _routine(self, outputs: int, vectors: int, edge: bool, *, half: bool = False) -> Routine:
        if self.tile.kernel_columns:
            return Column(self.tile, vectors, edge, half)
        return Products(self.tile, outputs, vectors, edge, half)

    def _block(self, outputs: int, done: str) -> None:
        """The block at `near` for a channel tile of so many filters; to `done`, or just on."""
        w, b, value = self.w, self.b, self.b.general("value")
        kinds = [
            self._routine(outputs, vectors, edge) for vectors in self.tile.vectors for edge in (False, True)
        ]
        if self.tile.halves:
            kinds += [self._routine(outputs, vectors, True, half=True) for vectors in self.tile.vectors]
        b.emit("mov", value, b.at(w.r.near, BlockEntry.kind.offset))
        for kind, routine in enumerate(kinds):
            other = b.fresh_label("other_kind")
            if kind + 1 < len(kinds):
                b.emit("cmp", value, kind)
                b.emit("jump_not_equal", other)
            w.call(routine)
            if kind + 1 < len(kinds):
                b.emit("jump", done)
                b.label(other)

    def _rows(self, one: Callable[[str], None]) -> None:
        """`one` for each block of each tile row of the band; it may jump to the label that it gets."""
        w, b, r = self.w, self.b, self.w.r
        strip, value = b.general("strip"), b.general("value")
        row, block, next_block, passed = (b.fresh_label(s) for s in ("row", "block", "next_block", "passed"))
        b.label(row)
        if self.tile.overlaps:
            begin_rows(w, self.tile, passed)
        b.emit("mov", strip, w.slot("strip_entry"))
        b.emit("mov", r.near, b.at(strip, StripEntry.blocks.offset))
        b.emit("mov", value, b.at(strip, StripEntry.block_count.offset))
        b.emit("mov", w.slot("blocks_left"), value)
        b.label(block)
        one(next_block)
        b.label(next_block)
        b.emit("add", r.near, 8 * len(BlockEntry._fields_))
        w.repeat(block, "blocks_left", value)
        if self.tile.overlaps:
            end_rows(w, self.tile)
            b.label(passed)
            w.advance_slot("had_left", -self.tile.out_rows)
        b.emit("mov", value, w.slot("pitch"))
        b.emit("imul", value, w.field("tile_step"))
        w.advance_slot("base", value)
        b.emit("imul", value, w.slot("y_row"), self.tile.out_rows)
        w.advance_slot(row_place(self.tile), value)
        if self.tile.result_pieces:
            w.advance_slot("row_masks", self.tile.out_rows * row_masks(w, self.tile))
        b.emit("mov", value, w.slot("rows_left"))
        b.emit("sub", value, self.tile.out_rows)
        b.emit("mov", w.slot("rows_left"), value)
        b.emit("jump_greater", row)
