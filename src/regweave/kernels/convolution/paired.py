"""A band of one filter of one channel, two rows of results at a time (see rowpairs).

    for each pair of rows of results:  for each vector, from left to right:
        for each group of kernel columns: image rows, their sums and differences, a product for each column
        the columns' results are shifted into place and added

A kernel column reads one element further to the right than the one before. Rather than their images, results
are moved: what the columns of a group give is added up step by step, one lane to the right each time, where
the vector before has left its last lanes. Of 5 columns the first three read one and the same vector, the
other two one that begins two elements later; both are combined once and serve all their columns:

    step 2: column 0       step 1: column 1 and column 3      step 0: column 2 and column 4

Two rows of 16 results take 35 products instead of 50, 24 sums, which other pipes take, 4 shifts and 12 loads,
in an order in which these take turns (pairsteps).
Before the first vector of a strip stands one more that only leaves its last lanes.

    5 x 5, 4096 x 4096: 7.9 -> 6.5 ms (copying the image takes 3.9)

What is not finite would spread from one row of a pair to the other: it is watched for (see transformed).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regweave.assembly.variables import Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.arguments import BlockEntry, StripEntry
from regweave.kernels.convolution.lagging import LateStores
from regweave.kernels.convolution.pairsteps import (
    BIASED,
    RESULTS,
    Step,
    held_products,
    ordered,
)
from regweave.kernels.convolution.results import Last, mask_bytes, no_operand
from regweave.kernels.convolution.rowpairs import column_groups, pairs
from regweave.kernels.convolution.tile import ConvTile
from regweave.kernels.convolution.transformed import watched
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.buildermath import BuilderMath
from regweave.values import frozen

#: What gets a vector of results, by its row.
Store = Callable[[int, Variable], None]
#: Image rows up to which registers are left for where the next rows are.
_FEW_ROWS = 6
#: Bytes along the row from a vector to what is asked for meanwhile, in the rows that the next pair adds.
_AHEAD = 2560


def paired_bytes(strip_row: int) -> int:
    """Bytes of memory for a band: a row of zeros, longer than a strip's by a vector, and one to write to."""
    return 3 * strip_row


