"""The kernel of a filter of bytes: bands of rows, strips of a vector's width, down the columns in registers.

    band: some rows of the result          strips of 64 bytes, one after the other along the row
    rows  . . . . . . . . . . . . . .      | strip 0 | strip 1 | strip 2 |  ...

In a strip the kernel goes down the rows of its band: loads the pixels and their neighbours along the row as
they lie in memory, sums along the row (`ByteRow`), adds what it keeps of the rows above (`columns`), finishes
and stores. So a row's sums are made once per band, nothing but bytes is read or written, and of the strips
before, the cache's lines are there still.

Where the rows lie, tables say: beyond the image's edges they name other rows, so that nothing is asked inside
the loops. For the first and the last strips of each row, whose pixels have neighbours beyond the edge, the
ends of the band's rows are copied to the stack with these neighbours at them, and the tables name the copies.

    void photograph(const PhotographArguments *args, size_t part)       part: the number of the band
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

from regweave.assembly import Builder, Listing
from regweave.assembly.variables import Memory, Variable
from regweave.errors import RegisterError
from regweave.kernels.photographs.arguments import (
    BAND,
    PhotographArguments,
    band_rows,
    ends_of,
    in_memory,
    spare_registers,
)
from regweave.kernels.photographs.columns import Tall, columns_of
from regweave.kernels.photographs.doubles import DoubleMath
from regweave.kernels.photographs.finishing import finish, finish_wide
from regweave.kernels.photographs.rolled import RolledStrip
from regweave.kernels.photographs.rows import ByteRow
from regweave.kernels.photographs.structure import ByteFilter
from regweave.kernels.photographs.words import WordMath, in_registers
from regweave.machines.instructions import Pattern
from regweave.machines.x86 import VectorMachine

#: Bytes: so far ahead of where it is read, a row is asked for.
_AHEAD = 1024
_ADDRESS = 8
_PHASE = 3 * _ADDRESS
_LOAD_BYTE = Pattern("d:r from:a", "movzx %=0:d, byte ptr %1")
_STORE_BYTE = Pattern("to:a x:r", "mov byte ptr %0, %1:b")


@lru_cache(maxsize=64)
def photograph_kernel(filter: ByteFilter, machine: VectorMachine) -> Listing:
    """The kernel, of a filter for which `band_rows` is above zero."""
    asked = list(_Photograph(filter, machine, []).math.asked)
    if not in_memory(filter, machine):
        return _Photograph(filter, machine, asked[: spare_registers(filter, machine)]).b.finish()
    for held in range(len(asked), 0, -1):
        with suppress(RegisterError):
            return _Photograph(filter, machine, asked[:held]).b.finish()
    return _Photograph(filter, machine, []).b.finish()


class _Photograph:
    """Writes the kernel, with the constants `held` in registers."""

    def __init__(self, filter: ByteFilter, machine: VectorMachine, held: list[bytes]) -> None:
        self.filter, self.line = filter, machine.vector_bytes
        self.b = b = Builder(machine, name="rw_photograph", arguments=("args", "part"))
        self.math = (DoubleMath if filter.deep else WordMath)(b, in_registers(b, held))
        self.band = band_rows(filter, machine)
        self.lines = self.band + filter.height - 1
        self.ends = ends_of(filter, machine)
        self.table, self.outs, self.length = b.general("table"), b.general("outs"), b.general("length")
        self._place()
        phases = self._phases()
        self.rolled = RolledStrip(self.math, filter, self.band) if in_memory(filter, machine) else None
        self._strips(*phases)

    def _field(self, name: str) -> Memory:
        return self.b.at("args", getattr(PhotographArguments, name).offset)

    def _place(self) -> None:
        """Where this band's rows are."""
        b, first, last = self.b, self.b.general("first"), self.b.general("last")
        b.emit("imul", first, b["part"], self.band)
        b.emit("mov", last, self._field("last"))
        b.emit("min", first, last)
        b.emit("shl", first, 3)
        for table, name in ((self.table, "rows"), (self.outs, "outs")):
            b.emit("mov", table, self._field(name))
            b.emit("add", table, first)
        b.emit("mov", self.length, self._field("length"))

    def _phases(self) -> tuple[Memory, int]:
        """Table, first and last byte of each phase, and how many phases there are."""
        b, (head, tail), filter = self.b, self.ends, self.filter
        behind = b.general("behind")
        b.emit("lea", behind, b.at(self.length, -tail))
        phases: list[tuple[Variable, Variable | int, Variable | int]] = []
        if head:
            phases.append((self._copies(head + filter.right, None, filter.left, 0), 0, head))
        phases.append((self.table, head, behind))
        ends = self._copies(filter.left + tail, behind, filter.right, filter.left)
        phases.append((ends, behind, self.length))
        place = b.stack(len(phases) * _PHASE)
        for number, values in enumerate(phases):
            for n, value in enumerate(values):
                b.emit("mov", place + (number * _PHASE + n * _ADDRESS), value)
        return place, len(phases)

    def _copies(self, size: int, behind: Variable | None, more: int, border: int) -> Variable:
        """Copy `size` bytes of each row and put `more` bytes from beyond the edge to them, of the borders
        from number `border` on: the row's first bytes or, where `behind` says where the last strips begin,
        those from `left` bytes before. The table of addresses as seen from the row's first byte."""
        b, left, step = self.b, self.filter.left, size + more
        memory, table = b.stack(self.lines * step), b.general("copies")
        tables = b.stack(self.lines * _ADDRESS)
        at, row, to, borders = (b.general(name) for name in ("at", "row", "to", "borders"))
        b.emit("lea", table, tables)
        b.emit("lea", to, memory)
        b.emit("mov", borders, self._field("borders"))
        b.emit("zero", at)
        top = b.fresh_label("row")
        b.label(top)
        b.emit("mov", row, b.at(self.table, index=at, scale=8))
        self._border(row, b.at(to, size if behind is not None else 0), borders, border, more)
        seen = b.general("seen")
        if behind is None:
            b.emit("lea", seen, b.at(to, left))
            self._copy(row, seen, size)
        else:
            b.emit("add", row, behind)
            b.emit("sub", row, left)
            self._copy(row, to, size)
            b.emit("lea", seen, b.at(to, left))
            b.emit("sub", seen, behind)
        b.emit("mov", b.at(table, index=at, scale=8), seen)
        b.emit("add", to, step)
        b.emit("inc", at)
        b.emit("cmp", at, self.lines)
        b.emit("jump_less", top)
        return table

    def _copy(self, row: Variable, to: Variable, size: int) -> None:
        """So many bytes, a vector's at least; the last vector overlaps."""
        b = self.b
        for offset in (*range(0, size - self.line, self.line), size - self.line):
            piece = b.vector("piece")
            b.emit("load", piece, b.at(row, offset))
            b.emit("store", b.at(to, offset), piece)

    def _border(self, row: Variable, to: Memory, borders: Variable, first: int, count: int) -> None:
        """Bytes from beyond the edge."""
        b = self.b
        if not count:
            return
        n, place, byte = b.general("n"), b.general("place"), b.general("byte")
        assert isinstance(to.base, Variable)
        b.emit("zero", n)
        top = b.fresh_label("border")
        b.label(top)
        b.emit("mov", place, b.at(borders, first * _ADDRESS, index=n, scale=8))
        b.emit_template(_LOAD_BYTE, byte, b.at(row, index=place))
        b.emit("and", byte, self._field("keep"))
        b.emit_template(_STORE_BYTE, b.at(to.base, to.offset, index=n), byte)
        b.emit("inc", n)
        b.emit("cmp", n, count)
        b.emit("jump_less", top)

    def _strips(self, phases: Memory, count: int) -> None:
        """Every phase's strips."""
        b = self.b
        phase, table, at, last = (b.general(name) for name in ("phase", "rows", "at", "last"))
        left = b.general("left")
        b.emit("lea", phase, phases)
        b.emit("mov", left, count)
        begin, top, behind = (b.fresh_label(name) for name in ("phase", "strip", "behind"))
        b.label(begin)
        for n, variable in enumerate((table, at, last)):
            b.emit("mov", variable, b.at(phase, n * _ADDRESS))
        b.emit("cmp", at, last)
        b.emit("jump_greater_equal", behind)
        b.emit("align", 32)
        b.label(top)
        if self.rolled is None:
            self._strip(table, at)
        else:
            self.rolled.write(table, self.outs, at)
        b.emit("add", at, self.line)
        b.emit("cmp", at, last)
        b.emit("jump_less", top)
        b.label(behind)
        b.emit("add", phase, _PHASE)
        b.emit("dec", left)
        b.emit("jump_nonzero", begin)

    def _strip(self, table: Variable, at: Variable) -> None:
        """Down the rows of the band."""
        b, filter, above = self.b, self.filter, self.filter.height // 2
        tall = Tall(self.math, filter) if filter.wide else None
        columns = columns_of(filter, self.math) if tall is None else []
        for i in range(self.lines):
            base = b.general("base")
            b.emit("mov", base, b.at(table, _ADDRESS * i))
            b.emit("prefetch", b.at(base, _AHEAD, index=at))
            row = ByteRow(self.math, filter, base, at)
            out = i - filter.height + 1
            if tall is not None:
                sums = tall.step(row)
                result = finish_wide(self.math, filter, sums, filter.offset) if sums else None
            else:
                responses = [column.step(row, begins=i < BAND) for column in columns]
                middle = b.general("middle")
                if filter.finish == "sharpen" and out >= 0:
                    b.emit("mov", middle, b.at(table, _ADDRESS * (out + above)))
                complete = [response for response in responses if response is not None]
                result = finish(self.math, filter, complete, b.at(middle, index=at)) if complete else None
            assert (result is None) == (out < 0), "a result is complete with its last row"
            if result is not None:
                to = b.general("out")
                b.emit("mov", to, b.at(self.outs, _ADDRESS * out))
                b.emit("store", b.at(to, index=at), result)
