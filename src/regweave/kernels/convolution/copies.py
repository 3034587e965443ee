"""Rows of several channels, copied to where they do not compete for the same place of the cache.

    for each piece of a run, 16 vectors:  row 0 of channel 0, row 1, ... -> copies;  blocks read the copies

A first-level cache that guesses a line's way from its address holds lines of only one of two planes that are,
say, 256 MiB apart (machines.x86.lines_clash). A block of a few channels reads them by turns, each line in
three blocks, and finds none of them there. Copied piece by piece each line is read once, and the copies
stay: 3 x 3 of 4 channels to 1 at 8192 x 8192 takes 77 instead of 265 ms, of 2 to 2 60 instead of 79.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.tile import ConvTile

#: Vectors of a step of the copying loop.
_UNROLLED = 4


def copy_bytes(tile: ConvTile, vector_bytes: int) -> int:
    """Bytes of memory for the copies of a piece of a group's rows."""
    return tile.channels * tile.rows * _pitch(tile, vector_bytes) if tile.copied else 0


def _pitch(tile: ConvTile, vector_bytes: int) -> int:
    """Bytes of a row's copy: whole vectors, with what the last block reads beyond its own columns."""
    reach = (tile.kernel_columns - 1) * tile.column_bytes
    return (tile.copied + -(-reach // vector_bytes)) * vector_bytes


class CopiedRows:
    """Makes the copies of the run of blocks at register `left`, whose rows are read `across` bytes behind
    slots `row`0_0, ..., from `reads[0]` to `reads[-1]` elements further on.

    `here` is to be moved on with each block.
    """

    def __init__(self, w: Workspace, tile: ConvTile, across: Variable, reads: Sequence[int]) -> None:
        b, size = w.b, w.geometry.vector_bytes
        self.b, self.tile, self.here = b, tile, b.general("here")
        self.pitch = _pitch(tile, size)
        b.emit("mov", self.here, w.field("scratch_bytes"))
        b.emit("add", self.here, w.slot("strip"))
        b.emit("sub", self.here, copy_bytes(tile, size))
        source, left, to, value = b.general("source"), b.general("bytes"), b.general("to"), b.vector("value")
        for row, channel in product(range(tile.rows), range(tile.channels)):
            b.emit("mov", source, w.slot(f"row{row}_{channel}"))
            b.emit("add", source, across)
            b.emit("lea", to, self.place(row, channel, 0))
            b.emit("lea", left, b.at(w.r.left, index=w.r.left))
            b.emit("shl", left, 1)
            b.emit("add", left, 4 * reads[-1] - size)
            # whole vectors, then one that ends where the last block's reads do
            for count in (_UNROLLED, 1):
                again, fewer = b.fresh_label("copy"), b.fresh_label("fewer")
                b.label(again)
                b.emit("cmp", left, (count - 1) * size)
                b.emit("jump_less_equal", fewer)
                for vector in range(count):
                    b.emit("load", value, b.at(source, vector * size))
                    b.emit("store", b.at(to, vector * size), value)
                b.emit("add", source, count * size)
                b.emit("add", to, count * size)
                b.emit("sub", left, count * size)
                b.emit("jump", again)
                b.label(fewer)
            b.emit("load", value, b.at(source, index=left))
            b.emit("store", b.at(to, index=left), value)

    def place(self, row: int, channel: int, first: int) -> Memory:
        """Where what a block reads of a row begins, `first` elements on."""
        return self.b.at(self.here, (channel * self.tile.rows + row) * self.pitch + 4 * first)
