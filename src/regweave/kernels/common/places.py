"""Where a tile of results goes: addresses of vector (i, j) in the output.

    Strided    row i (of rows or of channels) starts slot `out_pitch` bytes behind row i - 1, vectors lie
    side by side InBlocks   channels in blocks of `block`: rows lie side by side, blocks slot `out_pitch`
    bytes apart

Extra tensors have the shape of the result, so their addresses follow the same pattern from another start.
"""

from __future__ import annotations

from typing import Protocol

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.workspace import Workspace
from regweave.values import frozen


class Place(Protocol):
    """The pattern of addresses. `prepare` loads what `at` needs; `out` is the tile's first result."""

    def prepare(self, w: Workspace, count: int) -> None:
        """Set `out_pitch` (and `out_far`) for tiles of `count` rows."""
        ...

    def at(self, w: Workspace, i: int, j: int) -> Memory:
        """The address of vector j of row i."""
        ...

    def next_tile(self, w: Workspace, count: int) -> None:
        """Move `out` past a tile of `count` rows, after `prepare(count)`."""
        ...

    def next_panel(self, w: Workspace, vectors: int) -> int | Variable:
        """Bytes from one panel of that many vectors to the next."""
        ...


@frozen
class Strided:
    """Rows `out_pitch` apart; vectors side by side."""

    def prepare(self, w: Workspace, count: int) -> None:
        b, r = w.b, w.r
        b.emit("mov", r.out_pitch, w.slot("out_pitch"))
        if count > 3:
            b.emit("lea", r.out_far, b.at(r.out, index=r.out_pitch, scale=2))
            b.emit("add", r.out_far, r.out_pitch)

    def at(self, w: Workspace, i: int, j: int) -> Memory:
        b, r = w.b, w.r
        base = r.out_far if i >= 3 else r.out
        offset = j * w.geometry.vector_bytes
        return b.at(base, offset, index=r.out_pitch, scale=i % 3) if i % 3 else b.at(base, offset)

    def next_tile(self, w: Workspace, count: int) -> None:
        b, r = w.b, w.r
        assert count == 6, "smaller tiles move row by row"
        b.emit("lea", r.out, b.at(r.out_far, index=r.out_pitch, scale=2))
        b.emit("add", r.out, r.out_pitch)

    def next_panel(self, w: Workspace, vectors: int) -> int:
        return vectors * w.geometry.vector_bytes


@frozen
class InBlocks:
    """Blocks of `block` channels `out_pitch` apart; rows side by side in each."""

    block: int

    def prepare(self, w: Workspace, count: int) -> None:
        b, r = w.b, w.r
        b.emit("mov", r.out_pitch, w.slot("out_pitch"))
        b.emit("lea", r.out_far, b.at(r.out, index=r.out_pitch, scale=2))
        b.emit("add", r.out_far, r.out_pitch)

    def at(self, w: Workspace, i: int, j: int) -> Memory:
        r = w.r
        blocks, offset = self.split(w, i, j)
        if blocks == 3:
            return w.b.at(r.out_far, offset)
        return w.b.at(r.out, offset, index=r.out_pitch, scale=blocks) if blocks else w.b.at(r.out, offset)

    def split(self, w: Workspace, i: int, j: int) -> tuple[int, int]:
        """(blocks, bytes) from the tile's first result to vector j of row i."""
        blocks, inside = divmod(j * w.geometry.lanes, self.block)
        assert blocks <= 3, "a panel spans at most four blocks"
        return blocks, 4 * (inside + i * self.block)

    def beside(self, w: Workspace, start: Variable, pitch: Variable, j: int) -> Memory:
        """Vector j of the row that starts at `start` in another tensor, whose blocks are `pitch` apart."""
        b = w.b
        blocks, offset = self.split(w, 0, j)
        if blocks == 3:
            further = b.general("further")
            b.emit("lea", further, b.at(start, index=pitch, scale=2))
            return b.at(further, offset, index=pitch)
        return b.at(start, offset, index=pitch, scale=blocks) if blocks else b.at(start, offset)

    def next_tile(self, w: Workspace, count: int) -> None:
        w.b.emit("add", w.r.out, 4 * self.block * count)

    def next_panel(self, w: Workspace, vectors: int) -> Variable:
        blocks = vectors * w.geometry.lanes // self.block
        further = w.b.general("further")
        w.b.emit("imul", further, w.slot("block_pitch"), blocks)
        return further
