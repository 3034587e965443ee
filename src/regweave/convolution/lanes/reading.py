"""Where a thread of the convolution kernel finds its words: inside the image, and at its border.

    reader.channel(2).down(1).along(1).words(line, tap, known)      # moved by the kernel's loops, then read

`Inside` has one address and adds to it. `Border` has a row and a place in it and asks of both whether the
image has them; zero stands for what it has not. Both are moved alike: one kernel is written for either.

    image row      a b c d e f g h i ...
    tap 0          . . a b c d e f          vectors: loaded where the row has them (a..h), moved over by a
    tap 1          . a b c d e f g          shuffle, what lies beyond the row is replaced by zeros
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regweave.convolution.forms import plane_of
from regweave.convolution.lanes.steps import Steps
from regweave.programs import ProgramBuilder, Value

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan


def line_bytes(plan: ConvPlan) -> int:
    """From an image row, or all that it was rearranged into, to the next."""
    elements = plan.convolution.horizontal.size if plan.form == "none" else plan.planes * plan.pitch
    return elements * plan.element


def channel_bytes(plan: ConvPlan) -> int:
    """From a channel of the image, or of the rearranged rows, to the next."""
    return line_bytes(plan) * (plan.convolution.vertical.size if plan.form == "none" else plan.strip_lines)


class Reader(Steps):
    """What both readers know: bytes of a row and of a channel, and a thread's words along the row."""

    def __init__(self, b: ProgramBuilder, plan: ConvPlan) -> None:
        super().__init__(b)
        self.plan, self.c, self.element = plan, plan.convolution, plan.element
        self.vectors, self.ox = plan.machine.kind == "vectors", plan.outputs_per_thread[0]
        self.step = plan.convolution.horizontal.stride if plan.form == "none" else 1
        self.line, self.channel_bytes = line_bytes(plan), channel_bytes(plan)

    def at(self, x: int) -> int:
        """Elements from a thread's word 0 to word x."""
        return x * self.step * (self.plan.group[0] if self.vectors else 1)

    def widened(self, word: Value, half: int) -> Value:
        """An element of a word as a number of 32 bits."""
        if self.element == 4:
            return self.b.step("number", (word,))
        if half:
            word = self.b.step("shift_right", (word, self.number(16)))
        return self.b.step("widen_f16", (word,))


