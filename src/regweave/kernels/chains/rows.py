"""The driver for rows of activations (MatMul, Gemm) and for blocked images.

    part's rows = an equal share of the tiles of 6 rows
    for each image, for each block of these rows:
        for each stage: set the slots, call the stage's routine for each group of equal panels

Blocked images differ in three things only: rows are the pixels of one image after the other, the first
stage reads its scalars from blocks of channels, and the last one writes vectors into them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from regweave.assembly import Listing
from regweave.assembly.variables import Variable
from regweave.kernels.chains.plan import ChainPlan
from regweave.kernels.chains.rowslots import RowSlots
from regweave.kernels.chains.scalars import Blocks, Rows
from regweave.kernels.chains.seventiles import OperandSums, SevenTiles
from regweave.kernels.chains.stage import Ahead, Stage, call_last
from regweave.kernels.common.division import (
    divide_up,
    open_scratch,
    share_rows,
    share_rows_or_panels,
    take_rows,
)
from regweave.kernels.common.epilogue import Columns, Epilogue
from regweave.kernels.common.geometry import Panel
from regweave.kernels.common.places import InBlocks, Strided
from regweave.kernels.common.workspace import Workspace
from regweave.operators import Signature
from regweave.values import frozen


@frozen
class RowsDriver:
    """Writes the kernel of a chain of order "rows" or "blocked"."""

    signature: Signature
    plan: ChainPlan

    def write(self, w: Workspace) -> Listing:
        """The whole kernel."""
        b = w.b
        image, top, image_done, done = (b.fresh_label(s) for s in ("image", "rows", "image_done", "done"))
        open_scratch(w, self.plan.scratch_bytes)
        self._set_block(w, self._share(w, done))
        if self.signature.block:
            self._slots.first_image(w, done)
        b.label(image)
        w.copy_slot("next", "first")
        b.label(top)
        behind = take_rows(w, w.slot("block"), image_done)
        if not self.signature.block:
            self._look_ahead(w, behind)
        for stage in range(len(self.signature.epilogues)):
            self._slots.set_stage(w, stage)
            if self.plan.seven[stage]:
                self._call_seven(w, stage)
            else:
                self._call_stage(w, stage)
        b.emit("jump", top)
        b.label(image_done)
        if self.signature.block:
            self._slots.next_image(w, image)
        b.label(done)
        return w.finish()

    @property
    def _slots(self) -> RowSlots:
        return RowSlots(self.signature, self.plan)

    @property
    def _single(self) -> bool:
        """Whether panels can be divided over parts: nothing but the result depends on them."""
        return len(self.signature.epilogues) == 1 and not self.signature.block

    def _share(self, w: Workspace, done: str) -> Variable:
        """The part's rows (slots first, last) and their tiles; of a single product maybe its panels."""
        b = w.b
        if self._single:
            panels = b.general("panels")
            b.emit("mov", panels, len(self.plan.panels[0]))
            return share_rows_or_panels(w, "rows", panels, done)
        tiles = share_rows(w, "rows")
        b.emit("cmp", tiles, 0)
        b.emit("jump_less_equal", done)
        return tiles

    def _set_block(self, w: Workspace, tiles: Variable) -> None:
        """Slot block: most rows of a block, such that the part's tiles make blocks as equal as possible."""
        b, most = w.b, self.plan.block // self.plan.geometry.scalars
        blocks = b.general("blocks")
        b.emit("mov", blocks, tiles)
        divide_up(w, blocks, most)
        b.emit("add", tiles, blocks)
        b.emit("sub", tiles, 1)
        b.emit("divide_unsigned", tiles, tiles, blocks)
        if any(self.plan.seven):  # whole pairs of tiles
            b.emit("add", tiles, 1)
            b.emit("and", tiles, -2)
        b.emit("imul", tiles, tiles, self.plan.geometry.scalars)
        b.emit("mov", w.slot("block"), tiles)

    def _look_ahead(self, w: Workspace, behind: Variable) -> None:
        """`ahead` = the input of the next block's first row."""
        b, r = w.b, w.r
        b.emit("mov", r.ahead, behind)
        b.emit("imul", r.ahead, w.field("x_pitch"))
        b.emit("add", r.ahead, w.field("x"))

    def _call_stage(self, w: Workspace, stage: int) -> None:
        """Call the routines for the groups of equal panels."""
        last = stage == len(self.signature.epilogues) - 1
        if self._single:
            self._skip_panels(w)
        start = 0
        for routine, count in self._groups(stage):
            skip = w.b.fresh_label("not_mine")
            if self._single:
                self._mine(w, start, start + count, skip)
            else:
                w.b.emit("mov", w.slot("panels"), count)
            call_last(w, routine) if last else w.call(routine)
            if self._single:
                w.b.label(skip)
            start += count

    def _call_seven(self, w: Workspace, stage: int) -> None:
        """Products of halves for all pairs of tiles, then the rows that are left as they are.

        Where something was not finite the whole block is done again without halves.
        """
        b, g = w.b, self.plan.geometry
        again, done = b.fresh_label("not_by_seven"), b.fresh_label("stage_done")
        (k, n), epilogue = self.signature.widths[stage : stage + 2], self.signature.epilogues[stage]
        groups, value = b.general("groups"), b.general("value")
        w.copy_slot("block_rows", "count")
        b.emit("mov", groups, w.slot("count"))
        b.emit("mov", value, 2 * g.scalars)
        b.emit("divide_unsigned", groups, groups, value)
        b.emit("test", groups, groups)
        b.emit("jump_zero", again)
        b.emit("mov", w.slot("groups"), groups)
        b.emit("mov", value, w.slot("scratch"))
        b.emit("add", value, self.plan.operands)
        b.emit("mov", w.slot("operands"), value)
        scalars, place, extras = self._ends(stage)
        w.call(OperandSums(scalars, k))
        mark = w.kept_memory("mark", g.vector_bytes)
        nought = b.vector("nought")
        b.emit("zero", nought)
        b.emit("store", mark, nought)
        panels = self.plan.panels[stage]
        operands = Epilogue(epilogue, by_vector=True).channels
        w.advance_slot("panel", sum(p.vectors for p in panels) * g.vector_bytes * (k + operands))
        for vectors, cut in groupby(panel.vectors for panel in g.panels(n // 2)):
            b.emit("mov", w.slot("panels"), len(list(cut)))
            w.call(SevenTiles(k, n, vectors, place, extras, Epilogue(epilogue, by_vector=True)))
        self._slots.set_stage(w, stage)
        b.emit("mov", value, mark)
        for offset in range(8, g.vector_bytes, 8):
            b.emit("or", value, mark + offset)
        b.emit("test", value, value)
        b.emit("jump_nonzero", again)
        b.emit("imul", groups, w.slot("groups"), 2 * g.scalars)
        b.emit("mov", value, w.slot("count"))
        b.emit("sub", value, groups)
        b.emit("jump_zero", done)
        b.emit("mov", w.slot("count"), value)
        self._slots.skip_rows(w, stage, groups)
        b.label(again)
        self._call_stage(w, stage)
        b.label(done)
        w.copy_slot("count", "block_rows")

    def _ends(self, stage: int) -> tuple[Rows | Blocks, Strided | InBlocks, Strided | InBlocks]:
        """Where a stage's scalars, its results and its extra tensors lie."""
        block = self.signature.block
        outer = InBlocks(block) if block else Strided()
        last = stage == len(self.signature.epilogues) - 1
        tensors = any(e is not None for e in self.signature.extras[stage])
        return (
            Blocks(block) if block and stage == 0 else Rows(),
            outer if last else Strided(),
            outer if tensors else Strided(),
        )

    def _skip_panels(self, w: Workspace) -> None:
        """Move the slots from the first panel to this part's first one; all before it are full panels."""
        b, g = w.b, self.plan.geometry
        (epilogue,), step = self.signature.epilogues, b.general("step")
        operands = Epilogue(epilogue, by_vector=True).channels
        b.emit("imul", step, w.slot("first_panel"), g.panel_bytes * (self.signature.widths[0] + operands))
        w.advance_slot("panel", step)
        b.emit("imul", step, w.slot("first_panel"), g.panel_bytes)
        for name in ("out", *(f"extra{t}" for t in range(Epilogue(epilogue, by_vector=True).tensors))):
            w.advance_slot(name, step)

    def _mine(self, w: Workspace, start: int, stop: int, skip: str) -> None:
        """Slot panels: how many of the panels start .. stop-1 are this part's; to `skip` if none."""
        b = w.b
        first, last, bound = b.general("first"), b.general("last"), b.general("bound")
        b.emit("mov", first, w.slot("first_panel"))
        b.emit("mov", bound, start)
        b.emit("max", first, bound)
        b.emit("mov", last, w.slot("last_panel"))
        b.emit("mov", bound, stop)
        b.emit("min", last, bound)
        b.emit("sub", last, first)
        b.emit("jump_less_equal", skip)
        b.emit("mov", w.slot("panels"), last)

    def _groups(self, stage: int) -> Iterator[tuple[Stage, int]]:
        """Routines and the number of consecutive panels each one does."""
        signature, g, plan = self.signature, self.plan.geometry, self.plan
        width, last = signature.widths[stage + 1], stage == len(signature.epilogues) - 1
        scalars, place, extras = self._ends(stage)
        tensors = any(e is not None for e in signature.extras[stage])

        def kind(panel: Panel) -> tuple[int, Columns]:
            exact = last or (tensors and not signature.block)
            valid = width - panel.start if exact else panel.vectors * g.lanes
            return panel.vectors, Columns.of(g.lanes, panel.vectors, valid)

        for (vectors, columns), panels in groupby(plan.panels[stage], kind):
            yield (
                Stage(
                    scalars=scalars,
                    place=place,
                    extras=extras,
                    epilogue=Epilogue(signature.epilogues[stage], by_vector=True),
                    widths=(vectors,),
                    pitch=vectors * g.vector_bytes,
                    columns=columns,
                    stream=False,
                    claim=last,
                    ahead=Ahead(0 if signature.block else plan.ahead, 1, apart=False),
                    following=self._following(vectors),
                ),
                len(list(panels)),
            )

    def _following(self, vectors: int) -> int:
        """Bytes from one panel to the next, where weights come from beyond the core's own cache for few rows:
        for those of a single product. (A chain's, fetched again for each block, gained nothing.)"""
        (k, n, *more), g = self.signature.widths, self.plan.geometry
        if more or 4 * k * n <= g.cache_bytes:
            return 0
        operands = Epilogue(self.signature.epilogues[0], by_vector=True).channels
        return vectors * g.vector_bytes * (k + operands)
