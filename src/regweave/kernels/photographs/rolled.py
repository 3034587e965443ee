"""A strip of a filter whose sums are kept in memory: down the rows in two loops.

    rows that only complete a response further down:   sums along the row, kept
    the band's rows:                                   the same, then the response, finished and stored

The rows above a band are those of the band before, whose sums are made again.
"""

from __future__ import annotations

from regweave.assembly.variables import Variable
from regweave.kernels.photographs.finishing import finish, finish_wide
from regweave.kernels.photographs.kept import KeptRows, kept_columns, needs_pairs
from regweave.kernels.photographs.rows import ByteRow, DeepRow
from regweave.kernels.photographs.structure import ByteFilter
from regweave.kernels.photographs.words import WordMath

#: Bytes: so far ahead of where they are read and written, rows are asked for. Those of the result too: stores
#: are done in their order, so that one whose line is not there holds up those of the sums.
_AHEAD = 256
_ADDRESS = 8


class RolledStrip:
    """Writes the strips of a kernel whose bands have so many rows."""

    def __init__(self, math: WordMath, filter: ByteFilter, band: int) -> None:
        self.math, self.b, self.filter, self.band = math, math.b, filter, band
        self.kept = KeptRows(math, filter, band + filter.height - 1, pairs=needs_pairs(filter))
        self.columns = kept_columns(self.kept, filter)

    def write(self, table: Variable, outs: Variable, at: Variable) -> None:
        """The strip at byte `at` of the rows in `table`, to the rows in `outs`."""
        b = self.b
        row, to = b.general("row"), b.general("to")
        b.emit("mov", row, table)
        b.emit("mov", to, outs)
        self.kept.begin()
        for column in self.columns:
            column.begin()
        self._rows(self.filter.height - 1, row, at, None)
        self._rows(self.band, row, at, to)

    def _rows(self, count: int, row: Variable, at: Variable, to: Variable | None) -> None:
        """So many rows, to the rows of the result if there is a place for them."""
        if not count:
            return
        b, left, top = self.b, self.b.general("rows_left"), self.b.fresh_label("row")
        b.emit("mov", left, count)
        b.emit("align", 32)
        b.label(top)
        base = b.general("base")
        b.emit("mov", base, b.at(row))
        b.emit("prefetch", b.at(base, _AHEAD, index=at))
        sums = (DeepRow if self.filter.deep else ByteRow)(self.math, self.filter, base, at)
        self.kept.keep(sums)
        for column in self.columns:
            column.take(sums)
        if to is not None:
            result, place = self._result(row, at), b.general("out")
            b.emit("mov", place, b.at(to))
            b.emit("prefetch", b.at(place, _AHEAD, index=at))
            b.emit("store", b.at(place, index=at), result)
            b.emit("add", to, _ADDRESS)
        self.kept.advance()
        b.emit("add", row, _ADDRESS)
        b.emit("dec", left)
        b.emit("jump_nonzero", top)

    def _result(self, row: Variable, at: Variable) -> Variable:
        b, filter = self.b, self.filter
        responses = [column.response() for column in self.columns]
        if filter.wide:
            return finish_wide(self.math, filter, responses[0], self.columns[0].offset)
        middle = b.general("middle")
        if filter.finish == "sharpen":
            b.emit("mov", middle, b.at(row, _ADDRESS * (filter.height // 2 - filter.height + 1)))
        pairs = [(low, high) for low, high in responses]
        return finish(self.math, filter, pairs, b.at(middle, index=at))
