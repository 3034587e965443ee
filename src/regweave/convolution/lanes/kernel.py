"""The lane-level kernel of a convolution plan: outputs stay in registers from the bias to the store.

    for each channel of the group                          one loop
        for each image row that the thread's outputs read
            for each tap along the row
                the row's words                            one vector load, or a word per output
                for each output row and kernel row that meet here, each filter:  multiply-add

Small kernels are written out; where that would be too long, kernel rows become a loop, and then taps too.
Rows that were rearranged beforehand hold zeros for the padding and need no look at the border. Without that
the image itself is read: threads that lie inside it run the same code, and those at its border one that
checks each element. Blocks at the end of a row or column move inwards instead of computing less where
vectors are whole: what two of them compute is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from regweave.convolution.forms import phases
from regweave.convolution.lanes.packing import filter_blocks, filter_pitch
from regweave.convolution.lanes.reading import Border, Inside, channel_bytes, line_bytes
from regweave.convolution.lanes.steps import Steps
from regweave.convolution.plans.plan import WRITTEN_OUT
from regweave.programs import Memory, Program, ProgramBuilder, Value

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan

#: The most products that vectors write out where each element is asked for.
_WRITTEN_OUT_BORDER = 500


def convolve_program(plan: ConvPlan) -> Program:
    """The kernel: memories `x` (the image or its rearranged rows), `w`, `strip` (the first row) and `y`."""
    return _Convolve(plan).program()


class _Convolve(Steps):
    def __init__(self, plan: ConvPlan) -> None:
        self.plan, self.c = plan, plan.convolution
        self.ox, self.oy, self.oc = plan.outputs_per_thread
        self.vectors = plan.machine.kind == "vectors"
        self.lanes = plan.group[0] if self.vectors else plan.machine.lanes
        self.element, self.direct = plan.element, plan.form == "none"
        c, e = self.c, self.element
        self.line, self.channel = line_bytes(plan), channel_bytes(plan)
        self.taps = c.vertical.kernel * c.horizontal.kernel
        self.block = 4 * filter_pitch(plan) * (1 + c.group_channels * self.taps)
        sizes = {
            "x": c.batch * c.channels * self.channel,
            "w": c.groups * filter_blocks(plan) * self.block,
            "strip": 4,
            "y": c.batch * c.filters * c.vertical.outputs * c.horizontal.outputs * e,
        }
        threads = self.lanes if self.vectors else plan.group[0] * plan.group[1]
        memories = [Memory(name, "global", size) for name, size in sizes.items()]
        super().__init__(
            ProgramBuilder("convolve", self.lanes, memories=memories, warps=threads // self.lanes)
        )
        #: Blocks at the end of a row move inwards.
        self.shifted = self.vectors and c.horizontal.outputs >= plan.columns

    # -- where a thread is ---------------------------------------------------------------------------------

    def program(self) -> Program:
        b, c, plan = self.b, self.c, self.plan
        down, along, e = c.vertical, c.horizontal, self.element
        thread = b.step("thread")
        if self.vectors:
            across, below = thread, self.number(0)
        else:
            width = plan.group[0]
            across = b.step("and", (thread, self.number(width - 1)))
            below = b.step("shift_right", (thread, self.number(width.bit_length() - 1)))
        start = self.times(b.step("block", (), (), "x"), plan.columns)
        if self.shifted:
            start = self.at_most(start, along.outputs - plan.columns)
        self.column = self.add(start, self.times(across, 1 if self.vectors else self.ox))
        down_block, image_group, group, block = self.blocks()
        row = self.times(self.add(self.times(down_block, plan.group[1]), below), self.oy)
        row = self.at_most(row, plan.strip_rows - self.oy)
        (first,) = b.load("strip", self.number(0))
        out_row = self.add(first, row)
        deep = c.group_channels * self.channel
        self.image = self.times(image_group, deep)
        self.weights = self.times(self.add(self.times(group, filter_blocks(plan)), block), self.block)
        filters = self.at_most(self.times(block, self.oc), c.group_filters - self.oc)
        plane = self.add(self.times(image_group, c.group_filters), filters)
        line = self.add(self.times(plane, down.outputs), out_row)
        self.target = self.times(self.add(self.times(line, along.outputs), self.column), e)
        if not self.direct:
            place = self.add(self.times(row, down.stride * self.line), self.times(self.column, e))
            self.store(self.inside(self.add(self.image, place)))
            return b.finish()
        minus = self.number(-down.before), self.number(-along.before)
        self.first_row = self.add(self.times(out_row, down.stride), minus[0])
        begin = start if self.vectors else self.column
        group_first = self.add(self.times(begin, along.stride), minus[1])
        self.first_column = self.add(self.times(self.column, along.stride), minus[1])
        self.begin = group_first
        self.split(group_first)
        return b.finish()

    def blocks(self) -> tuple[Value, Value, Value, Value]:
        """(block of rows, image and group, group, block of filters) from the grid's y and z."""
        y, z = (self.b.step("block", (), (), axis) for axis in "yz")
        if self.vectors:
            # the filters of a block of rows follow one another while the rows are in a core's cache
            y, block = self.divided(y, filter_blocks(self.plan))
        else:
            z, block = self.divided(z, filter_blocks(self.plan))
        return y, z, self.divided(z, self.c.groups)[1], block

    def split(self, group_first: Value) -> None:
        """Threads inside the image, and those at its border."""
        c, b, e = self.c, self.b, self.element
        down = (self.oy - 1) * c.vertical.stride + c.vertical.span
        count = self.plan.columns if self.vectors else self.ox
        along = (count - 1) * c.horizontal.stride + c.horizontal.span
        places = c.vertical.size - down + 1, c.horizontal.size - along + 1
        padded = any(c.pads) or not self.shifted
        if min(places) < 1:
            self.store(self.border())
            return
        base = self.add(
            self.image,
            self.add(self.times(self.first_row, self.line), self.times(self.first_column, e)),
        )
        if not padded:
            self.store(self.inside(base))
            return
        one, zero = self.number(1), self.number(0)
        flag = self.choose(self.less(self.first_row, places[0]), one, zero)
        flag = self.choose(self.less(group_first, places[1]), flag, zero)
        with b.when(b.step("test", (flag,), (1,))):
            self.store(self.inside(base))
        with b.when(b.step("test", (b.step("xor", (flag, one)),), (1,))):
            self.store(self.border())

    # -- sums ----------------------------------------------------------------------------------------------

    @cached_property
    def pitch(self) -> int:
        return filter_pitch(self.plan)

    def load_weights(self, address: Value, offset: int) -> list[Value]:
        """The weights of a tap for all filters of the block."""
        size = 4 if self.vectors else 4 * min(4, self.pitch)
        words: list[Value] = []
        for at in range(0, 4 * self.pitch, size):
            words += self.b.load("w", address, size, offset + at)
        return [self.b.step("number", (word,)) for word in words[: self.oc]]

    def starts(self) -> list[Value]:
        """The accumulators, filter by filter, row by row, word by word: the bias each."""
        biases = self.load_weights(self.weights, 0)
        return [bias for bias in biases for _ in range(self.oy * self.ox)]

    def multiply(self, sums: list[Value], y: int, words: Sequence[Value], weights: Sequence[Value]) -> None:
        for o, weight in enumerate(weights):
            for x, word in enumerate(words):
                at = (o * self.oy + y) * self.ox + x
                sums[at] = self.b.step("multiply_add_f32", (word, weight, sums[at]))

    def inside(self, base: Value) -> list[Value]:
        """All sums of a thread none of whose elements is padding."""
        return self.sums(Inside(self.b, self.plan, base), WRITTEN_OUT)

    def border(self) -> list[Value]:
        """All sums of a thread that asks of each element whether the image has it."""
        place = self.begin if Border.whole(self.plan) else self.first_column
        reader = Border(self.b, self.plan, self.image, self.first_row, place)
        return self.sums(reader, _WRITTEN_OUT_BORDER if self.vectors else 0)

    def sums(self, reader: Inside | Border, most: int) -> list[Value]:
        """All sums of a thread; at most so many products are written out."""
        c, b = self.c, self.b
        first = self.add(self.weights, 4 * self.pitch)
        across = self.ox * self.oy * self.oc * c.horizontal.kernel
        with b.loop(c.group_channels, self.starts()) as loop:
            w = self.add(first, self.times(loop.index, 4 * self.pitch * self.taps))
            channel = reader.channel(loop.index)
            if self.plan.taps_at_once and across * c.vertical.kernel <= most:
                sums = self.written_out(channel, w, list(loop.values))
            else:
                sums = self.by_rows(channel, w, loop.values, whole=across <= most)
            loop.repeat(sums)
        return list(loop.results)

    def written_out(self, reader: Inside | Border, w: Value, sums: list[Value]) -> list[Value]:
        down, columns = self.c.vertical, self.c.horizontal.kernel
        meets: dict[int, list[tuple[int, int]]] = {}
        for y in range(self.oy):
            for tap in range(down.kernel):
                meets.setdefault(y * down.stride + tap * down.dilation, []).append((y, tap))
        for line in sorted(meets):
            known: dict[int, Value] = {}
            for column in range(columns):
                words = reader.words(line, column, known)
                for y, row in meets[line]:
                    weights = self.load_weights(w, 4 * self.pitch * (row * columns + column))
                    self.multiply(sums, y, words, weights)
        return sums

    def by_rows(
        self, reader: Inside | Border, w: Value, sums: Sequence[Value], *, whole: bool
    ) -> list[Value]:
        """A loop over kernel rows; taps are written out if `whole`, else looped over too."""
        c, b = self.c, self.b
        columns = c.horizontal.kernel
        with b.loop(c.vertical.kernel, sums) as loop:
            row = reader.down(loop.index)
            weights = self.add(w, self.times(loop.index, 4 * self.pitch * columns))
            values = list(loop.values)
            if whole:
                for tap in range(columns):
                    held = self.load_weights(weights, 4 * self.pitch * tap)
                    self.all_rows(row, tap, held, values)
            else:
                for first, count, step, reach in self.runs():
                    values = self.by_taps(row, weights, values, first, count, step, reach)
            loop.repeat(values)
        return list(loop.results)

    def runs(self) -> list[tuple[int, int, int, int]]:
        """Taps whose elements lie evenly: (first, count, taps from one to the next, elements likewise)."""
        axis = self.c.horizontal
        if self.direct:
            return [(0, axis.kernel, 1, axis.dilation)]
        if self.plan.form == "unrolled":
            return [(0, axis.kernel, 1, self.plan.pitch)]
        apart = phases(axis)
        reach = apart * axis.dilation // axis.stride
        return [(tap, -(-(axis.kernel - tap) // apart), apart, reach) for tap in range(self.plan.planes)]

    def by_taps(
        self,
        reader: Inside | Border,
        w: Value,
        sums: Sequence[Value],
        first: int,
        count: int,
        step: int,
        reach: int,
    ) -> list[Value]:
        with self.b.loop(count, sums) as loop:
            weights = self.add(w, self.times(loop.index, 4 * self.pitch * step))
            values = list(loop.values)
            held = self.load_weights(weights, 4 * self.pitch * first)
            self.all_rows(reader.along(loop.index, reach), first, held, values)
            loop.repeat(values)
        return list(loop.results)

    def all_rows(
        self, reader: Inside | Border, tap: int, weights: Sequence[Value], sums: list[Value]
    ) -> None:
        for y in range(self.oy):
            self.multiply(sums, y, reader.words(y * self.c.vertical.stride, tap, {}), weights)

    # -- results -------------------------------------------------------------------------------------------

    def store(self, sums: Sequence[Value]) -> None:
        c, b, e = self.c, self.b, self.element
        along, rows = c.horizontal.outputs, c.vertical.outputs
        whole = not self.vectors and self.ox in (2, 4, 8) and along % self.ox == 0
        apart = self.lanes if self.vectors else 1
        for x in range(0, self.ox, self.ox if whole else 1):
            if self.shifted:
                self.store_words(sums, x, apart, whole=False)
                continue
            with b.when(self.less(self.add(self.column, x * apart), along)):
                self.store_words(sums, x, apart, whole=whole)
        assert rows * along * e, "sizes are at least 1"

    def store_words(self, sums: Sequence[Value], x: int, apart: int, *, whole: bool) -> None:
        c, e = self.c, self.element
        along, rows = c.horizontal.outputs, c.vertical.outputs
        for o in range(self.oc):
            for y in range(self.oy):
                at = (o * self.oy + y) * self.ox + x
                held = sums[at : at + self.ox] if whole else sums[at : at + 1]
                offset = ((o * rows + y) * along + x * apart) * e
                self.store_run(held, offset)

    def store_run(self, held: Sequence[Value], offset: int) -> None:
        b, e = self.b, self.element
        if e == 4:
            words = [b.step("bits", (value,)) for value in held]
        elif len(held) == 1:
            words = [b.step("pack_f16", (held[0], b.step("number", (self.number(0),))))]
        else:
            words = [b.step("pack_f16", pair) for pair in zip(held[::2], held[1::2], strict=True)]
        size, most = e * len(held), 16
        if size <= most:
            b.store("y", self.target, words, size, offset)
            return
        for at in range(0, len(words), 4):
            b.store("y", self.target, words[at : at + 4], most, offset + 4 * at)
