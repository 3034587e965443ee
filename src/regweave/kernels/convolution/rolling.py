"""A band of one filter or two of a few channels, from top to bottom: every image row is read once.

    for each group of image rows:  for each block of the strip:
        sums under way come from memory, meet the group's rows of all channels, and go back; what is
        complete is stored

Where rows start a multiple of 4096 bytes apart, all of them compete for the same sets of the first-level
cache. A tall tile that walks to the right finds nothing there of what the block before has loaded, and
fetches each line twice; of a group there are so few rows that they stay. What is under way, 4 rows of sums
for a 5 x 5 kernel, takes 256 bytes a block. Rows that the image does not have are a row of zeros, results of
rows that the band does not have go to a row that nobody reads.

    5 x 5, 4096 x 4096: 8.7 -> 7.9 ms, as a column times a row 5.8 -> 4.2; 3 x 3, 8192 x 8192: 23 -> 14 ms

Channels that compete for a place of the cache are copied apart first, a piece of a row at a time (copies).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.arguments import BlockEntry, StripEntry
from regweave.kernels.convolution.column import Column, Reads
from regweave.kernels.convolution.copies import CopiedRows, copy_bytes
from regweave.kernels.convolution.lagging import LateStores
from regweave.kernels.convolution.results import Last
from regweave.kernels.convolution.strip import zeros
from regweave.kernels.convolution.tile import ConvTile
from regweave.values import frozen

#: What gets a row of results, complete, by number and filter; weights of each filter.
Store = Callable[[int, int, Sequence[Variable]], None]
Weights = Sequence[Sequence[Variable | Memory]]
#: Bytes along the row from a block to what is asked for meanwhile, in the next group of rows.
_AHEAD = 2048
#: Bytes more from channel to channel: lines that a cache takes for one another must not be asked for at once.
_APART = 512


def rolling_bytes(tile: ConvTile, strip_row: int, results_row: int, vector_bytes: int) -> int:
    """Bytes of memory for a band: rows of a strip and of its results, in whole vectors, are so many bytes."""
    sums = max(tile.outputs) * (tile.kernel_rows - 1) * results_row
    return 2 * strip_row + sums + copy_bytes(tile, vector_bytes)


def open_rolling(w: Workspace, rows: int) -> None:
    """The row of zeros, at slot `strip`, as long as so many rows."""
    b, zero, here, end = w.b, w.b.vector("zero"), w.b.general("here"), w.b.general("end")
    b.emit("zero", zero)
    b.emit("mov", here, w.slot("strip"))
    b.emit("mov", end, here)
    for _ in range(rows):
        b.emit("add", end, w.field("strip_row"))
    zeros(w, zero, here, end)


@frozen
class RollingBand:
    """Routine: a band of `band_rows` rows of a strip, of the filters at slot `weights`.

    The first row reads image rows from number `line` on, at slot `base` and the first tap; its results are at
    slot `out_base`. Slot `strip`: a row of zeros, one that is written only, then the sums.
    """

    tile: ConvTile

    @property
    def stem(self) -> str:
        return "rolling_band"

    @property
    def _outputs(self) -> int:
        return max(self.tile.outputs)

    @property
    def _under_way(self) -> int:
        """Rows of sums between two groups."""
        return self.tile.kernel_rows - 1

    def write(self, w: Workspace) -> None:
        b, r = w.b, w.r
        group, block, next_block = (b.fresh_label(s) for s in ("group", "block", "next_block"))
        value, across, sums = b.general("value"), b.general("across"), b.general("sums")
        b.emit("mov", r.walk, w.slot("weights"))
        weights = self._weights(w)
        self._open(w)
        b.label(group)
        self._places(w, "row", ("height", "x_row"), "x_channel", self.tile.channels, instead=0)
        self._places(w, "result", ("band_rows", "y_row"), "y_channel", self._outputs, instead=1)
        b.emit("zero", across)
        b.emit("mov", sums, w.field("strip_row"))
        b.emit("shl", sums, 1)
        b.emit("add", sums, w.slot("strip"))
        b.emit("mov", value, w.slot("strip_entry"))
        b.emit("mov", r.near, b.at(value, StripEntry.blocks.offset))
        b.emit("mov", value, b.at(value, StripEntry.block_count.offset))
        b.emit("mov", w.slot("blocks_left"), value)
        b.label(block)
        b.emit("mov", value, b.at(r.near, BlockEntry.kind.offset))
        kinds = [(vectors, edge) for vectors in self.tile.vectors for edge in (False, True)]
        for kind, (vectors, edge) in enumerate(kinds):
            other = b.fresh_label("other_kind")
            if kind + 1 < len(kinds):
                b.emit("cmp", value, kind)
                b.emit("jump_not_equal", other)
            column = Column(self.tile, vectors, edge)
            if edge:
                self._edge(w, column, across, sums, weights)
            else:
                self._run(w, column, across, sums, weights)
            if kind + 1 < len(kinds):
                b.emit("jump", next_block)
                b.label(other)
        b.label(next_block)
        b.emit("add", r.near, 8 * len(BlockEntry._fields_))
        w.count_down("blocks_left", 1, block, "jump_nonzero")
        w.count_down("rows_left", self.tile.rows, group, "jump_greater")
        b.emit("ret")

    def _open(self, w: Workspace) -> None:
        """Slots of the first group: `row_number` and `row_at` of its first image row, `result_number` and
        `result_at` of the row of results that it completes, before the band's first; `rows_left` to read."""
        b, before = w.b, self._under_way
        place, entry, table = b.general("place"), b.general("entry"), b.general("table")
        b.emit("mov", table, w.slot("taps"))
        b.emit("mov", place, w.slot("base"))
        b.emit("add", place, b.at(table))
        b.emit("mov", w.slot("row_at"), place)
        w.copy_slot("row_number", "line")
        b.emit("mov", entry, w.slot("strip_entry"))
        b.emit("mov", entry, b.at(entry, StripEntry.blocks.offset))
        b.emit("imul", place, w.slot("y_row"), -before)
        b.emit("add", place, w.slot("out_base"))
        b.emit("add", place, b.at(entry, BlockEntry.y.offset))
        b.emit("mov", w.slot("result_at"), place)
        b.emit("mov", w.slot("result_number"), -before)
        b.emit("mov", place, w.field("band_rows"))
        b.emit("add", place, before)
        b.emit("mov", w.slot("rows_left"), place)

    def _weights(self, w: Workspace) -> list[list[Variable | Memory]]:
        """Of each filter its weights, in the order of packing: in registers, the others where they lie."""
        b, tile, outputs = w.b, self.tile, self._outputs
        held = tile.held_weights
        weights: list[list[Variable | Memory]] = [[] for _ in range(outputs)]
        for number in range(held + tile.far_weights):
            place = 4 * (outputs + number)
            if number < held:
                weight = b.vector(f"weight_{number}")
                b.emit("broadcast", weight, b.at(w.r.walk, place))
            else:
                weight = b.at(w.r.walk, place, repeat=True)
            weights[number % outputs].append(weight)
        return weights

    def _places(
        self, w: Workspace, name: str, fields: tuple[str, str], apart: str, planes: int, *, instead: int
    ) -> None:
        """Slots `name`0_0, `name`1_0, ...: where the group's rows are, of as many planes; of those that do
        not exist row `instead` at slot `strip`. `fields`: how many there are, and bytes from one to the
        next; `apart`: bytes between planes. The numbering goes on with the next group."""
        b, (count, pitch) = w.b, fields
        names = ("number", "at", "place", "other", "limit", "step")
        number, at, place, other, limit, step = (b.general(name) for name in names)
        b.emit("mov", at, w.slot(f"{name}_at"))
        b.emit("mov", step, w.field(pitch))
        b.emit("mov", limit, w.field(count))
        b.emit("imul", other, w.field("strip_row"), instead)
        b.emit("add", other, w.slot("strip"))
        for plane in range(planes):
            b.emit("mov", number, w.slot(f"{name}_number"))
            if plane:
                b.emit("imul", at, w.field(apart), plane)
                b.emit("add", at, w.slot(f"{name}_at"))
            for row in range(self.tile.rows):
                b.emit("mov", place, at)
                b.emit("cmp", number, limit)  # unsigned: a row before the first is far behind the last
                b.emit("mov_if_above_equal", place, other)
                b.emit("mov", w.slot(f"{name}{row}_{plane}"), place)
                b.emit("inc", number)
                b.emit("add", at, step)
        b.emit("imul", at, step, self.tile.rows)
        b.emit("add", at, w.slot(f"{name}_at"))
        b.emit("mov", w.slot(f"{name}_number"), number)
        b.emit("mov", w.slot(f"{name}_at"), at)

    def _run(
        self,
        w: Workspace,
        column: Column,
        across: Variable,
        sums: Variable,
        weights: Weights,
    ) -> None:
        """The blocks of the entry at `near`, each of whole vectors that padding does not reach."""
        b, r, tile, size = w.b, w.r, self.tile, w.geometry.vector_bytes
        top = b.fresh_label("step")
        b.emit("mov", r.left, b.at(r.near, BlockEntry.columns.offset))
        rows = [f"result{row}_{o}" for row in range(tile.rows) for o in range(self._outputs)]
        late = LateStores(w, rows, column.vectors, across) if tile.lagging else None
        copied = CopiedRows(w, tile, across, tile.reads(w.geometry.lanes)) if tile.copied else None

        def store(row: int, o: int, results: Sequence[Variable]) -> None:
            to = b.general("to")
            b.emit("mov", to, w.slot(f"result{row}_{o}"))
            for v, result in enumerate(results):
                if late is not None:
                    late.store(to, row * self._outputs + o, v, result)
                else:
                    place = b.at(to, v * size, index=across)
                    b.emit("store_stream" if tile.stream else "store", place, result)

        b.label(top)
        self._block(w, column, across, sums, weights, store, copied)
        ahead = b.general("ahead")
        for channel in range(tile.channels):
            b.emit("mov", ahead, w.slot(f"row{tile.rows - 1}_{channel}"))
            b.emit("add", ahead, across)
            for _ in range(tile.rows):
                b.emit("add", ahead, w.slot("pitch"))
                for v in range(column.vectors):
                    b.emit("prefetch_l2", b.at(ahead, _AHEAD + channel * _APART + v * size))
        self._move(w, column, across, sums)
        if copied is not None:
            b.emit("add", copied.here, column.vectors * size)
        if late is not None:
            late.step()
        b.emit("sub", r.left, column.vectors * w.geometry.lanes)
        b.emit("jump_greater", top)
        if late is not None:
            late.rest()

    def _edge(
        self,
        w: Workspace,
        column: Column,
        across: Variable,
        sums: Variable,
        weights: Weights,
    ) -> None:
        """The block of the entry at `near`, which padding reaches, or the end of a row."""
        b, size = w.b, w.geometry.vector_bytes
        last = Last(w, self.tile, column.vectors)

        def store(row: int, o: int, results: Sequence[Variable]) -> None:
            to = b.general("to")
            b.emit("mov", to, w.slot(f"result{row}_{o}"))
            for v, result in enumerate(results):
                place = b.at(to, v * size, index=across)
                if v + 1 == column.vectors:
                    last.store(place, result)
                else:
                    b.emit("store_stream" if self.tile.stream else "store", place, result)

        self._block(w, column, across, sums, weights, store)
        self._move(w, column, across, sums)

    def _block(
        self,
        w: Workspace,
        column: Column,
        across: Variable,
        sums: Variable,
        weights: Weights,
        store: Store,
        copied: CopiedRows | None = None,
    ) -> None:
        """A block of the group's rows, `across` bytes along them, or of their copies; `store` gets each row
        that is complete."""
        b, tile, size, vectors = w.b, self.tile, w.geometry.vector_bytes, column.vectors
        under_way, outputs = self._under_way, range(self._outputs)
        keys = [(o, row, v) for o in outputs for row in range(under_way) for v in range(vectors)]
        acc: list[dict[tuple[int, int], Variable]] = [{} for _ in outputs]
        for place, (o, row, v) in enumerate(keys):
            acc[o][row, v] = b.vector("sum")
            b.emit("load", acc[o][row, v], b.at(sums, place * size))
        reads = tile.reads(w.geometry.lanes)
        masks = column.masks(w, len(reads))
        each = len(weights[0]) // tile.channels
        for row in range(tile.rows):
            met = [(row + k, under_way - k) for k in range(tile.kernel_rows)]
            for o, v in product(outputs, range(vectors)):
                acc[o][row + under_way, v] = b.vector("sum")
                b.emit("broadcast", acc[o][row + under_way, v], b.at(w.r.walk, 4 * o))
            for channel in range(tile.channels):
                at = b.general("at")
                if copied is None:
                    b.emit("mov", at, w.slot(f"row{row}_{channel}"))
                    places = [b.at(at, 4 * first, index=across) for first in reads]
                else:
                    places = [copied.place(row, channel, first) for first in reads]
                row_reads = Reads(w, places, masks, None)
                for o in outputs:
                    part = weights[o][channel * each : (channel + 1) * each]
                    column.image_row(w, row_reads, part, acc[o], met)
            for o in outputs:
                store(row, o, column.activated(w, [acc[o].pop((row, v)) for v in range(vectors)]))
        for place, (o, row, v) in enumerate(keys):
            b.emit("store", b.at(sums, place * size), acc[o][row + tile.rows, v])

    def _move(self, w: Workspace, column: Column, across: Variable, sums: Variable) -> None:
        size = column.vectors * w.geometry.vector_bytes
        w.b.emit("add", across, size)
        w.b.emit("add", sums, self._outputs * self._under_way * size)