@frozen
class PairedBand:
    """Routine: a band of `band_rows` rows of a strip, of the filter at slot `weights`.

    Slots as of RollingBand. Slot `strip`: zeros, then a row that is written only.
    """

    tile: ConvTile

    @property
    def stem(self) -> str:
        return "paired_band"

    def write(self, w: Workspace) -> None:
        b = w.b
        pair, block, other, next_block = (b.fresh_label(s) for s in ("pair", "block", "other", "next"))
        value = b.general("value")
        b.emit("mov", w.r.walk, w.slot("weights"))
        self._open(w)
        vectors = _Vectors(w, self.tile)
        b.label(pair)
        self._place_rows(w, vectors.rows)
        self._place_results(w)
        vectors.begin()
        b.emit("mov", value, w.slot("strip_entry"))
        b.emit("mov", w.r.near, b.at(value, StripEntry.blocks.offset))
        b.emit("mov", value, b.at(value, StripEntry.block_count.offset))
        b.emit("mov", w.slot("blocks_left"), value)
        b.label(block)
        b.emit("mov", value, b.at(w.r.near, BlockEntry.kind.offset))
        b.emit("cmp", value, self.tile.kind(1, edge=False))
        b.emit("jump_not_equal", other)
        self._run(w, vectors)
        b.emit("jump", next_block)
        b.label(other)
        self._edge(w, vectors)
        b.label(next_block)
        b.emit("add", w.r.near, 8 * len(BlockEntry._fields_))
        w.count_down("blocks_left", 1, block, "jump_nonzero")
        w.count_down("rows_left", 2, pair, "jump_greater")
        vectors.tell()
        b.emit("ret")

    def _open(self, w: Workspace) -> None:
        """Slots of the first pair: `row_number`, `row_at` of its first image row, a vector before the strip's
        first; `result_number`, `result_at` of its first row of results; `rows_left` of these."""
        b, place, entry, table = w.b, w.b.general("place"), w.b.general("entry"), w.b.general("table")
        b.emit("mov", table, w.slot("taps"))
        b.emit("mov", place, w.slot("base"))
        b.emit("add", place, b.at(table))
        b.emit("sub", place, w.geometry.vector_bytes)
        b.emit("mov", w.slot("row_at"), place)
        b.emit("mov", place, w.slot("line"))
        b.emit("mov", w.slot("row_number"), place)
        b.emit("add", place, w.field("top"))
        b.emit("mov", w.slot("result_number"), place)
        b.emit("mov", entry, w.slot("strip_entry"))
        b.emit("mov", entry, b.at(entry, StripEntry.blocks.offset))
        b.emit("mov", place, w.slot("out_base"))
        b.emit("add", place, b.at(entry, BlockEntry.y.offset))
        b.emit("mov", w.slot("result_at"), place)
        b.emit("mov", place, w.field("band_rows"))
        b.emit("mov", w.slot("rows_left"), place)
        b.emit("mov", place, w.field("height"))
        b.emit("mov", w.slot("row_limit"), place)

    def _place_rows(self, w: Workspace, rows: Sequence[Variable]) -> None:
        """Where the pair's image rows are; of those that do not exist the zeros. Slots `ahead0`, `ahead1`:
        the rows that the next pair adds."""
        b, number, at = w.b, w.b.general("number"), w.b.general("at")
        b.emit("mov", at, w.slot("row_at"))
        b.emit("mov", number, w.slot("row_number"))
        for count, row in enumerate(rows):
            if count == 2:
                b.emit("mov", w.slot("row_at"), at)
                b.emit("mov", w.slot("row_number"), number)
            b.emit("mov", row, at)
            b.emit("cmp", number, w.slot("row_limit"))  # unsigned: a row above the image is far behind it
            b.emit("mov_if_above_equal", row, w.slot("strip"))
            b.emit("inc", number)
            b.emit("add", at, w.slot("pitch"))
        for count in range(2):
            b.emit("mov", w.slot(f"ahead{count}"), at)
            b.emit("add", at, w.slot("pitch"))

    def _place_results(self, w: Workspace) -> None:
        """Slots `result0`, `result1`: where the pair's results go. The second row may not exist."""
        b, names = w.b, ("at", "elsewhere", "number")
        at, elsewhere, number = (b.general(name) for name in names)
        b.emit("mov", at, w.slot("result_at"))
        b.emit("mov", w.slot("result0"), at)
        b.emit("add", at, w.slot("y_row"))
        b.emit("imul", elsewhere, w.field("strip_row"), 2)
        b.emit("add", elsewhere, w.slot("strip"))
        b.emit("mov", number, w.slot("result_number"))
        b.emit("add", number, 2)
        b.emit("mov", w.slot("result_number"), number)
        b.emit("cmp", w.field("out_rows"), number)
        b.emit("mov_if_less", at, elsewhere)
        b.emit("mov", w.slot("result1"), at)
        step = b.general("step")
        b.emit("imul", step, w.slot("y_row"), 2)
        w.advance_slot("result_at", step)

    def _run(self, w: Workspace, vectors: _Vectors) -> None:
        """The vectors of the entry at `near`, which padding does not reach."""
        b, r, across, top = w.b, w.r, vectors.across, w.b.fresh_label("vector")
        end = b.general("end")
        b.emit("mov", end, b.at(r.near, BlockEntry.columns.offset))
        b.emit("shl", end, 2)
        b.emit("add", end, across)
        b.emit("mov", w.slot("run_end"), end)
        b.emit("mov", w.slot("entry"), r.near)  # registers are few
        results, ahead = ("result0", "result1"), ("ahead0", "ahead1")
        late = LateStores(w, results, 1, across) if self.tile.lagging else None
        # where results go is known early then: loads wait for stores that may go anywhere
        kept = () if late else (*results, *ahead) if len(vectors.rows) <= _FEW_ROWS else results
        held = {slot: b.general(slot) for slot in kept}
        for slot, register in held.items():
            b.emit("mov", register, w.slot(slot))

        def place(slot: str) -> Variable:
            if slot in held:
                return held[slot]
            found = b.general(slot)
            b.emit("mov", found, w.slot(slot))
            return found

        def store(row: int, result: Variable) -> None:
            to = place(results[row])
            if late is not None:
                late.store(to, row, 0, result)
            else:
                b.emit("store_stream" if self.tile.stream else "store", b.at(to, index=across), result)

        b.label(top)
        vectors.write(store, {}, None)
        for slot in ahead:
            b.emit("prefetch", b.at(place(slot), _AHEAD, index=across))
        if late is not None:
            late.step()
        b.emit("cmp", across, w.slot("run_end"))
        b.emit("jump_less", top)
        if late is not None:
            late.rest()
        b.emit("mov", r.near, w.slot("entry"))

    def _edge(self, w: Workspace, vectors: _Vectors) -> None:
        """The vector of the entry at `near`, which padding reaches, or the end of a row."""
        b, last, start = w.b, Last(w, self.tile, 1), w.b.general("masks")
        b.emit("mov", start, b.at(w.r.near, BlockEntry.masks.offset))
        masks = {}
        for number, read in enumerate(self.tile.reads(w.geometry.lanes)):
            masks[read] = b.mask("lanes")
            b.emit("load_mask", masks[read], b.at(start, (1 + number) * mask_bytes(w)))

        def store(row: int, result: Variable) -> None:
            columns, to, stored = b.general("columns"), b.general("to"), b.fresh_label("before")
            b.emit("mov", columns, b.at(w.r.near, BlockEntry.columns.offset))
            b.emit("cmp", columns, 0)
            b.emit("jump_equal", stored)  # before the strip: even a store of nothing brings a line in
            b.emit("mov", to, w.slot(f"result{row}"))
            last.store(b.at(to, index=vectors.across), result)
            b.label(stored)

        vectors.write(store, masks, last.mask)


