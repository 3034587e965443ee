"""The description of a product of blocks on an AMD GPU: which waves and lanes hold what, and where in LDS.

    >>> wide = block_product("gfx906", "f32", columns=100)
    >>> wide.rows, wide.columns, wide.lds_bytes, wide.depth
    (128, 128, 32768, 16)

A workgroup of four waves makes `rows` x `columns` of C = A @ B, block by block along the contraction. B is
given transposed, [N, K], so that both matrices have rows along which the contraction runs, and are treated
alike: a block is 64 bytes of each row, four *chunks* of 16. Chunks lie in LDS row by row; chunk c of row r is
at

    64 r + 16 (c ^ (r >> 1 & 3))

so that lanes which read the same chunk of neighbouring rows find it in different banks (lds_conflicts counts
them). Where lanes of a phase read no more than two rows at once the xor is left out: on `lanes` machines, A.

    lanes      4 x 16 lanes hold rows a, a + 4, ... and columns b, b + 16, ...; a piece is one chunk
    matrix     lanes 0 to 31 and 32 to 63 read different chunks of rows r, r + 32, ...; a piece is two chunks.
               The contraction's order inside a piece is not that of memory, but the same for A and B.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from regweave.errors import InputError
from regweave.kernels.amd.tables import TYPES, MultiplyStep, step_of
from regweave.kernels.sequence import OPERANDS, Schedule
from regweave.machines.amd.assembly import GcnMachine, find_target
from regweave.machines.catalogue import find_machine
from regweave.rearrangement.shared.banks import conflicts
from regweave.values import frozen

ROW_BYTES, CHUNK = 64, 16
CHUNKS = ROW_BYTES // CHUNK
WAVES, LANES = 4, 64
THREADS = WAVES * LANES
#: Rows whose chunks the threads of a workgroup load together.
ROWS_AT_ONCE = THREADS // CHUNKS


@frozen
class BlockProduct:
    """A product of blocks: `waves` along rows and columns, `tiles` of a wave's step along both."""

    machine: str
    dtype: str
    waves: tuple[int, int]
    tiles: tuple[int, int]

    def __post_init__(self) -> None:
        if self.waves[0] * self.waves[1] != WAVES or min(self.tiles) < 1:
            raise InputError(f"{self} has no four waves with tiles")
        if self.lds_bytes > find_target(self.machine).shared_bytes:
            raise InputError(f"{self} needs {self.lds_bytes} bytes of LDS")

    @property
    def target(self) -> GcnMachine:
        """The machine that it is written for."""
        return find_target(self.machine)

    @cached_property
    def step(self) -> MultiplyStep:
        """The machine's multiply-add."""
        return step_of(self.machine, self.dtype)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return f"product_{self.dtype}_{self.rows}x{self.columns}"

    @property
    def result(self) -> str:
        """Type of the sums, and of C."""
        return TYPES[self.dtype][1]

    @property
    def rows(self) -> int:
        """Rows of C that a workgroup makes."""
        return self.waves[0] * self.wave_rows("A")

    @property
    def columns(self) -> int:
        """Columns of C that a workgroup makes."""
        return self.waves[1] * self.wave_rows("B")

    @property
    def depth(self) -> int:
        """Elements of the contraction in one block."""
        return ROW_BYTES // TYPES[self.dtype][0]

    @property
    def schedule(self) -> Schedule:
        """Lanes machines load A and B one after the other, to hold fewer registers."""
        if self.step.matrix:
            return Schedule(2, 2, load=(0, 0), stage=(1, 1))
        return Schedule(2, 4, load=(0, 2), stage=(1, 3))

    def wave_rows(self, operand: str) -> int:
        """Rows of A (of the transposed B: columns of C) that a wave multiplies."""
        step = self.step
        return step.rows * self.tiles[0] if operand == "A" else step.columns * self.tiles[1]

    def staged_rows(self, operand: str) -> int:
        """Rows of an operand in LDS: whole loads of all threads; those beyond the tile hold zeros."""
        rows = self.rows if operand == "A" else self.columns
        return -(-rows // ROWS_AT_ONCE) * ROWS_AT_ONCE

    def loads(self, operand: str) -> int:
        """Chunks of an operand's block that every thread loads."""
        return self.staged_rows(operand) // ROWS_AT_ONCE

    def xored(self, operand: str) -> bool:
        """Whether an operand's chunks are spread over the banks."""
        return self.step.matrix or operand == "B"

    def base(self, operand: str, buffer: int) -> int:
        """Where an operand's block begins in LDS."""
        own = 0 if operand == "A" else self.staged_rows("A") * ROW_BYTES
        return own + buffer * self.buffer_bytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of one buffer."""
        return sum(self.staged_rows(operand) for operand in OPERANDS) * ROW_BYTES

    @property
    def lds_bytes(self) -> int:
        """Bytes of LDS that a workgroup takes."""
        return self.schedule.buffers * self.buffer_bytes

    def place(self, operand: str, row: np.ndarray, chunk: np.ndarray) -> np.ndarray:
        """Bytes from the block's begin to a chunk of a row."""
        turned = chunk ^ (row >> 1 & 3) if self.xored(operand) else chunk
        return row * ROW_BYTES + turned * CHUNK

    def accesses(self) -> Iterator[tuple[str, np.ndarray]]:
        """("store" or "load", the places of all lanes of a wave) for every access to a block in LDS."""
        thread, lane = np.arange(THREADS), np.arange(LANES)
        for operand in OPERANDS:
            row, physical = thread // CHUNKS, thread % CHUNKS
            chunk = physical ^ (row >> 1 & 3) if self.xored(operand) else physical
            for load in range(self.loads(operand)):
                for wave in self.place(operand, row + load * ROWS_AT_ONCE, chunk).reshape(WAVES, LANES):
                    yield "store", wave
            spread = self.step.rows if operand == "A" else self.step.columns
            own = self.lane_row(operand, lane)
            for wave in range(self.waves[OPERANDS.index(operand)]):
                for tile in range(self.tiles[OPERANDS.index(operand)]):
                    for piece in range(self.schedule.pieces):
                        row = wave * self.wave_rows(operand) + tile * spread + own
                        yield "load", self.place(operand, row, self.lane_chunk(piece, lane))

    def lane_row(self, operand: str, lane: np.ndarray) -> np.ndarray:
        """The row of a tile that a lane reads."""
        if self.step.matrix:
            return lane % self.step.rows
        return lane // self.step.columns if operand == "A" else lane % self.step.columns

    def lane_chunk(self, piece: int, lane: np.ndarray) -> np.ndarray:
        """The chunk that a lane reads for a piece."""
        return 2 * piece + lane // self.step.rows if self.step.matrix else np.full_like(lane, piece)


def lds_conflicts(product: BlockProduct) -> int:
    """Bank conflicts of all accesses to one block in LDS, by the machine's phases."""
    machine = find_machine(product.machine)
    return sum(
        conflicts(places[None].astype(np.int64), CHUNK, machine, access)
        for access, places in product.accesses()
    )


def block_product(machine: str, dtype: str, *, columns: int) -> BlockProduct:
    """The product of blocks for C of so many columns: 128 x 128, or narrow where C is narrow.

    UnsupportedError for machines and types without a multiply-add.
    """
    step = step_of(machine, dtype)
    if step.matrix:
        waves, tiles = ((4, 1), (1, 1)) if columns <= 32 else ((2, 2), (2, 2))
    else:
        waves, tiles = ((4, 1), (8, 1 if columns <= 16 else 2)) if columns <= 32 else ((4, 1), (8, 8))
    return BlockProduct(machine, dtype, waves, tiles)
