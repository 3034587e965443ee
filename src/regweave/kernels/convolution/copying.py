"""Elements of an image row, x_step bytes apart, to neighbouring places of a strip.

x_step 4     neighbours: vectors as they are, the last one through a mask
x_step 8     every other one (a phase at stride 2): two vectors are read, their even lanes are one vector; the
             last vector is made of the odd lanes of two that begin one element earlier and end with the last
             element that is wanted, so that nothing beyond it is read
otherwise    element by element
"""

from __future__ import annotations

from collections.abc import Sequence

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.workspace import Workspace


def copy_elements(w: Workspace, here: Variable, source: Variable, count: Variable) -> None:
    """`count` >= 1 elements from `source` to `here`; all three are changed."""
    b = w.b
    step = b.general("step")
    others, single, done = (b.fresh_label(s) for s in ("others", "single", "copied"))
    b.emit("mov", step, w.field("x_step"))
    b.emit("cmp", step, 4)
    b.emit("jump_not_equal", others)
    copy_neighbours(w, here, source, count, done)
    b.label(others)
    b.emit("cmp", step, 8)
    b.emit("jump_not_equal", single)
    _every_other(w, here, source, count, single, done)
    b.label(single)
    element = b.general("element")
    b.emit("mov32", element, b.at(source))
    b.emit("mov32", b.at(here), element)
    b.emit("add", source, step)
    b.emit("add", here, 4)
    b.emit("dec", count)
    b.emit("jump_nonzero", single)
    b.label(done)


def copy_neighbours(w: Workspace, here: Variable, source: Variable, count: Variable, done: str) -> None:
    """`count` >= 1 elements that lie side by side from `source` to `here`, then to `done`."""
    b, lanes, size = w.b, w.geometry.lanes, w.geometry.vector_bytes
    top, tail = b.fresh_label("vectors"), b.fresh_label("tail")
    value, mask = b.vector("value"), b.mask("rest")
    b.emit("sub", count, lanes)
    b.emit("jump_less", tail)
    b.label(top)
    b.emit("load", value, b.at(source))
    b.emit("store", b.at(here), value)
    b.emit("add", source, size)
    b.emit("add", here, size)
    b.emit("sub", count, lanes)
    b.emit("jump_greater_equal", top)
    b.label(tail)
    b.emit("add", count, lanes)
    b.emit("jump_equal", done)
    b.emit("mask_from_count", mask, count)
    b.emit("load_masked", value, b.at(source), mask)
    b.emit("store_masked", b.at(here), value, mask)
    b.emit("jump", done)


def _every_other(
    w: Workspace, here: Variable, source: Variable, count: Variable, single: str, done: str
) -> None:
    """By vectors; to `single`, with nothing done, where there are not more than fill one."""
    b, lanes, size = w.b, w.geometry.lanes, w.geometry.vector_bytes
    top = b.fresh_label("pairs")
    even, odd = Halves(w, (0,)), Halves(w, (1,))
    b.emit("cmp", count, lanes)
    b.emit("jump_less_equal", single)
    b.label(top)
    b.emit("store", b.at(here), _half(w, even, source, 0))
    b.emit("add", source, 2 * size)
    b.emit("add", here, size)
    b.emit("sub", count, lanes)
    b.emit("cmp", count, lanes)
    b.emit("jump_greater", top)
    b.emit("sub", count, lanes)  # so many elements, negative, back from here is where the last vector starts
    b.emit("lea", source, b.at(source, index=count, scale=8))
    b.emit("lea", here, b.at(here, index=count, scale=4))
    b.emit("store", b.at(here), _half(w, odd, source, -4))
    b.emit("jump", done)


def _half(w: Workspace, halves: Halves, source: Variable, offset: int) -> Variable:
    """The lanes of the two vectors from `offset` bytes behind `source` on."""
    low = w.b.vector("low")
    w.b.emit("load", low, w.b.at(source, offset))
    return halves.take(low, w.b.at(source, offset + w.geometry.vector_bytes))[0]


class Halves:
    """Of two vectors that follow each other in memory the even lanes (place 0) or the odd ones (1)."""

    def __init__(self, w: Workspace, places: Sequence[int]) -> None:
        self.w, self.places = w, places
        self.lanes: dict[int, Variable] = {}
        if w.b.machine.mask_class == "mask":
            for place in places:
                numbers = (place + 2 * lane for lane in range(w.geometry.lanes))
                self.lanes[place] = w.b.vector("lanes")
                content = b"".join(number.to_bytes(4, "little") for number in numbers)
                w.b.emit("load", self.lanes[place], w.b.data(content))

    def take(self, low: Variable, high: Variable | Memory) -> list[Variable]:
        """A vector for each place."""
        return [self.one(place, low, high) for place in self.places]

    def one(self, place: int, low: Variable, high: Variable | Memory | None) -> Variable:
        """The vector of one place; without `high` its lower half, of machines with masks of bits."""
        b, result = self.w.b, self.w.b.vector("half")
        if high is None:
            b.emit_template("vpermps %=0, %1, %2", result, self.lanes[place], low)
            return result
        if self.lanes:
            b.emit("move", result, self.lanes[place])
            b.emit_template("vpermi2ps %+0, %1, %2", result, low, high)
            return result
        # of each 128 bits: two of the low vector, two of the high one; then the middle quarters change places
        b.emit_template(f"vshufps %=0, %1, %2, {0x88 if place == 0 else 0xDD}", result, low, high)
        b.emit_template("vpermpd %=0, %1, 0xd8", result, result)
        return result
