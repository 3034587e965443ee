"""Strips straight from the image: rows as they are, split into phases, or transformed, a vector at a time.

    for each channel, line or group of output rows, vector along the row:  load, rearrange, store

A vector at either end of a row is loaded through masks, so padding and what lies beside the image are zero.
Every other element of a row (stride 2) is taken from two vectors that follow one another. Compared with rows
that are copied to a stage first, each element of a transformed row is loaded and stored once less; the rows
below, which the next group or band will need, are asked for meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.variables import Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.arguments import StripEntry
from regweave.kernels.convolution.copying import Halves
from regweave.kernels.convolution.results import mask_bytes
from regweave.kernels.convolution.strip import next_channel, zeros
from regweave.kernels.convolution.transformed import forward
from regweave.kernels.convolution.transforms import Transform
from regweave.values import frozen


def pass_planes(
    w: Workspace, to: Variable, entry: Variable, shifts: tuple[int, ...], transform: Transform | None
) -> None:
    """Move `to`, which is behind the first plane that a line or a group of rows has made, behind them all."""
    b, value = w.b, w.b.general("value")
    further = (1 if transform is None else transform.products) * len(shifts) - 1
    if further:
        b.emit("mov", value, b.at(entry, StripEntry.plane.offset))
        b.emit("imul", value, value, further)
        b.emit("add", to, value)


@frozen
class FillInPlace:
    """Routine: the strip at slot `strip` from the image rows at slot `lines_at`, whose first is row `line`.

    `shifts`: of each plane the place in a step that its elements are taken from; a step is `step` elements.
    With a `transform` all rows must exist, else zeros stand for those that do not. Slot `strip_entry` is the
    address of the strip's entry.
    """

    shifts: tuple[int, ...]
    step: int
    transform: Transform | None

    @property
    def stem(self) -> str:
        return "fill_in_place"

    @property
    def _rows(self) -> int:
        return 1 if self.transform is None else self.transform.image_rows

    def write(self, w: Workspace) -> None:
        b, t = w.b, self.transform
        value, again, group = b.general("value"), b.fresh_label("channel"), b.fresh_label("group")
        entry, to = b.general("entry"), b.general("to")
        b.emit("mov", value, w.field("channels"))
        b.emit("mov", w.slot("channels_left"), value)
        b.emit("mov", entry, w.slot("strip_entry"))
        b.emit("mov", value, w.slot("lines_at"))
        b.emit("add", value, b.at(entry, StripEntry.source.offset))
        b.emit("mov", w.slot("channel_at"), value)
        b.emit("mov", to, w.slot("strip"))
        b.label(again)
        w.copy_slot("group_at", "channel_at")
        w.copy_slot("line_now", "line")
        b.emit("mov", value, w.field("lines" if t is None else "row_groups"))
        b.emit("mov", w.slot("groups_left"), value)
        b.label(group)
        self._group(w, entry, to)
        b.emit("mov", value, w.field("x_row"))
        if t is not None:
            b.emit("imul", value, value, t.outputs * t.stride)
        w.advance_slot("group_at", value)
        w.advance_slot("line_now", 1)
        w.repeat(group, "groups_left", value)
        next_channel(w, again)
        b.emit("ret")

    def _group(self, w: Workspace, entry: Variable, to: Variable) -> None:
        """A line, or a group of transformed rows; `to` moves behind it."""
        b = w.b
        source, pitch, masks, value = (b.general(name) for name in ("source", "pitch", "masks", "value"))
        done = b.fresh_label("group_done")
        b.emit("mov", pitch, w.field("strip_row"))
        if self.transform is None:
            inside = b.fresh_label("inside")
            b.emit("mov", value, w.slot("line_now"))
            b.emit("cmp", value, w.field("height"))  # unsigned: a row above the image is far behind it
            b.emit("jump_below", inside)
            b.emit("add", pitch, to)
            nothing = b.vector("nothing")
            b.emit("zero", nothing)
            zeros(w, nothing, to, pitch)
            b.emit("jump", done)
            b.label(inside)
        b.emit("mov", source, w.slot("group_at"))
        b.emit("mov", masks, b.at(entry, StripEntry.masks.offset))
        for place in (StripEntry.before, StripEntry.inside, StripEntry.behind):
            b.emit("mov", value, b.at(entry, place.offset))
            self._run(w, source, to, pitch, value, masks if place is not StripEntry.inside else None)
        pass_planes(w, to, entry, self.shifts, self.transform)
        b.label(done)

    def _run(
        self,
        w: Workspace,
        source: Variable,
        to: Variable,
        pitch: Variable,
        count: Variable,
        masks: Variable | None,
    ) -> None:
        """`count` vectors of a group, maybe none; `source`, `to` and `masks` move behind them."""
        b, t = w.b, self.transform
        top, done = b.fresh_label("vector"), b.fresh_label("run_done")
        halves = Halves(w, self.shifts) if self.step == 2 else None
        b.emit("cmp", count, 0)
        b.emit("jump_equal", done)
        b.label(top)
        lanes: list[Variable] = []
        for number in range(self.step if masks is not None else 0):
            assert masks is not None
            lanes.append(b.mask(f"lanes{number}"))
            b.emit("load_mask", lanes[-1], b.at(masks, number * mask_bytes(w)))
        if masks is not None:
            b.emit("add", masks, self.step * mask_bytes(w))
        if t is not None and t.stride * self.step > 1 and b.machine.mask_class == "vector":
            self._by_phases(w, t, source, to, pitch, lanes)
            self._step(w, source, to, count, top)
            b.label(done)
            return
        here, line = b.general("here"), b.general("line")
        planes: list[list[Variable]] = [[] for _ in self.shifts]
        b.emit("mov", here, source)
        if t is not None:
            b.emit("mov", line, w.field("x_row"))
        for number in range(self._rows):
            found = [self._load(w, here, part, lanes) for part in range(self.step)]
            for plane, row in zip(planes, halves.take(*found) if halves else found, strict=True):
                plane.append(row)
            if number + 1 < self._rows:
                b.emit("add", here, line)
        if t is not None and masks is None:
            for _ in range(t.outputs * t.stride):
                b.emit("add", here, line)
                b.emit("prefetch_l2", b.at(here))
        store_rows(w, to, pitch, planes if t is None else [forward(b, t, rows) for rows in planes])
        self._step(w, source, to, count, top)
        b.label(done)

    def _step(self, w: Workspace, source: Variable, to: Variable, count: Variable, top: str) -> None:
        w.b.emit("add", source, self.step * w.geometry.vector_bytes)
        w.b.emit("add", to, w.geometry.vector_bytes)
        w.b.emit("dec", count)
        w.b.emit("jump_nonzero", top)

    def _by_phases(
        self,
        w: Workspace,
        t: Transform,
        source: Variable,
        to: Variable,
        pitch: Variable,
        lanes: list[Variable],
    ) -> None:
        """A vector of each transformed row of each plane, of the rows of one phase of one plane at a time:
        all of them would take more registers than there are."""
        b = w.b
        line, here, there, plane = (b.general(name) for name in ("line", "here", "there", "plane"))
        b.emit("mov", line, w.field("x_row"))
        if not lanes:
            b.emit("imul", here, line, t.image_rows - 1)
            b.emit("add", here, source)
            for _ in range(t.outputs * t.stride):
                b.emit("add", here, line)
                b.emit("prefetch_l2", b.at(here))
        b.emit("mov", plane, to)
        for shift in self.shifts:
            halves = Halves(w, (shift,)) if self.step == 2 else None
            b.emit("mov", there, plane)
            for number, phase in enumerate(t.phases):
                b.emit("mov", here, source)
                for _ in range(number):
                    b.emit("add", here, line)
                rows = []
                for row in range(phase.image_rows):
                    for _ in range(t.stride if row else 0):
                        b.emit("add", here, line)
                    found = [self._load(w, here, part, lanes) for part in range(self.step)]
                    rows += halves.take(*found) if halves else found
                for value in forward(b, phase, rows):
                    b.emit("store", b.at(there), value)
                    b.emit("add", there, pitch)
            if len(self.shifts) > 1:
                value = b.general("value")
                b.emit("mov", value, w.slot("strip_entry"))
                b.emit("add", plane, b.at(value, StripEntry.plane.offset))

    def _load(self, w: Workspace, here: Variable, part: int, lanes: list[Variable]) -> Variable:
        b, row = w.b, w.b.vector("row")
        place = b.at(here, part * w.geometry.vector_bytes)
        if lanes:
            b.emit("load_masked", row, place, lanes[part])
        else:
            b.emit("load", row, place)
        return row


def store_rows(w: Workspace, to: Variable, pitch: Variable, planes: Sequence[Sequence[Variable]]) -> None:
    """A vector of each row of each plane of a strip, `pitch` bytes from row to row."""
    b = w.b
    here, plane = b.general("here"), b.general("plane")
    b.emit("mov", here, to)
    if len(planes) > 1:
        b.emit("mov", plane, w.slot("strip_entry"))
        b.emit("mov", plane, b.at(plane, StripEntry.plane.offset))
    for number, row in enumerate(zip(*planes, strict=True)):
        for at, value in enumerate(row):
            b.emit("store", b.at(here, index=plane) if at else b.at(here), value)
        if number + 1 < len(planes[0]):
            b.emit("add", here, pitch)
