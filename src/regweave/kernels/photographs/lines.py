"""A line: the pixels of a row that a segment reads, as f32, with what stands for those beyond the row's ends.

    row      ........|p q r s t ...                       the row begins at p
    line     r q p p |p q r s t ...                       `left` elements, the segment, `right` elements

The row's own elements are converted by vectors, the last one overlapping; the others one by one, from where
a table says, which is for every row alike. Both are few beside the segment's.
"""

from __future__ import annotations

from collections.abc import Callable

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.photographs.floats import FloatPixels
from regweave.kernels.photographs.weighted import SEGMENT, WeightedFilter

#: Bytes: so far ahead of where it is read, a row is asked for.
AHEAD = 256
_FLOAT, _ADDRESS = 4, 8


class Slots:
    """What a kernel keeps on the stack, by name."""

    def __init__(self, b: Builder, names: tuple[str, ...]) -> None:
        self.b = b
        self.places = {name: b.stack(_ADDRESS) for name in names}

    def __getitem__(self, name: str) -> Memory:
        return self.places[name]

    def read(self, name: str) -> Variable:
        """A register with its value."""
        found = self.b.general(name)
        self.b.emit("mov", found, self.places[name])
        return found


def loop(b: Builder, stem: str, body: Callable[[], None], again: Callable[[str], None]) -> None:
    """Writes a loop; `again` jumps to the label that it is given."""
    top = b.fresh_label(stem)
    b.emit("align", 32)
    b.label(top)
    body()
    again(top)


class Lines:
    """Writes code that makes lines: of the `row` of `rows` that its slots name, from `at` on."""

    def __init__(self, filter: WeightedFilter, pixels: FloatPixels, slots: Slots) -> None:
        self.b, self.filter, self.pixels, self.slots = pixels.b, filter, pixels, slots

    def make(self, line: Variable) -> None:
        """The row of number `row`, of the segment at `at`."""
        self._convert(line)
        self._beside(line)

    def reach(self) -> None:
        """The elements that the row has of those that a segment reads: from `begin`, the last vector of
        them at `end`."""
        b, filter = self.b, self.filter
        begin, nought = self.slots.read("at"), b.general("nought")
        end, length = b.general("end"), self.slots.read("length")
        b.emit("lea", end, b.at(begin, SEGMENT + filter.right))
        b.emit("min", end, length)
        b.emit("sub", end, self.pixels.lanes)
        b.emit("mov", self.slots["end"], end)
        b.emit("sub", begin, filter.left)
        b.emit("zero", nought)
        b.emit("max", begin, nought)
        b.emit("mov", self.slots["begin"], begin)

    def _source(self) -> Variable:
        b, row, rows = self.b, self.slots.read("row"), self.slots.read("rows")
        source = b.general("source")
        b.emit("mov", source, b.at(rows, index=row, scale=8))
        return source

    def _convert(self, line: Variable) -> None:
        """The row's own elements as f32, the last vector of them once more."""
        b, filter, size = self.b, self.filter, self.pixels.size
        source, at, end, to = (
            self._source(),
            self.slots.read("begin"),
            self.slots.read("end"),
            b.general("to"),
        )
        b.emit("mov", to, at)
        b.emit("sub", to, self.slots["at"])
        b.emit("lea", to, b.at(line, _FLOAT * filter.left, index=to, scale=_FLOAT))

        def some(place: Variable) -> None:
            b.emit("store", b.at(to), self.pixels.load(b.at(source, index=place, scale=size)))

        def body() -> None:
            some(at)
            b.emit("prefetch", b.at(source, AHEAD, index=at, scale=size))
            b.emit("add", at, self.pixels.lanes)
            b.emit("add", to, _FLOAT * self.pixels.lanes)

        def again(top: str) -> None:
            b.emit("cmp", at, end)
            b.emit("jump_less", top)

        loop(b, "convert", body, again)
        b.emit("sub", at, end)
        b.emit("shl", at, 2)
        b.emit("sub", to, at)
        some(end)

    def _beside(self, line: Variable) -> None:
        """Elements that lie beyond the row's ends."""
        b, filter = self.b, self.filter
        for count, first in ((filter.left, 0), (filter.right, filter.left)):
            if not count:
                continue
            # numbers of elements beyond: [n, more), the first of them at `to`
            n, more, to = b.general("n"), b.general("more"), b.general("to")
            if first:
                b.emit("mov", n, self.slots["length"])
                b.emit("sub", n, self.slots["at"])
                b.emit("lea", to, b.at(line, _FLOAT * filter.left, index=n, scale=_FLOAT))
                b.emit("mov", more, SEGMENT + filter.right)
                b.emit("sub", more, n)
                b.emit("zero", n)
            else:
                b.emit("mov", n, self.slots["at"])
                b.emit("mov", more, count)
                b.emit("mov", to, line)
            done, top = b.fresh_label("beside"), b.fresh_label("beyond")
            b.emit("cmp", n, more)
            b.emit("jump_greater_equal", done)
            source, borders, keep = self._source(), self.slots.read("borders"), self.slots.read("keep")
            b.label(top)
            place = b.general("place")
            b.emit("mov", place, b.at(borders, _ADDRESS * first, index=n, scale=8))
            self.pixels.element(b.at(to), b.at(source, index=place, scale=self.pixels.size), keep)
            b.emit("add", to, _FLOAT)
            b.emit("inc", n)
            b.emit("cmp", n, more)
            b.emit("jump_less", top)
            b.label(done)
