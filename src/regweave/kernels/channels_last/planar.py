"""Results that are staged pixel by pixel go to planes, a square of pixels and filters at a time.

    stage[pixel][filter]  ->  y[filter][pixel]

Of 49 pixels lanes that are pixels fill 56; lanes that are filters are always full, and to turn the results
takes a hundredth of the time that they take.
"""

from __future__ import annotations

from regweave.kernels.blocks.reorders import transposed
from regweave.kernels.common.workspace import Workspace
from regweave.values import frozen


@frozen
class PlanarRows:
    """Routine: `vectors` vectors of filters of all pixels at slot `stage`, to planes from slot `result` on.

    There are as many pixels as lanes at least; the last square ends with them, and does some again.
    """

    vectors: int

    @property
    def stem(self) -> str:
        return f"planar_{self.vectors}"

    def write(self, w: Workspace) -> None:
        b, r, lanes, size = w.b, w.r, w.geometry.lanes, w.geometry.vector_bytes
        again, done = b.fresh_label("square"), b.fresh_label("planar_done")
        pixel, last, at = b.general("pixel"), b.general("last"), b.general("at")
        b.emit("mov", last, w.field("columns"))
        b.emit("sub", last, lanes)
        b.emit("mov", r.pitch, w.field("stage_pixel"))
        b.emit("mov", r.out_pitch, w.field("y_channel"))
        b.emit("zero", pixel)
        b.label(again)
        b.emit("mov", r.source, pixel)
        b.emit("imul", r.source, r.pitch)
        b.emit("add", r.source, w.slot("stage"))
        b.emit("imul", r.out, pixel, 4)
        b.emit("add", r.out, w.slot("result"))
        for v in range(self.vectors):
            b.emit("mov", at, r.source)
            rows = b.vectors("pixels", lanes)
            for number, row in enumerate(rows):
                if number:
                    b.emit("add", at, r.pitch)
                b.emit("load", row, b.at(at, v * size))
            for filters in transposed(b, rows):
                b.emit("store", b.at(r.out), filters)
                b.emit("add", r.out, r.out_pitch)
        b.emit("cmp", pixel, last)
        b.emit("jump_greater_equal", done)
        b.emit("add", pixel, lanes)
        b.emit("min", pixel, last)
        b.emit("jump", again)
        b.label(done)
        b.emit("ret")
