"""Strips of transformed rows straight from the image, where all rows that they are made of exist.

    for each channel, group of output rows, vector along the row:  load the group's rows, transform, store

A vector at either end of a row is loaded through a mask, so padding and what lies beside the image are zero.
Compared with rows that are copied to a stage first, each element is loaded and stored once less. The rows
below, which the next group or band will need, are asked for meanwhile.
"""

from __future__ import annotations

from regweave.assembly.variables import Variable
from regweave.kernels.convolution.arguments import StripEntry
from regweave.kernels.convolution.results import mask_bytes
from regweave.kernels.convolution.strip import next_channel
from regweave.kernels.convolution.transformed import forward
from regweave.kernels.convolution.transforms import Transform
from regweave.kernels.workspace import Workspace
from regweave.values import frozen


@frozen
class FillInPlace:
    """Routine: the strip at slot `strip`, transformed, from the image rows at slot `lines_at`, all of which
    exist.

    Slot `strip_entry` is the address of the strip's entry; rows of a strip are field `strip_row` bytes.
    """

    transform: Transform

    @property
    def stem(self) -> str:
        return "fill_in_place"

    def write(self, w: Workspace) -> None:
        b, t = w.b, self.transform
        value, again, group = b.general("value"), b.fresh_label("channel"), b.fresh_label("group")
        names = ("source", "to", "pitch", "line", "entry", "masks")
        source, to, pitch, line, entry, masks = (b.general(name) for name in names)
        b.emit("mov", value, w.field("channels"))
        b.emit("mov", w.slot("channels_left"), value)
        b.emit("mov", entry, w.slot("strip_entry"))
        b.emit("mov", value, w.slot("lines_at"))
        b.emit("add", value, b.at(entry, StripEntry.source.offset))
        b.emit("mov", w.slot("channel_at"), value)
        b.emit("mov", to, w.slot("strip"))
        b.emit("mov", pitch, w.field("strip_row"))
        b.emit("mov", line, w.field("x_row"))
        b.label(again)
        b.emit("mov", source, w.slot("channel_at"))
        b.emit("mov", w.slot("group_at"), source)
        b.emit("mov", value, w.field("row_groups"))
        b.emit("mov", w.slot("groups_left"), value)
        b.label(group)
        b.emit("mov", masks, b.at(entry, StripEntry.masks.offset))
        b.emit("mov", source, w.slot("group_at"))
        for place, masked in (
            (StripEntry.before, masks),
            (StripEntry.inside, None),
            (StripEntry.behind, masks),
        ):
            b.emit("mov", value, b.at(entry, place.offset))
            self._run(w, source, to, pitch, line, value, masked)
        rows = b.general("rows")
        b.emit("imul", rows, pitch, t.products - 1)
        b.emit("add", to, rows)
        b.emit("imul", rows, line, t.outputs)
        w.advance_slot("group_at", rows)
        b.emit("mov", value, w.slot("groups_left"))
        b.emit("dec", value)
        b.emit("mov", w.slot("groups_left"), value)
        b.emit("jump_nonzero", group)
        next_channel(w, again)
        b.emit("ret")

    def _run(
        self,
        w: Workspace,
        source: Variable,
        to: Variable,
        pitch: Variable,
        line: Variable,
        count: Variable,
        masks: Variable | None,
    ) -> None:
        """`count` vectors of a group, maybe none; `source`, `to` and `masks` move behind them."""
        b, size = w.b, w.geometry.vector_bytes
        top, done = b.fresh_label("vector"), b.fresh_label("run_done")
        b.emit("cmp", count, 0)
        b.emit("jump_equal", done)
        b.label(top)
        lanes = None
        if masks is not None:
            lanes = b.mask("lanes")
            b.emit("load_mask", lanes, b.at(masks))
            b.emit("add", masks, mask_bytes(w))
        here, rows = b.general("here"), []
        b.emit("mov", here, source)
        for number in range(self.transform.products):
            row = b.vector(f"row{number}")
            if lanes is None:
                b.emit("load", row, b.at(here))
            else:
                b.emit("load_masked", row, b.at(here), lanes)
            rows.append(row)
            if number + 1 < self.transform.products:
                b.emit("add", here, line)
        if lanes is None:
            for _ in range(self.transform.outputs):
                b.emit("add", here, line)
                b.emit("prefetch_l2", b.at(here))
        b.emit("mov", here, to)
        for number, value in enumerate(forward(b, self.transform, rows)):
            b.emit("store", b.at(here), value)
            if number + 1 < self.transform.products:
                b.emit("add", here, pitch)
        b.emit("add", source, size)
        b.emit("add", to, size)
        b.emit("dec", count)
        b.emit("jump_nonzero", top)
        b.label(done)
