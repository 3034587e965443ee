"""The driver for images stored channel by channel (1x1 convolution, NCHW): the vectors are pixels.

    part's panels = an equal share of the panels of 64 pixels of all images
    for each of them:
        copy its K0 x 64 pixels to scratch memory
        for each stage: set the slots, call the stage's routine; its scalars are the packed weights

The copy costs 2 / N of the product and pays twice: the tile is read again for every 6 channels and must not
depend on the image's row pitch (a power of two would put all of it into one set of the cache), and the last
panel of an image, which is narrower, is read through a mask once instead of in every product loop.
"""

from __future__ import annotations

from regweave.assembly import Listing
from regweave.assembly.variables import Variable
from regweave.kernels.chains.copies import CopyNarrow, CopyWhole
from regweave.kernels.chains.plan import ChainPlan
from regweave.kernels.chains.scalars import Packed
from regweave.kernels.chains.stage import Ahead, Stage, call_last
from regweave.kernels.common.division import divide_up, open_scratch, share
from regweave.kernels.common.epilogue import Columns, Epilogue
from regweave.kernels.common.places import Strided
from regweave.kernels.common.workspace import Workspace
from regweave.operators import Signature
from regweave.values import frozen


@frozen
class PixelsDriver:
    """Writes the kernel of a chain of order "pixels"."""

    signature: Signature
    plan: ChainPlan

    def write(self, w: Workspace) -> Listing:
        """The whole kernel."""
        b = w.b
        top, done = b.fresh_label("panel"), b.fresh_label("done")
        narrow, next_panel = b.fresh_label("narrow"), b.fresh_label("next")
        open_scratch(w, self.plan.scratch_bytes)
        b.emit("mov", w.slot("k0"), self.signature.widths[0])
        self._divide(w, done)
        b.label(top)
        self._take_panel(w)
        rest = b.general("rest")
        b.emit("mov", rest, w.slot("pixels"))
        b.emit("cmp", rest, self.plan.geometry.columns)
        b.emit("jump_less", narrow)
        w.call(CopyWhole())
        self._run_stages(w, narrow=False)
        b.emit("jump", next_panel)
        b.label(narrow)
        self._set_narrow(w)
        w.call(CopyNarrow())
        self._run_stages(w, narrow=True)
        b.label(next_panel)
        self._next_panel(w, top)
        b.label(done)
        return w.finish()

    def _divide(self, w: Workspace, done: str) -> None:
        """Slots todo (panels of this part), image and pixel (where they start)."""
        b, columns = w.b, self.plan.geometry.columns
        args = b["args"]
        each, panels, image, value = (b.general(s) for s in ("each", "panels", "image", "value"))
        b.emit("mov", each, w.field("rows", args=args))
        divide_up(w, each, columns)
        b.emit("mov", panels, w.field("batch", args=args))
        b.emit("imul", panels, each)
        b.emit("cmp", panels, 0)
        b.emit("jump_less_equal", done)
        first, last = share(w, panels)
        b.emit("sub", last, first)
        b.emit("jump_less_equal", done)
        b.emit("mov", w.slot("todo"), last)
        b.emit("divide_unsigned", image, first, each)
        b.emit("mov", w.slot("image"), image)
        b.emit("mov", value, image)
        b.emit("imul", value, each)
        b.emit("sub", first, value)
        b.emit("imul", first, first, columns)
        b.emit("mov", w.slot("pixel"), first)

    def _take_panel(self, w: Workspace) -> None:
        """Slots x_here, y_here, stage<s>_extra<t>: the panel's first pixel; pixels: how many remain."""
        b, r, widths = w.b, w.r, self.signature.widths
        args, where = b.general("arguments"), b.general("where")
        b.emit("mov", args, w.slot("args"))
        for name, width in (("x", widths[0]), ("y", widths[-1])):
            b.emit("mov", where, w.field(f"{name}_pitch", args=args))
            b.emit("mov", w.slot(f"{name}_pitch"), where)
            b.emit("imul", where, where, width)
            b.emit("imul", where, w.slot("image"))
            b.emit("add", where, w.field(name, args=args))
            self._add_pixel(w, where)
            b.emit("mov", w.slot(f"{name}_here"), where)
            if name == "x":
                b.emit("lea", r.ahead, b.at(where, self.plan.geometry.panel_bytes))
        pitch = b.general("pitch")
        b.emit("mov", pitch, w.field("rows", args=args))
        pixels = b.general("pixels")
        b.emit("mov", pixels, pitch)
        b.emit("sub", pixels, w.slot("pixel"))
        b.emit("mov", w.slot("pixels"), pixels)
        for stage, extras in enumerate(self.signature.extras):
            used = [e for e in extras if e is not None]
            if used:
                self._set_pitch(w, args, stage, used[0])
            for t, index in enumerate(used):
                b.emit("mov", pitch, w.slot(f"stage{stage}_pitch"))
                b.emit("imul", where, pitch, widths[stage + 1])
                b.emit("imul", where, w.slot("image"))
                b.emit("add", where, w.field("extras", index, args=args))
                self._add_pixel(w, where)
                b.emit("mov", w.slot(f"stage{stage}_extra{t}"), where)

    def _set_pitch(self, w: Workspace, args: Variable, stage: int, extra: int) -> None:
        """Slot stage<s>_pitch: what is given, or that of contiguous channels."""
        b, given, pitch = w.b, w.b.fresh_label("pitch_given"), w.b.general("given")
        b.emit("mov", pitch, w.field("pitches", extra, args=args))
        b.emit("test", pitch, pitch)
        b.emit("jump_nonzero", given)
        b.emit("mov", pitch, w.field("rows", args=args))
        b.emit("shl", pitch, 2)
        b.label(given)
        b.emit("mov", w.slot(f"stage{stage}_pitch"), pitch)

    def _add_pixel(self, w: Workspace, where: Variable) -> None:
        pixel = w.b.general("pixel")
        w.b.emit("mov", pixel, w.slot("pixel"))
        w.b.emit("lea", where, w.b.at(where, index=pixel, scale=4))

    def _next_panel(self, w: Workspace, top: str) -> None:
        """Go on with the panel behind this one, in the next image if this one ends."""
        b = w.b
        same, count, pixel = b.fresh_label("same_image"), b.general("count"), b.general("pixel")
        b.emit("mov", pixel, w.slot("pixel"))
        b.emit("add", pixel, self.plan.geometry.columns)
        b.emit("cmp", pixel, w.field("rows"))
        b.emit("jump_less", same)
        b.emit("mov", count, w.slot("image"))
        b.emit("add", count, 1)
        b.emit("mov", w.slot("image"), count)
        b.emit("zero", pixel)
        b.label(same)
        b.emit("mov", w.slot("pixel"), pixel)
        w.repeat(top, "todo", count)

    def _set_narrow(self, w: Workspace) -> None:
        """Slots of a narrow panel of `pixels` pixels: vectors, and the whole and partial ones among them."""
        b, g = w.b, self.plan.geometry
        value, rest = b.general("value"), b.general("rest")
        b.emit("mov", value, w.slot("pixels"))
        b.emit("mov", rest, value)
        b.emit("and", rest, g.lanes - 1)
        b.emit("mov", w.slot("rest"), rest)
        b.emit("sub", value, rest)
        b.emit("shl", value, 2)
        b.emit("mov", w.slot("whole_bytes"), value)
        b.emit("mov", value, w.slot("pixels"))
        b.emit("add", value, g.lanes - 1)
        b.emit("shr", value, g.lanes.bit_length() - 1)
        b.emit("mov", w.slot("vectors"), value)
        b.emit("shl", value, g.vector_bytes.bit_length() - 1)
        b.emit("mov", w.slot("covered_bytes"), value)

    # -- stages --

    def _run_stages(self, w: Workspace, *, narrow: bool) -> None:
        b, plan, widths = w.b, self.plan, self.signature.widths
        final = len(widths) - 2
        place = b.general("place")
        for stage in range(final + 1):
            offset = plan.buffers[(stage - 1) % 2] if stage else 0
            b.emit("mov", place, w.slot("scratch"))
            if offset:
                b.emit("add", place, offset)
            b.emit("mov", w.slot("panel"), place)
            if stage == final:
                w.copy_slot("out", "y_here")
                w.copy_slot("out_pitch", "y_pitch")
            else:
                b.emit("mov", place, w.slot("scratch"))
                b.emit("add", place, plan.buffers[stage % 2])
                b.emit("mov", w.slot("out"), place)
                b.emit("mov", w.slot("out_pitch"), plan.pitches[stage])
            b.emit("mov", w.slot("k"), widths[stage])
            b.emit("mov", w.slot("count"), widths[stage + 1])
            b.emit("mov", place, w.field("weights", stage))
            b.emit("mov", w.slot("source"), place)
            extras = [e for e in self.signature.extras[stage] if e is not None]
            if extras:
                w.copy_slot("extra_pitch", f"stage{stage}_pitch")
            for t in range(len(extras)):
                w.copy_slot(f"extra{t}", f"stage{stage}_extra{t}")
            if narrow:
                w.copy_slot("full_bytes", "whole_bytes" if extras or stage == final else "covered_bytes")
            self._call_stage(w, stage, narrow)

    def _call_stage(self, w: Workspace, stage: int, narrow: bool) -> None:
        final = stage == len(self.signature.epilogues) - 1
        routine = self._routine(stage, final, narrow)
        call_last(w, routine) if final and not narrow else w.call(routine)

    def _routine(self, stage: int, final: bool, narrow: bool) -> Stage:
        g = self.plan.geometry
        epilogue = Epilogue(self.signature.epilogues[stage], by_vector=False)
        exact = final or epilogue.tensors > 0
        columns = Columns(g.vectors, ())
        if narrow:
            columns = Columns(None, None if exact else ())
        return Stage(
            scalars=Packed(epilogue.channels),
            place=Strided(),
            extras=Strided(),
            epilogue=epilogue,
            widths=tuple(range(1, g.vectors + 1)) if narrow else (g.vectors,),
            pitch=g.panel_bytes,
            columns=columns,
            stream=False,
            claim=final and not narrow,
            ahead=Ahead(0 if narrow else self.plan.ahead, g.panel_bytes // 64, apart=True),
        )