class Inside(Reader):
    """Elements from `address` on, none of which is padding."""

    def __init__(self, b: ProgramBuilder, plan: ConvPlan, address: Value) -> None:
        super().__init__(b, plan)
        self.address = address
        #: Words of a thread lie side by side at whole vectors.
        self.wide = not self.vectors and plan.form == "unrolled" and self.ox > 1

    def _moved(self, number: Value, by: int) -> Inside:
        return Inside(self.b, self.plan, self.add(self.address, self.times(number, by)))

    def channel(self, number: Value) -> Inside:
        return self._moved(number, self.channel_bytes)

    def down(self, rows: Value) -> Inside:
        """Moved by rows of the kernel."""
        return self._moved(rows, self.c.vertical.dilation * self.line)

    def along(self, number: Value, elements: int) -> Inside:
        return self._moved(number, elements * self.element)

    def words(self, line: int, tap: int, known: dict[int, Value]) -> list[Value]:
        """A thread's words `line` rows further for one tap; `known` are those at other offsets in the row."""
        plane, place = plane_of(self.c.horizontal, self.plan.form, tap)
        offset = plane * self.plan.pitch * (self.plan.form != "none") + place
        e, start = self.element, line * self.line
        if self.wide:
            size = min(16, self.ox * e)
            places = range(start + offset * e, start + (offset + self.ox) * e, size)
            loaded = [word for at in places for word in self.b.load("x", self.address, size, at)]
            return [self.widened(word, half) for word in loaded for half in range(4 // e)]
        for x in range(self.ox):
            at = offset + self.at(x)
            if at not in known:
                known[at] = self.widened(self.b.load("x", self.address, e, start + at * e)[0], 0)
        return [known[offset + self.at(x)] for x in range(self.ox)]


class Border(Reader):
    """Elements of the image itself, in row `row` and from `place` on, zero where it has none.

    `image` is the address of the channel. `place` is that of the first lane where vectors are `whole`.
    """

    def __init__(self, b: ProgramBuilder, plan: ConvPlan, image: Value, row: Value, place: Value) -> None:
        super().__init__(b, plan)
        self.image, self.row, self.place = image, row, place
        self._rows: dict[int, tuple[Value, Value]] = {}
        self._places: dict[int, tuple[Value, Value, Value]] = {}

    @staticmethod
    def whole(plan: ConvPlan) -> bool:
        """Whether lanes read neighbours, of which the row has a vector."""
        axis = plan.convolution.horizontal
        return plan.machine.kind == "vectors" and axis.stride == 1 and axis.size >= plan.group[0]

    def _moved(self, image: Value, row: Value, place: Value) -> Border:
        return Border(self.b, self.plan, image, row, place)

    def channel(self, number: Value) -> Border:
        image = self.add(self.image, self.times(number, self.channel_bytes))
        return self._moved(image, self.row, self.place)

    def down(self, rows: Value) -> Border:
        """Moved by rows of the kernel."""
        row = self.add(self.row, self.times(rows, self.c.vertical.dilation))
        return self._moved(self.image, row, self.place)

    def along(self, number: Value, elements: int) -> Border:
        return self._moved(self.image, self.row, self.add(self.place, self.times(number, elements)))

    def words(self, line: int, tap: int, known: dict[int, Value]) -> list[Value]:
        """A thread's words `line` rows further for one tap; `known` are those at other offsets in the row."""
        _, offset = plane_of(self.c.horizontal, self.plan.form, tap)
        for x in range(self.ox):
            at = offset + self.at(x)
            if at not in known:
                known[at] = self._shifted(line, at) if self.whole(self.plan) else self._chosen(line, at)
        return [known[offset + self.at(x)] for x in range(self.ox)]

    def _shifted(self, line: int, at: int) -> Value:
        """The nearest vector that the row has, moved over by as many lanes."""
        row, end = self._row(line)
        near, lane, place = self._near(at)
        (word,) = self.b.load("x", self.add(row, near), self.element)
        word = self.b.step("bits", (self.widened(word, 0),))
        word = self.b.step("shuffle", (word, lane), (self.plan.group[0],))
        return self.b.step("number", (self.choose(self.less(place, end), word, self.number(0)),))

    def _chosen(self, line: int, at: int) -> Value:
        """A load of one element, of the row's first where it has no such place."""
        row, end = self._row(line)
        place, zero = self.add(self.place, at), self.number(0)
        there = self.less(place, end)
        address = self.add(row, self.times(self.choose(there, place, zero), self.element))
        (word,) = self.b.load("x", address, self.element)
        return self.widened(self.choose(there, word, zero), 0)

    def _row(self, line: int) -> tuple[Value, Value]:
        """The row's address, and how many elements it has: none where it is padding."""
        if line not in self._rows:
            row, zero = self.add(self.row, line), self.number(0)
            there = self.less(row, self.c.vertical.size)
            address = self.add(self.image, self.times(self.choose(there, row, zero), self.line))
            self._rows[line] = address, self.choose(there, self.number(self.c.horizontal.size), zero)
        return self._rows[line]

    def _near(self, at: int) -> tuple[Value, Value, Value]:
        """Of a vector `at` elements on: bytes to the nearest that a row has, its lanes, its places."""
        if at not in self._places:
            lane, place = self.b.step("thread"), self.add(self.place, at)
            last = self.c.horizontal.size - self.plan.group[0]
            near = self.choose(self.less(place, 1 << 31), self.number(last), self.number(0))
            near = self.choose(self.less(place, last), place, near)
            address = self.times(self.add(near, lane), self.element)
            place = self.add(place, lane)
            self._places[at] = address, self.subtract(place, near), place
        return self._places[at]