class _Vectors:
    """What is kept from vector to vector of a pair of rows, and a vector's products."""

    def __init__(self, w: Workspace, tile: ConvTile) -> None:
        self.w, self.tile = w, tile
        b, steps = w.b, len(column_groups(tile.kernel_columns)[0])
        #: Addresses of the image rows, bytes along them.
        self.rows = [b.general(f"row{number}") for number in range(pairs(tile.kernel_rows).image_rows)]
        self.across = b.general("across")
        self.reads = tile.reads(w.geometry.lanes)
        self.bias, self.watch = b.vector("bias"), b.vector("watch")
        b.emit("broadcast", self.bias, b.at(w.r.walk))
        b.emit("zero", self.watch)
        #: Of each step but the last what the vector before had, both rows.
        names = [f"before{step}_{row}" for step in range(1, steps) for row in range(2)]
        self.before = {name: b.vector(name) for name in names}
        #: Weights in registers, by their numbers.
        sides, registers = (
            (tile.kernel_rows, tile.kernel_columns),
            len(w.b.machine.register_class("vector").registers),
        )
        #: A vector's steps, in their order.
        self.steps = ordered(*sides, registers)[0]
        self.held = {1 + number: b.vector("weight") for number in held_products(*sides, registers)}
        for number, vector in self.held.items():
            b.emit("broadcast", vector, b.at(w.r.walk, 4 * number))

    def begin(self) -> None:
        """Before the first vector of a pair of rows."""
        self.w.b.emit("zero", self.across)
        for vector in self.before.values():
            self.w.b.emit("zero", vector)

    def tell(self) -> None:
        """What is not finite goes to `watched`."""
        b = self.w.b
        b.emit("or", self.watch, self.watch, watched(self.w))
        b.emit("store", watched(self.w), self.watch)

    def write(self, store: Store, masks: dict[int, Variable], wanted: Variable | None) -> None:
        """A vector of both rows: `store` gets them, then it goes on to the next. `masks`: of each reading, at
        an edge; `wanted`: the lanes that are results, None: all."""
        b, vectors = self.w.b, dict(self.before)
        for step in self.steps:
            self._write(step, vectors, masks)
        results = [vectors[name] for name in RESULTS]
        self._watch(results, wanted)
        for row, value in enumerate(results):
            math = BuilderMath(b, shared=0)
            store(row, activate_all(math, self.tile.epilogue, value, no_operand))
        b.emit("add", self.across, self.w.geometry.vector_bytes)

    def _write(self, step: Step, vectors: dict[str, Variable], masks: dict[int, Variable]) -> None:
        """A step; `vectors` are those that there are, by their names."""
        b, w = self.w.b, self.w
        result = vectors.get(step.result)
        if result is None:
            result = vectors[step.result] = b.vector(step.result)
        sources = [vectors[name] for name in step.sources]
        match step.kind:
            case "load":
                read = self.reads[step.group]
                place, mask = b.at(self.rows[step.number], 4 * read, index=self.across), masks.get(read)
                if mask is None:
                    b.emit("load", result, place)
                else:
                    b.emit("load_masked", result, place, mask)
            case "begin" | "multiply":
                weight = self.held.get(step.number) or b.at(w.r.walk, 4 * step.number, repeat=True)
                biased = step.kind == "begin" and step.result == BIASED
                if biased:
                    b.emit("move", result, self.bias)
                b.emit("mul" if step.kind == "begin" and not biased else "fma", result, sources[0], weight)
            case "add":
                b.emit("add", result, *sources)
            case "subtract":
                b.emit("sub", result, *sources)
            case "copy":
                b.emit("move", result, *sources)
            case "slide":
                b.emit("slide", result, *sources, w.geometry.lanes - 1)

    def _watch(self, results: Sequence[Variable], wanted: Variable | None) -> None:
        """x - x is 0 of what is finite, else NaN."""
        b, both = self.w.b, self.w.b.vector("both")
        b.emit("add", both, *results)
        b.emit("sub", both, both, both)
        if wanted is not None:
            nothing = b.vector("nothing")
            b.emit("zero", nothing)
            b.emit("select", both, wanted, both, nothing)
        b.emit("or", self.watch, self.watch, both)
