"""Lanes are channels, each with a kernel of its own: no lane moves, a tap is a vector of weights.

    for each vector of channels:  results = biases
        for each image row, for each image column:  x = vector;  results that read it += x * their weights

An image vector is loaded once for all results of the tile. Rows and columns that are padding are stepped
over: a bit says of each whether it exists, and a branch on it is foreseen, since all channels go alike.
Weights are held in registers where they find room, else each product reads its own.

The last vector of channels ends with the last channel, and does some again. The bits of a result do not
depend on that: its products are always added in the same order.

A block of `blocks.depthwise` is such an image of one vector of channels, yet neither kernel does the other's
work well. There one listing serves all sizes and a row of weights is loaded at a time, so that 7 x 7 weights
find room; it wants whole vectors and dense images. Here channels may be any number, pixels and rows
any distance apart, dilated and padded anyhow, which takes tables made for a size.
"""

from __future__ import annotations

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.channels_last.arguments import SpanEntry
from regweave.kernels.channels_last.storing import ResultStore, activated, load_slot_mask
from regweave.kernels.channels_last.tiles import DepthTile
from regweave.kernels.common.workspace import Workspace
from regweave.values import frozen


@frozen
class DepthProducts:
    """Routine: a tile of all channels.

    Register `near` is the address of the tile's SpanEntry and stays; slots `source` and `target` say where
    its window is read and written, `weights` where the weights start, `rows` which rows exist.
    """

    tile: DepthTile

    @property
    def stem(self) -> str:
        return "channels"

    def write(self, w: Workspace) -> None:
        b, r, tile, size = w.b, w.r, self.tile, w.geometry.vector_bytes
        at, again = b.general("at"), b.fresh_label("vector")
        rows, columns = b.general("rows"), b.general("columns")
        mask = load_slot_mask(w) if tile.masked else None
        b.emit("zero", at)
        b.emit("mov", r.walk, w.slot("weights"))
        b.emit("mov", r.left, w.field("vectors"))
        b.emit("mov", r.pitch, w.field("x_pixel"))
        b.emit("mov", rows, w.slot("rows"))
        b.emit("mov", columns, b.at(r.near, SpanEntry.columns.offset))
        b.label(again)
        b.emit("mov", r.source, w.slot("source"))
        b.emit("add", r.source, b.at(r.near, SpanEntry.x.offset))
        b.emit("add", r.source, at)
        acc = {(i, j): b.vector(f"result_{i}_{j}") for i in range(tile.rows) for j in range(tile.columns)}
        for result in acc.values():
            b.emit("load", result, b.at(r.walk))
        weights = self._weights(w)
        here = 0
        for image_row in tile.image_rows:
            step = b.general("step")
            while here < image_row:
                b.emit("mov", step, w.field("x_row"))
                b.emit("add", r.source, step)
                here += 1
            self._row(w, acc, weights, image_row, rows, columns, mask)
        self._store(w, acc, at)
        kernel = tile.kernel[0] * tile.kernel[1]
        b.emit("add", r.walk, (1 + kernel) * size)
        b.emit("add", at, size)
        b.emit("min", at, self._last(w))
        b.emit("dec", r.left)
        b.emit("jump_nonzero", again)
        b.emit("ret")

    def _last(self, w: Workspace) -> Variable:
        last = w.b.general("last")
        w.b.emit("mov", last, w.field("last_vector"))
        return last

    def _weights(self, w: Workspace) -> dict[tuple[int, int], Variable | Memory]:
        """Kernel element -> its weights: in registers if all find room."""
        b, tile, size = w.b, self.tile, w.geometry.vector_bytes
        keys = [(k, m) for k in range(tile.kernel[0]) for m in range(tile.kernel[1])]
        places = {key: b.at(w.r.walk, (1 + number) * size) for number, key in enumerate(keys)}
        if not tile.holds_weights(b.machine):
            return dict(places)
        held: dict[tuple[int, int], Variable | Memory] = {}
        for key, place in places.items():
            weight = b.vector("weight")
            b.emit("load", weight, place)
            held[key] = weight
        return held

    def _row(
        self,
        w: Workspace,
        acc: dict[tuple[int, int], Variable],
        weights: dict[tuple[int, int], Variable | Memory],
        image_row: int,
        rows: Variable,
        columns: Variable,
        mask: Variable | None,
    ) -> None:
        """All products with an image row, at `source`."""
        b, r, tile = w.b, w.r, self.tile
        done = b.fresh_label("row_done")
        if tile.padded[0]:
            b.emit("test", rows, 1 << image_row)
            b.emit("jump_zero", done)
        b.emit("mov", r.ahead, r.source)
        here = 0
        for column in tile.image_columns:
            while here < column:
                b.emit("add", r.ahead, r.pitch)
                here += 1
            passed = b.fresh_label("column_done")
            if tile.padded[1]:
                b.emit("test", columns, 1 << column)
                b.emit("jump_zero", passed)
            image = b.vector("image")
            if mask is None:
                b.emit("load", image, b.at(r.ahead))
            else:
                b.emit("load_masked", image, b.at(r.ahead), mask)
            for i, k in tile.met(0, image_row):
                for j, m in tile.met(1, column):
                    b.emit("fma", acc[i, j], image, weights[k, m])
            b.label(passed)
        b.label(done)

    def _store(self, w: Workspace, acc: dict[tuple[int, int], Variable], at: Variable) -> None:
        b, r, tile = w.b, w.r, self.tile
        results, memory = activated(w, tile.epilogue, acc)
        store = ResultStore(w, tile, memory)
        b.emit("mov", r.out_pitch, w.field("y_pixel"))
        b.emit("mov", r.out, w.slot("target"))
        b.emit("add", r.out, b.at(r.near, SpanEntry.y.offset))
        b.emit("add", r.out, at)
        row = b.general("row")
        for i in range(tile.rows):
            if i:
                b.emit("add", r.out, w.slot("y_row"))
            b.emit("mov", row, r.out)
            for j in range(tile.columns):
                if j:
                    b.emit("add", row, r.out_pitch)
                store(b.at(row), results, (i, j), masked=tile.masked)
