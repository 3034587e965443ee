"""Strips of small maps: several bands of rows side by side.

    for each channel, line or group of output rows, vector:   pieces, each through its mask -> one vector

What pieces there are is a table of places and masks, in the order in which they are loaded; it is the same
for all channels. Rows that do not exist are masks of nothing.
"""

from __future__ import annotations

from regweave.assembly.variables import Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.arguments import StripEntry
from regweave.kernels.convolution.copying import Halves
from regweave.kernels.convolution.filling import pass_planes, store_rows
from regweave.kernels.convolution.results import mask_bytes
from regweave.kernels.convolution.strip import next_channel
from regweave.kernels.convolution.transformed import forward
from regweave.kernels.convolution.transforms import Transform
from regweave.values import frozen


@frozen
class FillFolded:
    """Routine: the strip at slot `strip` from the image rows at slot `lines_at`, `pieces` for a vector; else
    as FillInPlace."""

    shifts: tuple[int, ...]
    step: int
    transform: Transform | None
    pieces: int

    @property
    def stem(self) -> str:
        return "fill_folded"

    def write(self, w: Workspace) -> None:
        b, t = w.b, self.transform
        value, again, group, vector = (
            b.general("value"),
            *map(b.fresh_label, ("channel", "group", "vector")),
        )
        entry, to, places, masks = (b.general(name) for name in ("entry", "to", "places", "masks"))
        pitch, count = b.general("pitch"), b.general("count")
        b.emit("mov", value, w.field("channels"))
        b.emit("mov", w.slot("channels_left"), value)
        w.copy_slot("channel_at", "lines_at")
        b.emit("mov", to, w.slot("strip"))
        b.emit("mov", pitch, w.field("strip_row"))
        b.label(again)
        b.emit("mov", entry, w.slot("strip_entry"))
        b.emit("mov", places, b.at(entry, StripEntry.source.offset))
        b.emit("mov", masks, b.at(entry, StripEntry.masks.offset))
        b.emit("mov", value, w.field("lines" if t is None else "row_groups"))
        b.emit("mov", w.slot("groups_left"), value)
        b.label(group)
        b.emit("mov", entry, w.slot("strip_entry"))
        b.emit("mov", count, b.at(entry, StripEntry.before.offset))
        b.label(vector)
        self._vector(w, places, masks, to, pitch)
        b.emit("add", to, w.geometry.vector_bytes)
        b.emit("dec", count)
        b.emit("jump_nonzero", vector)
        pass_planes(w, to, entry, self.shifts, t)
        w.repeat(group, "groups_left", value)
        next_channel(w, again)
        b.emit("ret")

    def _vector(self, w: Workspace, places: Variable, masks: Variable, to: Variable, pitch: Variable) -> None:
        """A vector of each row that belongs together; `places` and `masks` move behind their pieces."""
        b, t, size = w.b, self.transform, mask_bytes(w)
        halves = Halves(w, self.shifts) if self.step == 2 else None
        rows = 1 if t is None else t.image_rows
        planes: list[list[Variable]] = [[] for _ in self.shifts]
        channel = b.general("channel")
        b.emit("mov", channel, w.slot("channel_at"))
        for _ in range(rows):
            found = []
            for _ in range(self.step):
                found.append(self._load(w, channel, places, masks))
                b.emit("add", places, 8 * self.pieces)
                b.emit("add", masks, size * self.pieces)
            for plane, row in zip(planes, halves.take(*found) if halves else found, strict=True):
                plane.append(row)
        store_rows(w, to, pitch, planes if t is None else [forward(b, t, rows) for rows in planes])

    def _load(self, w: Workspace, channel: Variable, places: Variable, masks: Variable) -> Variable:
        b, total = w.b, w.b.vector("row")
        for piece in range(self.pieces):
            lanes, at = b.mask("lanes"), b.general("at")
            b.emit("mov", at, b.at(places, 8 * piece))
            b.emit("load_mask", lanes, b.at(masks, piece * mask_bytes(w)))
            part = b.vector("piece") if piece else total
            b.emit("load_masked", part, b.at(channel, index=at), lanes)
            if piece:
                b.emit("add", total, total, part)
        return total
