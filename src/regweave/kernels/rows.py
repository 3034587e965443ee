"""The driver for rows of activations (MatMul, Gemm) and for blocked images: which rows, which stage, which
panel.

    part's rows = an equal share of the tiles of 6 rows
    for each image, for each block of these rows:
        for each stage: set the slots, call the stage's routine for each group of equal panels

Blocked images differ in three things only: rows are the pixels of one image after the other, the first
stage reads its scalars from blocks of channels, and the last one writes vectors into them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from regweave.assembly import Listing
from regweave.assembly.variables import Variable
from regweave.kernels.division import divide_up, open_scratch, share_rows, take_rows
from regweave.kernels.epilogue import Columns, Epilogue
from regweave.kernels.geometry import Panel
from regweave.kernels.places import InBlocks, Strided
from regweave.kernels.plan import ChainPlan
from regweave.kernels.scalars import Blocks, Rows
from regweave.kernels.stage import Ahead, Stage, call_last
from regweave.kernels.workspace import Workspace
from regweave.operators import Signature


@dataclass(frozen=True)
class RowsDriver:
    """Writes the kernel of a chain of order "rows" or "blocked"."""

    signature: Signature
    plan: ChainPlan

    def write(self, w: Workspace) -> Listing:
        """The whole kernel."""
        b = w.b
        image, top, image_done, done = (b.fresh_label(s) for s in ("image", "rows", "image_done", "done"))
        open_scratch(w, self.plan.scratch_bytes)
        tiles = share_rows(w, "rows")
        b.emit("cmp", tiles, 0)
        b.emit("jump_less_equal", done)
        self._set_block(w, tiles)
        if self.signature.block:
            self._first_image(w, done)
        b.label(image)
        w.copy_slot("next", "first")
        b.label(top)
        behind = take_rows(w, w.slot("block"), image_done)
        if not self.signature.block:
            self._look_ahead(w, behind)
        for stage in range(len(self.signature.epilogues)):
            self._set_stage(w, stage)
            self._call_stage(w, stage)
        b.emit("jump", top)
        b.label(image_done)
        if self.signature.block:
            self._next_image(w, image)
        b.label(done)
        return w.finish()

    def _set_block(self, w: Workspace, tiles: Variable) -> None:
        """Slot block: most rows of a block, such that the part's tiles make blocks as equal as possible."""
        b, most = w.b, self.plan.block // self.plan.geometry.scalars
        blocks = b.general("blocks")
        b.emit("mov", blocks, tiles)
        divide_up(w, blocks, most)
        b.emit("add", tiles, blocks)
        b.emit("sub", tiles, 1)
        b.emit("divide_unsigned", tiles, tiles, blocks)
        b.emit("imul", tiles, tiles, self.plan.geometry.scalars)
        b.emit("mov", w.slot("block"), tiles)

    def _look_ahead(self, w: Workspace, behind: Variable) -> None:
        """`ahead` = the input of the next block's first row."""
        b, r = w.b, w.r
        b.emit("mov", r.ahead, behind)
        b.emit("imul", r.ahead, w.field("x_pitch"))
        b.emit("add", r.ahead, w.field("x"))

    # -- images (blocked) --

    def _image_fields(self) -> Iterator[tuple[str, int]]:
        yield ("x", 0)
        yield ("y", 0)
        for extra in range(self.signature.extra_inputs):
            yield ("extras", extra)

    def _first_image(self, w: Workspace, done: str) -> None:
        """Slots image and image_<tensor>: the first image's number and where its tensors start."""
        b, value = w.b, w.b.general("value")
        b.emit("mov", value, w.field("batch"))
        b.emit("cmp", value, 0)
        b.emit("jump_less_equal", done)
        b.emit("mov", w.slot("image"), 0)
        for name, index in self._image_fields():
            b.emit("mov", value, w.field(name, index))
            b.emit("mov", w.slot(_image_slot(name, index)), value)

    def _next_image(self, w: Workspace, image: str) -> None:
        """Move the tensors' starts on by an image, and go on while there is one."""
        b, widths, block = w.b, self.signature.widths, self.signature.block
        args, number, step = _loaded_args(w), b.general("number"), b.general("step")
        for name, index in self._image_fields():
            if name == "extras":
                width = next(
                    n for n, extras in zip(widths[1:], self.signature.extras, strict=True) if index in extras
                )
                pitch = w.slot("image_pitch")
            else:
                width = widths[0] if name == "x" else widths[-1]
                pitch = w.field(f"{name}_pitch", args=args)
            b.emit("imul", step, pitch, -(-width // block))
            w.advance_slot(_image_slot(name, index), step)
        b.emit("mov", number, w.slot("image"))
        b.emit("add", number, 1)
        b.emit("mov", w.slot("image"), number)
        b.emit("cmp", number, w.field("batch", args=args))
        b.emit("jump_less", image)

    # -- stages --

    def _set_stage(self, w: Workspace, stage: int) -> None:
        """All slots of a stage (see stage.py)."""
        b, widths = w.b, self.signature.widths
        args, value = _loaded_args(w), b.general("value")
        blocked = bool(self.signature.block)
        if stage == 0:
            self._set_outer(w, args, "x", "source", "pitch")
            if blocked:
                b.emit("mov", value, w.field("x_pitch", args=args))
                b.emit("sub", value, 4 * self.signature.block)
                b.emit("mov", w.slot("block_step"), value)
        else:
            self._set_buffer(w, stage - 1, "source", "pitch")
        if stage == len(widths) - 2:
            self._set_outer(w, args, "y", "out", "out_pitch")
            if blocked:
                w.copy_slot("block_pitch", "out_pitch")
        else:
            self._set_buffer(w, stage, "out", "out_pitch")
        b.emit("mov", w.slot("k"), widths[stage])
        b.emit("mov", value, w.field("weights", stage, args=args))
        b.emit("mov", w.slot("panel"), value)
        indices = [e for e in self.signature.extras[stage] if e is not None]
        for t, index in enumerate(indices):
            self._set_extra(w, args, stage, t, index)

    def _set_outer(self, w: Workspace, args: Variable, name: str, slot: str, pitch_slot: str) -> None:
        """The place of the block's first row in x or y."""
        b = w.b
        begin, pitch = b.general("begin"), b.general("pitch")
        b.emit("mov", pitch, w.field(f"{name}_pitch", args=args))
        b.emit("mov", w.slot(pitch_slot), pitch)
        if self.signature.block:
            b.emit("imul", begin, w.slot("begin"), 4 * self.signature.block)
            b.emit("add", begin, w.slot(_image_slot(name, 0)))
        else:
            b.emit("mov", begin, w.slot("begin"))
            b.emit("imul", begin, pitch)
            b.emit("add", begin, w.field(name, args=args))
        b.emit("mov", w.slot(slot), begin)

    def _set_buffer(self, w: Workspace, seam: int, slot: str, pitch_slot: str) -> None:
        """The buffer of the intermediate behind stage `seam`."""
        b = w.b
        place = b.general("place")
        b.emit("mov", place, w.slot("scratch"))
        if self.plan.buffers[seam % 2]:
            b.emit("add", place, self.plan.buffers[seam % 2])
        b.emit("mov", w.slot(slot), place)
        b.emit("mov", w.slot(pitch_slot), self.plan.pitches[seam])

    def _set_extra(self, w: Workspace, args: Variable, stage: int, t: int, index: int) -> None:
        """The place of the block's first row in an extra input."""
        b, width, block = w.b, self.signature.widths[stage + 1], self.signature.block
        begin, pitch = b.general("begin"), b.general("pitch")
        b.emit("imul", begin, w.slot("begin"), 4 * (block or width))
        if block:
            b.emit("add", begin, w.slot(_image_slot("extras", index)))
            b.emit("imul", pitch, w.field("rows", args=args), 4 * block)
            b.emit("mov", w.slot("block_pitch"), pitch)
            b.emit("mov", w.slot("image_pitch"), pitch)
            b.emit("mov", w.slot("extra_pitch"), pitch)
        else:
            b.emit("add", begin, w.field("extras", index, args=args))
            b.emit("mov", w.slot("extra_pitch"), 4 * width)
        b.emit("mov", w.slot(f"extra{t}"), begin)

    def _call_stage(self, w: Workspace, stage: int) -> None:
        """Call the routines for the groups of equal panels."""
        last = stage == len(self.signature.epilogues) - 1
        for routine, count in self._groups(stage):
            w.b.emit("mov", w.slot("panels"), count)
            call_last(w, routine) if last else w.call(routine)

    def _groups(self, stage: int) -> Iterator[tuple[Stage, int]]:
        """Routines and the number of consecutive panels each one does."""
        signature, g, plan = self.signature, self.plan.geometry, self.plan
        width, last = signature.widths[stage + 1], stage == len(signature.epilogues) - 1
        outer = InBlocks(signature.block) if signature.block else Strided()
        tensors = any(e is not None for e in signature.extras[stage])

        def kind(panel: Panel) -> tuple[int, Columns]:
            exact = last or (tensors and not signature.block)
            valid = width - panel.start if exact else panel.vectors * g.lanes
            return panel.vectors, Columns.of(g.lanes, panel.vectors, valid)

        for (vectors, columns), panels in groupby(plan.panels[stage], kind):
            yield (
                Stage(
                    scalars=Blocks(signature.block) if signature.block and stage == 0 else Rows(),
                    place=outer if last else Strided(),
                    extras=outer if tensors else Strided(),
                    epilogue=Epilogue(signature.epilogues[stage], by_vector=True),
                    widths=(vectors,),
                    pitch=vectors * g.vector_bytes,
                    columns=columns,
                    stream=False,
                    claim=last,
                    ahead=Ahead(plan.ahead, 1, apart=False)
                    if not signature.block
                    else Ahead(0, 0, apart=False),
                ),
                len(list(panels)),
            )


def _image_slot(name: str, index: int) -> str:
    return f"image_{name}{index}"


def _loaded_args(w: Workspace) -> Variable:
    args = w.b.general("arguments")
    w.b.emit("mov", args, w.slot("args"))
    return args
