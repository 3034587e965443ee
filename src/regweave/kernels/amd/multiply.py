"""Multiplying a staged block on AMD's GPUs: by lanes, and by the matrix unit.

Both hold the sums in registers and read chunks of A and B from LDS, each chunk into registers of its own that
others get when its last product has been issued. Reads stand between products, early enough to arrive, and in
an order in which one wait serves several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as pairs

from regweave.assembly.amd import Kernel, Part
from regweave.assembly.variables import Variable
from regweave.kernels.amd.product import CHUNK, LANES, ROW_BYTES, BlockProduct
from regweave.kernels.amd.tables import READ_CHUNK
from regweave.kernels.sequence import OPERANDS
from regweave.machines.amd.generations import INSTRUCTIONS

_WORDS = CHUNK // 4
#: Rows of A that a lane holds at a time, and columns of B that one wait is for.
_PAIR, _HALF = 2, 4
#: Rows by which the sums of a matrix product's upper lanes lie below those of the lower ones.
_UPPER_ROWS = 4


class Multiply:
    """What both ways share: the lanes' places in LDS, reading chunks."""

    def __init__(self, k: Kernel, product: BlockProduct) -> None:
        self.k, self.product = k, product
        self.places: dict[str, list[Variable]] = {}

    def enter(self, thread: Variable | str) -> None:
        """Of each operand the places that a lane reads, one for each chunk where the xor tells them apart."""
        lane, wave = self._split(thread)
        for operand in OPERANDS:
            row = self.k.vector("lane_row")
            if not self.product.step.matrix and operand == "A":
                self.k.emit("v_lshrrev_b32", row, self.product.step.columns.bit_length() - 1, lane)
            else:
                self.k.emit("v_and_b32", row, self.product.step.columns - 1, lane)
            self._add_wave(row, wave, operand)
            self.places[operand] = self._places(operand, row, lane)

    def _split(self, thread: Variable | str) -> tuple[Variable, Variable]:
        """A thread's number as lane and wave."""
        lane, wave = self.k.vector("lane"), self.k.vector("wave")
        self.k.emit("v_and_b32", lane, LANES - 1, thread)
        self.k.emit("v_lshrrev_b32", wave, LANES.bit_length() - 1, thread)
        return lane, wave

    def _add_wave(self, row: Variable, wave: Variable, operand: str) -> None:
        """Add the rows of an operand that belong to the waves before this one."""
        k, own = self.k, self.k.vector("wave_row")
        if operand == "A":
            k.emit("v_lshrrev_b32", own, self.product.waves[1].bit_length() - 1, wave)
        else:
            k.emit("v_and_b32", own, self.product.waves[1] - 1, wave)
        k.emit("v_mul_u32_u24", own, self.product.wave_rows(operand), own)
        k.emit("v_add_u32", row, row, own)

    def _places(self, operand: str, row: Variable, lane: Variable) -> list[Variable]:
        """Bytes to the lane's chunk of each piece; one place for all where chunks follow one another."""
        k, product = self.k, self.product
        start = k.vector(f"{operand.lower()}_place")
        k.emit("v_lshlrev_b32", start, ROW_BYTES.bit_length() - 1, row)
        if not product.xored(operand):
            return [start]
        turn = k.vector("turn")
        k.emit("v_bfe_u32", turn, row, 1, 2)
        if product.step.matrix:
            upper = k.vector("upper")
            k.emit("v_lshrrev_b32", upper, product.step.rows.bit_length() - 1, lane)
            k.emit("v_xor_b32", turn, turn, upper)
        k.emit("v_lshl_add_u32", start, turn, CHUNK.bit_length() - 1, start)
        places = [start]
        for piece in range(1, product.schedule.pieces):
            place = k.vector(f"{operand.lower()}_place{piece}")
            k.emit("v_xor_b32", place, piece * (2 if product.step.matrix else 1) * CHUNK, start)
            places.append(place)
        return places

    def _read(self, operand: str, buffer: int, piece: int, tile: int) -> Variable:
        """The lane's chunk of a tile's row."""
        product, places = self.product, self.places[operand]
        spread = product.step.rows if operand == "A" else product.step.columns
        at = product.base(operand, buffer) + tile * spread * ROW_BYTES
        if len(places) == 1:
            at += piece * CHUNK
        chunk = self.k.vector(f"{operand.lower()}_chunk{tile}", count=_WORDS)
        self.k.emit_template(READ_CHUNK.format(at), chunk, places[piece if len(places) > 1 else 0])
        return chunk

    def result_place(self, thread: Variable) -> tuple[Variable, Variable]:
        """Row and column, in the workgroup's part of C, of a lane's first sum."""
        lane, wave = self._split(thread)
        row, column = self.k.vector("result_row"), self.k.vector("result_column")
        self.k.emit("v_lshrrev_b32", row, self.product.step.columns.bit_length() - 1, lane)
        if self.product.step.matrix:
            self.k.emit("v_lshlrev_b32", row, _UPPER_ROWS.bit_length() - 1, row)
        self.k.emit("v_and_b32", column, self.product.step.columns - 1, lane)
        self._add_wave(row, wave, "A")
        self._add_wave(column, wave, "B")
        return row, column

    @property
    def column_deltas(self) -> Sequence[int]:
        """Columns of a lane's sums, from its first one on."""
        return range(0, self.product.wave_rows("B"), self.product.step.columns)


