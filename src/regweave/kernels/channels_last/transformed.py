"""Transformed rows of channels last: a strip of row combinations, and the way back (see
`kernels/convolution/transforms.py`).

    line of zeros, strip[group][product][pixel][channel]

Rows are combined element by element, whatever an element is: of channels last a vector is 16 neighbours in a
row of pixels times channels. A row that does not exist is the line of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.variables import Variable
from regweave.kernels.channels_last.arguments import SpanEntry
from regweave.kernels.channels_last.folding import FoldedRun, store_folded
from regweave.kernels.channels_last.storing import ResultStore, activated
from regweave.kernels.channels_last.strip import find_bounds
from regweave.kernels.channels_last.tiles import DenseTile
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.strip import zeros
from regweave.kernels.convolution.transformed import forward, inverse, watched
from regweave.kernels.convolution.transforms import Transform
from regweave.values import frozen


def clear_line(w: Workspace) -> None:
    """The line of zeros at slot `strip`, which moves behind it; nothing is watched yet. Slot zero_line."""
    b, here, end, zero = w.b, w.b.general("here"), w.b.general("end"), w.b.vector("zero")
    b.emit("zero", zero)
    b.emit("store", watched(w), zero)
    b.emit("mov", here, w.slot("strip"))
    b.emit("mov", w.slot("zero_line"), here)
    b.emit("mov", end, here)
    b.emit("add", end, w.field("zero_bytes"))
    b.emit("mov", w.slot("strip"), end)
    zeros(w, zero, here, end)


def tell(w: Workspace) -> None:
    """Field `flags`[part] = what was watched: zeros, or NaN where a result is not finite."""
    b, value, to = w.b, w.b.vector("watch"), w.b.general("flags")
    b.emit("mov", to, w.slot("part"))
    b.emit("imul", to, to, w.geometry.vector_bytes)
    b.emit("add", to, w.field("flags"))
    b.emit("load", value, watched(w))
    b.emit("store", b.at(to), value)


@frozen
class FillTransformedRows:
    """Routine: the strip at slot `strip` from the image rows at slot `from`, whose first is row `line`, from
    image pixel `pixel` on, in `groups` groups. Slots `from` and `line` are lost.

    Pixels of the image follow one another. Vectors reach up to one beyond a row: strips have room for that.
    """

    transform: Transform

    @property
    def stem(self) -> str:
        return "fill_transformed_rows"

    def write(self, w: Workspace) -> None:
        b, t = w.b, self.transform
        to, value, group = b.general("to"), b.general("value"), b.fresh_label("group")
        find_bounds(w)
        b.emit("mov", value, w.slot("skipped"))
        w.advance_slot("from", value)
        b.emit("mov", to, w.slot("strip"))
        w.copy_slot("groups_left", "groups")
        b.label(group)
        self._rows(w)
        self._sides(w, to)
        self._vectors(w, to)
        b.emit("mov", value, w.field("strip_row"))
        b.emit("imul", value, value, t.products)
        b.emit("add", to, value)
        b.emit("mov", value, w.field("group_bytes"))
        w.advance_slot("from", value)
        w.advance_slot("line", t.outputs * t.stride)
        w.repeat(group, "groups_left", value)
        b.emit("ret")

    def _rows(self, w: Workspace) -> None:
        """Slots row0, row1, ...: where the group's image rows are."""
        b = w.b
        at, line, row, nothing = (b.general(name) for name in ("at", "line", "row", "nothing"))
        b.emit("mov", at, w.slot("from"))
        b.emit("mov", line, w.slot("line"))
        b.emit("mov", nothing, w.slot("zero_line"))
        for number in range(self.transform.image_rows):
            b.emit("mov", row, at)
            b.emit("cmp", line, w.field("height"))  # unsigned: a row above the image is far behind it
            b.emit("mov_if_above_equal", row, nothing)
            b.emit("mov", w.slot(f"row{number}"), row)
            b.emit("add", at, w.field("x_row"))
            b.emit("add", line, 1)

    def _sides(self, w: Workspace, to: Variable) -> None:
        """Zeros before and behind the pixels that there are, in all rows of a group."""
        b, zero = w.b, w.b.vector("zero")
        row, here, end, left = (b.general(name) for name in ("row", "here", "end", "left"))
        again = b.fresh_label("sides")
        b.emit("zero", zero)
        b.emit("mov", row, to)
        b.emit("mov", left, self.transform.products)
        b.label(again)
        b.emit("mov", here, row)
        b.emit("mov", end, row)
        b.emit("add", end, w.slot("bytes_before"))
        zeros(w, zero, here, end)
        b.emit("mov", end, row)
        b.emit("add", end, w.slot("line_bytes"))
        b.emit("mov", here, end)
        b.emit("sub", here, w.slot("bytes_behind"))
        zeros(w, zero, here, end)
        b.emit("add", row, w.field("strip_row"))
        b.emit("dec", left)
        b.emit("jump_nonzero", again)

    def _vectors(self, w: Workspace, to: Variable) -> None:
        """All pixels that there are. The last vector ends with them; it is loaded through a mask."""
        b, size = w.b, w.geometry.vector_bytes
        here, at, left = b.general("here"), b.general("at"), b.general("left")
        top, tail, done = b.fresh_label("vectors"), b.fresh_label("tail"), b.fresh_label("vectors_done")
        b.emit("mov", here, to)
        b.emit("add", here, w.slot("bytes_before"))
        b.emit("zero", at)
        b.emit("mov", left, w.slot("pixels"))
        b.emit("imul", left, w.field("pixel_bytes"))
        b.emit("sub", left, size)
        b.emit("jump_less", tail)
        b.label(top)
        self._vector(w, here, at, None)
        b.emit("add", here, size)
        b.emit("add", at, size)
        b.emit("sub", left, size)
        b.emit("jump_greater_equal", top)
        b.label(tail)
        b.emit("add", left, size)
        b.emit("jump_equal", done)
        mask = b.mask("rest")
        b.emit("shr", left, 2)
        b.emit("mask_from_count", mask, left)
        self._vector(w, here, at, mask)
        b.label(done)

    def _vector(self, w: Workspace, here: Variable, at: Variable, mask: Variable | None) -> None:
        b, rows = w.b, []
        row, there, pitch = b.general("row"), b.general("there"), b.general("pitch")
        for number in range(self.transform.image_rows):
            rows.append(b.vector(f"row{number}"))
            b.emit("mov", row, w.slot(f"row{number}"))
            if mask is None:
                b.emit("load", rows[-1], b.at(row, index=at))
            else:
                b.emit("load_masked", rows[-1], b.at(row, index=at), mask)
        b.emit("mov", pitch, w.field("strip_row"))
        b.emit("mov", there, here)
        for number, value in enumerate(forward(b, self.transform, rows)):
            if number:
                b.emit("add", there, pitch)
            if mask is None:
                b.emit("store", b.at(there), value)
            else:
                b.emit("store_masked", b.at(there), value, mask)


