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
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.arguments import STREAM, chain_arguments, field_offset
from regweave.kernels.epilogue import Columns, Epilogue
from regweave.kernels.geometry import Panel
from regweave.kernels.places import InBlocks, Strided
from regweave.kernels.plan import ChainPlan
from regweave.kernels.scalars import Blocks, Rows
from regweave.kernels.stage import Ahead, Stage
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
        self._divide(w, done)
        b.label(image)
        w.copy_slot("next", "first")
        b.label(top)
        self._take_block(w, image_done)
        for stage in range(len(self.signature.epilogues)):
            self._set_stage(w, stage)
            self._call_stage(w, stage)
        b.emit("jump", top)
        b.label(image_done)
        if self.signature.block:
            self._next_image(w, image)
        b.label(done)
        b.emit("fence_stores")
        b.emit("return")
        return w.finish()

    # -- rows of this part --

    def _field(self, w: Workspace, args: Variable, name: str, index: int = 0) -> Memory:
        return w.b.at(args, field_offset(chain_arguments(self.signature), name, index))

    def _args(self, w: Workspace) -> Variable:
        args = w.b.general("arguments")
        w.b.emit("mov", args, w.slot("args"))
        return args

    def _divide(self, w: Workspace, done: str) -> None:
        """Slots first, last: this part's rows; block: rows per block, blocks as equal as tiles allow."""
        b, tile = w.b, self.plan.geometry.scalars
        args, part = b["args"], b["part"]
        b.emit("mov", w.slot("args"), args)
        scratch, value = b.general("scratch"), b.general("value")
        b.emit("imul", scratch, part, self.plan.scratch_bytes)
        b.emit("add", scratch, self._field(w, args, "scratch"))
        b.emit("mov", w.slot("scratch"), scratch)
        tiles, parts, six = b.general("tiles"), b.general("parts"), b.general("six")
        b.emit("mov", tiles, self._field(w, args, "rows"))
        b.emit("add", tiles, tile - 1)
        b.emit("mov", six, tile)
        b.emit("divide_unsigned", tiles, tiles, six)
        b.emit("mov", parts, self._field(w, args, "parts"))
        first, last = b.general("first"), b.general("last")
        b.emit("mov", first, tiles)
        b.emit("imul", first, part)
        b.emit("lea", last, b.at(first, index=tiles))
        b.emit("divide_unsigned", first, first, parts)
        b.emit("divide_unsigned", last, last, parts)
        b.emit("sub", last, first)
        b.emit("jump_less_equal", done)
        b.emit("mov", value, last)
        b.emit("imul", first, first, tile)
        b.emit("imul", last, last, tile)
        b.emit("add", last, first)
        b.emit("mov", tiles, self._field(w, args, "rows"))
        b.emit("min", last, tiles)
        b.emit("mov", w.slot("first"), first)
        b.emit("mov", w.slot("last"), last)
        self._set_block(w, value)
        if self.signature.block:
            b.emit("mov", value, self._field(w, args, "batch"))
            b.emit("cmp", value, 0)
            b.emit("jump_less_equal", done)
            b.emit("mov", w.slot("image"), 0)
            for name in self._image_fields():
                b.emit("mov", value, self._field(w, args, *name))
                b.emit("mov", w.slot(_image_slot(*name)), value)

    def _set_block(self, w: Workspace, tiles: Variable) -> None:
        """Slot block from the part's number of tiles: ceil(tiles / ceil(tiles / most)) tiles of rows."""
        b = w.b
        most = self.plan.block // self.plan.geometry.scalars
        divisor, blocks = b.general("divisor"), b.general("blocks")
        b.emit("lea", blocks, b.at(tiles, most - 1))
        b.emit("mov", divisor, most)
        b.emit("divide_unsigned", blocks, blocks, divisor)
        b.emit("add", tiles, blocks)
        b.emit("sub", tiles, 1)
        b.emit("divide_unsigned", tiles, tiles, blocks)
        b.emit("imul", tiles, tiles, self.plan.geometry.scalars)
        b.emit("mov", w.slot("block"), tiles)

    def _take_block(self, w: Workspace, image_done: str) -> None:
        """Slots begin and count: the next block of rows; `ahead` points to the input of the one after."""
        b, r = w.b, w.r
        begin, count, most = b.general("begin"), b.general("count"), b.general("most")
        b.emit("mov", begin, w.slot("next"))
        b.emit("mov", count, w.slot("last"))
        b.emit("sub", count, begin)
        b.emit("jump_less_equal", image_done)
        b.emit("mov", most, w.slot("block"))
        b.emit("min", count, most)
        b.emit("mov", w.slot("begin"), begin)
        b.emit("mov", w.slot("count"), count)
        b.emit("add", begin, count)
        b.emit("mov", w.slot("next"), begin)
        if not self.signature.block:
            args = self._args(w)
            b.emit("mov", r.ahead, begin)
            b.emit("imul", r.ahead, self._field(w, args, "x_pitch"))
            b.emit("add", r.ahead, self._field(w, args, "x"))

    # -- images (blocked) --

    def _image_fields(self) -> Iterator[tuple[str, int]]:
        yield ("x", 0)
        yield ("y", 0)
        for extra in range(self.signature.extra_inputs):
            yield ("extras", extra)

    def _next_image(self, w: Workspace, image: str) -> None:
        """Move the tensors' starts on by an image, and go on while there is one."""
        b, widths, block = w.b, self.signature.widths, self.signature.block
        args, number, step = self._args(w), b.general("number"), b.general("step")
        for name, index in self._image_fields():
            if name == "extras":
                width = next(
                    n for n, extras in zip(widths[1:], self.signature.extras, strict=True) if index in extras
                )
                pitch = w.slot("image_pitch")
            else:
                width = widths[0] if name == "x" else widths[-1]
                pitch = self._field(w, args, f"{name}_pitch")
            b.emit("imul", step, pitch, -(-width // block))
            w.advance_slot(_image_slot(name, index), step)
        b.emit("mov", number, w.slot("image"))
        b.emit("add", number, 1)
        b.emit("mov", w.slot("image"), number)
        b.emit("cmp", number, self._field(w, args, "batch"))
        b.emit("jump_less", image)

    # -- stages --

    def _set_stage(self, w: Workspace, stage: int) -> None:
        """All slots of a stage (see stage.py)."""
        b, widths = w.b, self.signature.widths
        args, value = self._args(w), b.general("value")
        blocked = bool(self.signature.block)
        if stage == 0:
            self._set_outer(w, args, "x", "source", "pitch")
            if blocked:
                b.emit("mov", value, self._field(w, args, "x_pitch"))
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
        b.emit("mov", value, self._field(w, args, "weights", stage))
        b.emit("mov", w.slot("panel"), value)
        indices = [e for e in self.signature.extras[stage] if e is not None]
        for t, index in enumerate(indices):
            self._set_extra(w, args, stage, t, index)

    def _set_outer(self, w: Workspace, args: Variable, name: str, slot: str, pitch_slot: str) -> None:
        """The place of the block's first row in x or y."""
        b = w.b
        begin, pitch = b.general("begin"), b.general("pitch")
        b.emit("mov", pitch, self._field(w, args, f"{name}_pitch"))
        b.emit("mov", w.slot(pitch_slot), pitch)
        if self.signature.block:
            b.emit("imul", begin, w.slot("begin"), 4 * self.signature.block)
            b.emit("add", begin, w.slot(_image_slot(name, 0)))
        else:
            b.emit("mov", begin, w.slot("begin"))
            b.emit("imul", begin, pitch)
            b.emit("add", begin, self._field(w, args, name))
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
            b.emit("imul", pitch, self._field(w, args, "rows"), 4 * block)
            b.emit("mov", w.slot("block_pitch"), pitch)
            b.emit("mov", w.slot("image_pitch"), pitch)
            b.emit("mov", w.slot("extra_pitch"), pitch)
        else:
            b.emit("add", begin, self._field(w, args, "extras", index))
            b.emit("mov", w.slot("extra_pitch"), 4 * width)
        b.emit("mov", w.slot(f"extra{t}"), begin)

    def _call_stage(self, w: Workspace, stage: int) -> None:
        """Call the routines for the groups of equal panels; the last stage may stream its output."""
        b = w.b
        last = stage == len(self.signature.epilogues) - 1
        for routine, count in self._groups(stage, stream=False):
            b.emit("mov", w.slot("panels"), count)
            if not last:
                w.call(routine)
                continue
            plain, called = b.fresh_label("cached"), b.fresh_label("called")
            flags = b.general("flags")
            b.emit("mov", flags, self._field(w, self._args(w), "flags"))
            b.emit("test", flags, STREAM)
            b.emit("jump_zero", plain)
            w.call(Stage(**{**vars(routine), "stream": True}))
            b.emit("jump", called)
            b.label(plain)
            w.call(routine)
            b.label(called)

    def _groups(self, stage: int, *, stream: bool) -> Iterator[tuple[Stage, int]]:
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
                    stream=stream,
                    claim=last,
                    ahead=Ahead(plan.ahead, 1, apart=False)
                    if not signature.block
                    else Ahead(0, 0, apart=False),
                ),
                len(list(panels)),
            )


def _image_slot(name: str, index: int) -> str:
    return f"image_{name}{index}"