class LaneMultiply(Multiply):
    """Every lane multiplies words of `tiles` rows and columns of its own.

    For each piece a lane holds its chunks of all columns and of two pairs of rows: one pair is multiplied,
    the next one is under way. The columns' chunks of the next piece are read behind the last pair, four at a
    time, as soon as the former ones are used up.
    """

    def enter(self, thread: Variable | str) -> None:
        """Places, and sums of zero."""
        super().enter(thread)
        rows, columns = self.product.tiles
        self.acc = [[self.k.vector(f"sum{i}_{j}") for j in range(columns)] for i in range(rows)]
        for row in self.acc:
            for value in row:
                self.k.emit("v_mov_b32", value, 0)
        self.rows: list[Variable] = []
        self.columns: dict[int, Variable] = {}

    def multiply(self, buffer: int, piece: int) -> None:
        """One chunk of all rows and columns."""
        rows, columns = self.product.tiles
        last = piece == self.product.schedule.pieces - 1
        halves = [range(start, min(start + _HALF, columns)) for start in range(0, columns, _HALF)]
        if piece == 0:
            self.rows = self._read_rows(buffer, piece, 0)
            for j in range(columns):
                self.columns[j] = self._read("B", buffer, piece, j)
        for first in range(0, rows, _PAIR):
            own, behind = self.rows, first + _PAIR >= rows
            if not behind:
                self.rows = self._read_rows(buffer, piece, first + _PAIR)
            elif not last:
                self.rows = self._read_rows(buffer, piece + 1, 0)
            for half in halves:
                self._multiply_half(first, own, half)
                if behind and not last:
                    for j in half:
                        self.columns[j] = self._read("B", buffer, piece + 1, j)

    def _read_rows(self, buffer: int, piece: int, first: int) -> list[Variable]:
        return [self._read("A", buffer, piece, first + i) for i in range(_PAIR)]

    def _multiply_half(self, first: int, rows: list[Variable], half: range) -> None:
        """The products of a pair of rows and some columns, first those that were read last."""
        text = self.product.step.text
        for word in range(_WORDS):
            for j, i in pairs(reversed(half), reversed(range(_PAIR))):
                self.k.emit_template(
                    text, self.acc[first + i][j], Part(rows[i], word), Part(self.columns[j], word)
                )

    def sums(self) -> Iterator[tuple[int, list[tuple[int, Variable | Part]]]]:
        """For each row of a lane's sums, from its first row on, the columns with their registers."""
        step = self.product.step
        for i, row in enumerate(self.acc):
            yield step.rows * i, [(step.columns * j, value) for j, value in enumerate(row)]


class MatrixMultiply(Multiply):
    """The matrix unit multiplies; the wave's `tiles` are products that do not wait for one another.

    The chunks of a block's second piece are read between the products of the first.
    """

    def enter(self, thread: Variable | str) -> None:
        """Places, and sums of zero."""
        super().enter(thread)
        rows, columns = self.product.tiles
        table = INSTRUCTIONS[self.product.step.instruction].fragments["D"].table
        side = self.product.step.columns
        #: rows of a lane's sums from its first one on
        self.deltas = [int(element) // side for element in table[0]]
        first = table[:, :1]
        assert (table - first == [delta * side for delta in self.deltas]).all(), "lanes agree on the rows"
        assert all(
            int(element) == (lane // side * _UPPER_ROWS) * side + lane % side
            for lane, element in enumerate(table[:, 0])
        ), "the upper lanes begin four rows further down"
        count = len(self.deltas)
        self.acc = [
            [self.k.accumulation(f"sum{i}_{j}", count=count) for j in range(columns)] for i in range(rows)
        ]
        for value, part in pairs([value for row in self.acc for value in row], range(count)):
            self.k.emit("v_accvgpr_write_b32", Part(value, part), 0)
        self.ahead: list[list[Variable]] = []

    def multiply(self, buffer: int, piece: int) -> None:
        """One chunk of the lower and one of the upper lanes, of all rows and columns."""
        if piece == 0:
            self.ahead = self._read_piece(buffer, piece)
        rows, columns = self.ahead
        reads: list[tuple[str, int]] = []
        if piece + 1 < self.product.schedule.pieces:
            reads = [
                (operand, t) for operand, n in zip("AB", self.product.tiles, strict=True) for t in range(n)
            ]
            self.ahead = [[], []]
        step = self.product.step
        for word in range(0, _WORDS, step.words):
            for i, j in pairs(reversed(range(len(rows))), reversed(range(len(columns)))):
                self.k.emit_template(
                    step.text,
                    self.acc[i][j],
                    Part(rows[i], word, step.words),
                    Part(columns[j], word, step.words),
                )
                if reads:
                    operand, tile = reads.pop(0)
                    self.ahead[operand == "B"].append(self._read(operand, buffer, piece + 1, tile))

    def _read_piece(self, buffer: int, piece: int) -> list[list[Variable]]:
        return [
            [self._read(operand, buffer, piece, tile) for tile in range(tiles)]
            for operand, tiles in zip(OPERANDS, self.product.tiles, strict=True)
        ]

    def sums(self) -> Iterator[tuple[int, list[tuple[int, Variable | Part]]]]:
        """For each row of a lane's sums, from its first row on, the columns with their registers."""
        step = self.product.step
        for i, row in enumerate(self.acc):
            for part, delta in enumerate(self.deltas):
                yield (
                    step.rows * i + delta,
                    [(step.columns * j, Part(value, part)) for j, value in enumerate(row)],
                )