def store_transformed(w: Workspace, tile: DenseTile, acc: dict[tuple[int, int], Variable]) -> None:
    """The products [pixel * products + product, 0] become results, with their biases, and go where they
    belong: those of the output rows that the band has. Their sum is watched: finite only if all are."""
    b, r, t, pixels = w.b, w.r, tile.transform, len(tile.spans)
    assert t is not None
    b.emit("mov", r.walk, w.slot("weights"))
    results = {}
    for pixel in range(pixels):
        products = [acc[pixel * t.products + product, 0] for product in range(t.products)]
        for row, value in enumerate(inverse(b, t, products)):
            results[row, pixel] = value
    _watch(w, list(results.values()))
    for value in results.values():
        b.emit("add", value, value, b.at(r.walk))
    by_row = {key: results[key] for key in sorted(results)}
    if tile.split > 1:
        _store_rows(w, tile, list(by_row.values()))
        return
    ordered, memory = activated(w, tile.epilogue, by_row)
    store = ResultStore(w, tile, memory)
    rows, pitch, here = b.general("rows"), b.general("y_pitch"), b.general("here")
    done = b.fresh_label("rows_stored")
    b.emit("mov", rows, w.slot("height"))
    b.emit("sub", rows, b.at(r.near, SpanEntry.row.offset))
    b.emit("mov", pitch, w.field("y_pixel"))
    b.emit("mov", r.out, w.slot("target"))
    b.emit("add", r.out, b.at(r.near, SpanEntry.y.offset))
    for row in range(t.outputs):
        if row:
            b.emit("cmp", rows, row)
            b.emit("jump_less_equal", done)
            b.emit("add", r.out, w.slot("y_row"))
        b.emit("mov", here, r.out)
        for pixel in range(pixels):
            if pixel:
                b.emit("add", here, pitch)
            store(b.at(here), ordered, (row, pixel), masked=tile.masked)
    b.label(done)


