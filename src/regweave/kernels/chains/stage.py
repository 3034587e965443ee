"""One stage on one block: all tiles of all panels, product and epilogue.

    for each panel of vectors:                 slot panels
        for each tile of 6 scalars:            slot count
            products; epilogue; store
        the smaller tiles 4, 2, 1 for the rest

Stages with equal epilogues share the routine; what differs between them (K, pointers, pitches) stands in
slots:

    source  first scalar          k       steps            panel   first vector of the panel
    count   scalars in all        panels  panels to do     out     first result of the panel
    pitch, block_step, out_pitch, block_pitch, extra_pitch   see scalars and places
    extra<t>                      extra tensor t at the same place as `out`
    vectors, full_bytes, rest     panels whose width is known only at run time: see Columns
"""

from __future__ import annotations

from dataclasses import replace

from regweave.kernels.chains.products import SpilledProducts, emit_products
from regweave.kernels.chains.rowloop import RowLoop
from regweave.kernels.chains.scalars import Blocks, Packed, Rows
from regweave.kernels.common.arguments import STREAM
from regweave.kernels.common.epilogue import Columns, Epilogue, finish_tile
from regweave.kernels.common.places import InBlocks, Strided
from regweave.kernels.common.workspace import Workspace
from regweave.values import frozen


@frozen
class Ahead:
    """What each full tile asks for of the next block's input: `pieces` of `lines` lines.

    Pieces are slot `x_pitch` bytes apart, or follow each other if `apart` is false.
    """

    pieces: int
    lines: int
    apart: bool

    def emit(self, w: Workspace) -> None:
        """Ask, and move `ahead` on."""
        b, r = w.b, w.r
        for piece in range(self.pieces):
            for line in range(self.lines):
                b.emit("prefetch", b.at(r.ahead, 64 * (line if self.apart else piece * self.lines + line)))
            if self.apart:
                b.emit("add", r.ahead, w.slot("x_pitch"))
        if not self.apart and self.pieces:
            b.emit("add", r.ahead, 64 * self.lines * self.pieces)


