"""Slots of a stage and of an image, for rows of activations and for blocked images (see stage.py, rows.py).

rows      x + row * pitch                    blocked   x of the image + row * block of channels
"""

from __future__ import annotations

from collections.abc import Iterator

from regweave.assembly.variables import Variable
from regweave.kernels.chains.plan import ChainPlan
from regweave.kernels.common.workspace import Workspace
from regweave.operators import Signature
from regweave.values import frozen


@frozen
class RowSlots:
    """Sets the slots of a chain of order "rows" or "blocked"; slots begin, scratch and args are there."""

    signature: Signature
    plan: ChainPlan

    def _image_fields(self) -> Iterator[tuple[str, int]]:
        yield ("x", 0)
        yield ("y", 0)
        for extra in range(self.signature.extra_inputs):
            yield ("extras", extra)

    def first_image(self, w: Workspace, done: str) -> None:
        """Slots image and image_<tensor>: the first image's number and where its tensors start."""
        b, value = w.b, w.b.general("value")
        b.emit("mov", value, w.field("batch"))
        b.emit("cmp", value, 0)
        b.emit("jump_less_equal", done)
        b.emit("mov", w.slot("image"), 0)
        for name, index in self._image_fields():
            b.emit("mov", value, w.field(name, index))
            b.emit("mov", w.slot(_image_slot(name, index)), value)

    def next_image(self, w: Workspace, image: str) -> None:
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

    def set_stage(self, w: Workspace, stage: int) -> None:
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

    def skip_rows(self, w: Workspace, stage: int, rows: Variable) -> None:
        """Move the slots of a stage that was just set past its first rows."""
        b, block = w.b, self.signature.block
        last = stage == len(self.signature.widths) - 2
        extras = [e for e in self.signature.extras[stage] if e is not None]
        places = [
            ("source", "pitch", stage == 0),
            ("out", "out_pitch", last),
            *((f"extra{t}", "extra_pitch", True) for t in range(len(extras))),
        ]
        for slot, pitch, outer in places:
            step = b.general("step")
            if outer and block:
                b.emit("imul", step, rows, 4 * block)
            else:
                b.emit("mov", step, rows)
                b.emit("imul", step, w.slot(pitch))
            w.advance_slot(slot, step)

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


def _image_slot(name: str, index: int) -> str:
    return f"image_{name}{index}"


def _loaded_args(w: Workspace) -> Variable:
    args = w.b.general("arguments")
    w.b.emit("mov", args, w.slot("args"))
    return args