def _store_rows(w: Workspace, tile: DenseTile, results: list[Variable]) -> None:
    """Results of lanes that share a filter, row by row."""
    b, r, t, pixels = w.b, w.r, tile.transform, len(tile.spans)
    assert t is not None
    rows, done, first, to = (
        b.general("rows"),
        b.fresh_label("rows_stored"),
        b.general("first"),
        b.general("to"),
    )
    b.emit("mov", rows, w.slot("height"))
    b.emit("sub", rows, b.at(r.near, SpanEntry.row.offset))
    b.emit("mov", first, w.slot("target"))
    b.emit("add", first, b.at(r.near, SpanEntry.y.offset))

    def begin(row: int) -> None:
        if row:
            b.emit("cmp", rows, row)
            b.emit("jump_less_equal", done)
            b.emit("add", first, w.slot("y_row"))
        b.emit("mov", to, first)

    store_folded(w, tile, results, [FoldedRun(to, pixels)] * t.outputs, begin)
    b.label(done)


@frozen
class RestoreRows:
    """Routine: the results of all products that are staged, of `vectors` vectors of filters.

    Slot `stage` is the address of the products, `result` that of the window's first result of these filters;
    `weights` is the address of their biases.
    """

    tile: DenseTile
    vectors: int

    @property
    def stem(self) -> str:
        return f"restore_{self.vectors}"

    def write(self, w: Workspace) -> None:
        b, r, t = w.b, w.r, self.tile.transform
        assert t is not None
        at, left, rows = b.general("at"), b.general("pixels_left"), b.general("rows")
        group, pixel = b.fresh_label("restore_group"), b.fresh_label("restore_pixel")
        b.emit("mov", at, w.slot("stage"))
        b.emit("mov", r.walk, w.slot("weights"))
        w.copy_slot("result_row", "result")
        w.copy_slot("groups_left", "groups")
        b.emit("mov", rows, w.slot("height"))
        b.label(group)
        b.emit("mov", r.out, w.slot("result_row"))
        b.emit("mov", left, w.field("columns"))
        b.label(pixel)
        for v in range(self.vectors):
            self._vector(w, t, at, rows, v)
        b.emit("add", at, w.field("stage_pixel"))
        b.emit("add", r.out, w.field("y_pixel"))
        b.emit("dec", left)
        b.emit("jump_nonzero", pixel)
        value = b.general("value")
        b.emit("imul", value, w.slot("y_row"), t.outputs)
        w.advance_slot("result_row", value)
        b.emit("sub", rows, t.outputs)
        w.repeat(group, "groups_left", value)
        b.emit("ret")

    def _vector(self, w: Workspace, t: Transform, at: Variable, rows: Variable, v: int) -> None:
        """A vector of filters of a pixel, of all rows of a group that the band has."""
        b, place = w.b, v * w.geometry.vector_bytes
        here, plane, done = b.general("here"), b.general("plane"), b.fresh_label("vector_done")
        b.emit("mov", here, at)
        b.emit("mov", plane, w.field("stage_plane"))
        products = b.vectors("product", t.products)
        for number, product in enumerate(products):
            if number:
                b.emit("add", here, plane)
            b.emit("load", product, b.at(here, place))
        results = inverse(b, t, products)
        _watch(w, results)
        for value in results:
            b.emit("add", value, value, b.at(w.r.walk, place))
        ordered, memory = activated(w, self.tile.epilogue, {(row, v): r for row, r in enumerate(results)})
        store, to = ResultStore(w, self.tile, memory), b.general("to")
        b.emit("mov", to, w.r.out)
        for row in range(t.outputs):
            if row:
                b.emit("cmp", rows, row)
                b.emit("jump_less_equal", done)
                b.emit("add", to, w.slot("y_row"))
            last = self.tile.masked and v + 1 == self.vectors
            store(b.at(to, place), ordered, (row, v), masked=last)
        b.label(done)


def _watch(w: Workspace, results: Sequence[Variable]) -> None:
    """Add zero times the sum of the results to what is watched: zero only if all are finite."""
    b, total = w.b, w.b.vector("total")
    b.emit("move", total, results[0])
    for value in results[1:]:
        b.emit("add", total, total, value)
    b.emit("mul", total, total, b.constant(0.0))
    b.emit("add", total, total, watched(w))
    b.emit("store", watched(w), total)
