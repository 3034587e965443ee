"""Where the scalars of a tile come from: one repeated element per row of the tile and step of the product.

Three places, one interface, so that one product loop serves all orders:

    Rows      activations x[row, k]: rows `pitch` apart, steps 4 bytes apart; three rows per pointer Packed
    weights in the order they are used: all scalars of a step side by side; the operands of the channels
              (bias, scale) follow the last step
    Blocks    activations in blocks of channels, x[k // block, row, k % block]: rows side by side, steps 4
    bytes
              apart within a block, blocks `pitch` apart
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from regweave.assembly.variables import Memory
from regweave.kernels.common.workspace import Workspace
from regweave.values import frozen


class Scalars(Protocol):
    """A source of scalars. All methods emit code."""

    def start(self, w: Workspace, count: int) -> None:
        """Point to the first step of the tile at `source`."""
        ...

    def loop(self, w: Workspace, count: int, step: Callable[[], None]) -> None:
        """Run `step` for the next `steps` steps; it may read `at(i)` for i < count and must move `walk`
        itself.

        Called again, it goes on where it was; all but the last call do a multiple of the blocks of `Blocks`.
        """
        ...

    def at(self, w: Workspace, i: int) -> Memory:
        """The element of row i at the present step, repeated to all lanes."""
        ...

    def next_tile(self, w: Workspace, count: int) -> None:
        """Move `source` behind a tile of `count` scalars whose loop has run."""
        ...


def _count_down(w: Workspace, step: Callable[[], None], moves: Callable[[], None]) -> None:
    """The plain loop: step and moves, `steps` times."""
    b, r = w.b, w.r
    top = b.fresh_label("step")
    b.emit("align", 32)
    b.label(top)
    step()
    moves()
    b.emit("dec", r.steps)
    b.emit("jump_nonzero", top)


@frozen
class Rows:
    """Rows of activations in memory, slot `pitch` bytes apart."""

    def start(self, w: Workspace, count: int) -> None:
        b, r = w.b, w.r
        b.emit("mov", r.near, r.source)
        if count > 1:
            b.emit("mov", r.pitch, w.slot("pitch"))
        if count > 3:
            b.emit("lea", r.far, b.at(r.source, index=r.pitch, scale=2))
            b.emit("add", r.far, r.pitch)

    def loop(self, w: Workspace, count: int, step: Callable[[], None]) -> None:
        b, r = w.b, w.r

        def moves() -> None:
            b.emit("add", r.near, 4)
            if count > 3:
                b.emit("add", r.far, 4)

        _count_down(w, step, moves)

    def at(self, w: Workspace, i: int) -> Memory:
        base = w.r.far if i >= 3 else w.r.near
        if i % 3:
            return w.b.at(base, index=w.r.pitch, scale=i % 3, repeat=True)
        return w.b.at(base, repeat=True)

    def next_tile(self, w: Workspace, count: int) -> None:
        b, r = w.b, w.r
        move = b.general("move")
        b.emit("imul", move, w.slot("pitch"), count)
        b.emit("add", r.source, move)


@frozen
class Packed:
    """Packed weights: `count` elements a step, then `operands` floats for each of the `count` channels."""

    operands: int

    def start(self, w: Workspace, count: int) -> None:
        w.b.emit("mov", w.r.near, w.r.source)

    def loop(self, w: Workspace, count: int, step: Callable[[], None]) -> None:
        _count_down(w, step, lambda: w.b.emit("add", w.r.near, 4 * count))

    def at(self, w: Workspace, i: int) -> Memory:
        return w.b.at(w.r.near, 4 * i, repeat=True)

    def next_tile(self, w: Workspace, count: int) -> None:
        w.b.emit("lea", w.r.source, w.b.at(w.r.near, 4 * count * self.operands))


@frozen
class Blocks:
    """Activations in blocks of `block` channels, slot `block_step` bytes between two blocks of a row.

    At each block the lines of the next tile's rows in it are asked for.
    """

    block: int

    def start(self, w: Workspace, count: int) -> None:
        w.b.emit("mov", w.r.near, w.r.source)

    def loop(self, w: Workspace, count: int, step: Callable[[], None]) -> None:
        b, r = w.b, w.r
        run = b.general("run")
        outer, inner = b.fresh_label("block"), b.fresh_label("step")
        b.label(outer)
        row = 4 * self.block
        for offset in range(0, row * count, 64):
            b.emit("prefetch", b.at(r.near, row * count + offset))
        b.emit("mov", run, self.block)
        b.emit("min", run, r.steps)
        b.emit("sub", r.steps, run)
        b.emit("align", 32)
        b.label(inner)
        step()
        b.emit("add", r.near, 4)
        b.emit("dec", run)
        b.emit("jump_nonzero", inner)
        b.emit("add", r.near, w.slot("block_step"))
        b.emit("test", r.steps, r.steps)
        b.emit("jump_nonzero", outer)

    def at(self, w: Workspace, i: int) -> Memory:
        return w.b.at(w.r.near, 4 * self.block * i, repeat=True)

    def next_tile(self, w: Workspace, count: int) -> None:
        w.b.emit("add", w.r.source, 4 * self.block * count)
