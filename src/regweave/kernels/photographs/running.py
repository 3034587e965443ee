"""Means over many pixels (see `means`): what their kernels share, which is the way through rows and memory.

    part -> rows [first, last) of the result; sums V and P in memory of its own
    row  -> comes into V, the one a window's height before leaves; from the window's last row on
            V beyond the row, P along it, a row of results

How vectors of V and P are made depends on the processor: `masked_means`, `narrow_means`.
"""

from __future__ import annotations

from regweave.assembly import Builder
from regweave.assembly.variables import Memory, Variable
from regweave.kernels.photographs.means import LINE, MeanArguments, MeanFilter
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import VectorMachine

_ADDRESS = 8

_LOAD_WORD = Pattern("d:r from:a", "movzx %=0:d, word ptr %1")
_STORE_WORD = Pattern("to:a x:r", "mov word ptr %0, %1:w")
_LOAD_DOUBLE = Pattern("d:r from:a", "mov %=0:d, dword ptr %1")
_STORE_DOUBLE = Pattern("to:a x:r", "mov dword ptr %0, %1:d")


class Means:
    """Writes the kernel."""

    def __init__(self, filter: MeanFilter, machine: VectorMachine) -> None:
        self.filter = filter
        self.b = b = Builder(machine, name="rw_mean_filter", arguments=("args", "part"))
        self.down, self.along, self.length = (b.general(name) for name in ("down", "along", "length"))
        first, last = b.general("first"), b.general("last")
        self._share(first, last)
        self._clear()
        self._hold()
        self._rows(first, last)

    def _field(self, name: str) -> Memory:
        return self.b.at("args", getattr(MeanArguments, name).offset)

    def _share(self, first: Variable, last: Variable) -> None:
        """This part's rows of the result, and its memory."""
        b, value = self.b, self.b.general("value")
        b.emit("mov", value, self._field("count"))
        b.emit("mov", first, b["part"])
        b.emit("imul", first, value)
        b.emit("lea", last, b.at(first, index=value))
        b.emit("mov", value, self._field("parts"))
        b.emit("divide_unsigned", first, first, value)
        b.emit("divide_unsigned", last, last, value)
        b.emit("mov", self.length, self._field("length"))
        b.emit("imul", b["part"], self._field("step"))
        b.emit("mov", self.down, self._field("scratch"))
        b.emit("add", self.down, b["part"])
        b.emit("mov", self.along, self.down)
        b.emit("add", self.along, self._field("sums"))
        b.emit("add", self.along, LINE)

    def _clear(self) -> None:
        """All sums are 0; those along begin behind one vector of zeros."""
        b, at, nought, top = (
            self.b,
            self.b.general("at"),
            self.b.vector("nought"),
            self.b.fresh_label("clear"),
        )
        b.emit("zero", nought)
        b.emit("mov", at, self.down)
        b.label(top)
        b.emit("store", b.at(at), nought)
        b.emit("add", at, b.machine.vector_bytes)
        b.emit("cmp", at, self.along)
        b.emit("jump_less", top)

    def _rows(self, first: Variable, last: Variable) -> None:
        """Rows come in from `first` on; with the last of a window's rows a row of the result is complete."""
        b, height = self.b, self.filter.height
        row, new, old = b.general("row"), b.general("new"), b.general("old")
        top, done, more, begun = (b.fresh_label(name) for name in ("row", "done", "more", "begun"))
        b.emit("cmp", first, last)
        b.emit("jump_greater_equal", done)
        b.emit("mov", row, first)
        b.emit("add", last, height - 1)
        b.label(top)
        b.emit("mov", old, self._field("nought"))
        b.emit("mov", new, row)
        b.emit("sub", new, height)
        b.emit("cmp", new, first)
        b.emit("jump_less", begun)
        b.emit("mov", old, self._field("rows"))
        b.emit("mov", old, b.at(old, index=new, scale=8))
        b.label(begun)
        b.emit("mov", new, self._field("rows"))
        b.emit("mov", new, b.at(new, index=row, scale=8))
        self._down(new, old)
        b.emit("mov", new, row)
        b.emit("sub", new, height - 1)
        b.emit("cmp", new, first)
        b.emit("jump_less", more)
        self._beyond()
        self._along()
        b.emit("mov", old, self._field("outs"))
        b.emit("mov", old, b.at(old, index=new, scale=8))
        self._results(old)
        b.label(more)
        b.emit("inc", row)
        b.emit("cmp", row, last)
        b.emit("jump_less", top)
        b.label(done)

    def _beyond(self) -> None:
        """The sums left and right of the row."""
        b, filter = self.b, self.filter
        for count, border, behind in ((filter.left, 0, False), (filter.right, filter.left, True)):
            if not count:
                continue
            to, n, place, word, borders = (
                b.general(name) for name in ("to", "n", "place", "word", "borders")
            )
            b.emit("mov", to, self.down)
            size = filter.sum_bytes
            if behind:
                b.emit("lea", to, b.at(to, size * filter.left, index=self.length, scale=size))
            b.emit("mov", borders, self._field("borders"))
            b.emit("zero", n)
            top = b.fresh_label("beyond")
            b.label(top)
            b.emit("mov", place, b.at(borders, border * _ADDRESS, index=n, scale=8))
            load, store = (_LOAD_DOUBLE, _STORE_DOUBLE) if filter.deep else (_LOAD_WORD, _STORE_WORD)
            b.emit_template(load, word, b.at(self.down, size * filter.left, index=place, scale=size))
            b.emit("and", word, self._field("keep"))
            b.emit_template(store, b.at(to, index=n, scale=size), word)
            b.emit("inc", n)
            b.emit("cmp", n, count)
            b.emit("jump_less", top)

    def _hold(self) -> None:
        """What stays in registers."""
        raise NotImplementedError

    def _down(self, new: Variable, old: Variable) -> None:
        """A row comes into the sums down the columns, another one leaves."""
        raise NotImplementedError

    def _along(self) -> None:
        """The sums along the row, from the first place beyond it on."""
        raise NotImplementedError

    def _results(self, to: Variable) -> None:
        """A row of the result; its last vector overlaps."""
        raise NotImplementedError