@frozen
class Stage:
    """Routine: one stage on panels of one width.

    `widths`: the vectors of a panel; of several, slot `vectors` chooses one at run time, and all results
    take the row loop. `pitch`: bytes between two rows of the panel. `columns`: which lanes exist. `stream`:
    results go past the caches; else `claim` asks for their lines beforehand. `following`: bytes to the next
    panel, where that should be asked for during this one's first tiles, a line of each row in each tile; 0
    where all panels stay in the core's own cache. With `follows` they stand in slot `panel_step`, and the
    first tile asks for all of the next panel, whose rows are a line each. Epilogues by vector go on to the
    panels that follow; the others have one panel, and their packed weights are the scalars.
    """

    scalars: Rows | Packed | Blocks
    place: Strided | InBlocks
    extras: Strided | InBlocks
    epilogue: Epilogue
    widths: tuple[int, ...]
    pitch: int
    columns: Columns
    stream: bool
    claim: bool
    ahead: Ahead
    following: int = 0
    follows: bool = False

    @property
    def stem(self) -> str:
        return "stage"

    @property
    def _asks(self) -> bool:
        return self.follows or self.following > 0

    @property
    def _direct(self) -> bool:
        return self.epilogue.direct and len(self.widths) == 1

    def write(self, w: Workspace) -> None:
        b, r, g = w.b, w.r, w.geometry
        panel, six, tail, done = (b.fresh_label(stem) for stem in ("panel", "tile", "tail", "tiles_done"))
        b.label(panel)
        b.emit("mov", r.source, w.slot("source"))
        b.emit("mov", r.out, w.slot("out"))
        b.emit("mov", r.left, w.slot("count"))
        b.emit("mov", r.walk, w.slot("panel"))
        if self.follows:
            b.emit("mov", r.asked, w.slot("panel_step"))
        elif self.following:
            b.emit("mov", r.asked, self.following)
        for t in range(self.epilogue.tensors):
            w.copy_slot(f"extra{t}_here", f"extra{t}")
        b.emit("sub", r.left, g.scalars)
        b.emit("jump_less", tail)
        b.label(six)
        self._full_tile(w)
        if self.follows:
            b.emit("zero", r.asked)
        elif self.following:
            self._ask_further(w)
        b.emit("sub", r.left, g.scalars)
        b.emit("jump_greater_equal", six)
        b.label(tail)
        b.emit("add", r.left, g.scalars)
        b.emit("jump_zero", done)
        for count in g.tails:
            skip = b.fresh_label("no_tail")
            b.emit("cmp", r.left, count)
            b.emit("jump_less", skip)
            self._spilled_tile(w, count)
            b.emit("sub", r.left, count)
            b.label(skip)
        b.label(done)
        if self.epilogue.by_vector:
            self._next_panel(w, panel)
        b.emit("ret")

    def _full_tile(self, w: Workspace) -> None:
        self.ahead.emit(w)
        count = w.geometry.scalars
        if self.claim and not self.stream:
            self._claim(w, count)
        if not self._direct:
            self._spilled_tile(w, count)
            return
        ask = self._asks
        acc = emit_products(w, self.scalars, count, self.widths[0], self.pitch, ask=ask)
        self.place.prepare(w, count)
        finish_tile(w, self.epilogue, self.place, acc, self.columns, self.stream)
        self.place.next_tile(w, count)
        self.scalars.next_tile(w, count)

    def _ask_further(self, w: Workspace) -> None:
        """Go on to the next line of the rows of the panel that follows; behind the last one start at none."""
        b, r = w.b, w.r
        more = b.fresh_label("lines_left")
        b.emit("add", r.asked, 64)
        b.emit("cmp", r.asked, self.following + self.pitch)
        b.emit("jump_less", more)
        b.emit("zero", r.asked)
        b.label(more)

    def _claim(self, w: Workspace, count: int) -> None:
        """Ask for the lines that the tile will write, so that they are there when it is done."""
        self.place.prepare(w, count)
        size = w.geometry.vector_bytes
        for i in range(count):
            for j in range(0, self.widths[-1], max(1, 64 // size)):
                w.b.emit("prefetch_write", self.place.at(w, i, j))

    def _spilled_tile(self, w: Workspace, count: int) -> None:
        ask = self._asks and count == w.geometry.scalars
        w.call(SpilledProducts(self.scalars, count, self.widths, self.pitch, ask))
        w.b.emit("mov", w.r.steps, count)
        w.call(RowLoop(self.epilogue, self.place, self.extras, self.widths[-1], self.columns, self.stream))

    def _next_panel(self, w: Workspace, panel: str) -> None:
        """`walk` stands behind the weights of the panel: its operands follow, then the next panel."""
        b, r = w.b, w.r
        vectors = self.widths[0]
        operand_bytes = self.epilogue.channels * vectors * w.geometry.vector_bytes
        if operand_bytes:
            b.emit("add", r.walk, operand_bytes)
        b.emit("mov", w.slot("panel"), r.walk)
        further = self.place.next_panel(w, vectors)
        w.advance_slot("out", further)
        for t in range(self.epilogue.tensors):
            w.advance_slot(f"extra{t}", self.extras.next_panel(w, vectors))
        remaining = b.general("remaining")
        w.repeat(panel, "panels", remaining)


def call_last(w: Workspace, stage: Stage) -> None:
    """Call the last stage's routine: the one that writes past the caches if the flags ask for it."""
    b = w.b
    plain, called, flags = b.fresh_label("cached"), b.fresh_label("called"), b.general("flags")
    b.emit("mov", flags, w.field("flags"))
    b.emit("test", flags, STREAM)
    b.emit("jump_zero", plain)
    w.call(replace(stage, stream=True))
    b.emit("jump", called)
    b.label(plain)
    w.call(stage)
    b.label(called)
