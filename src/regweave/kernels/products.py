"""The product loop: acc[i][j] += scalar[i] * vector[j], once per k, each result one chain of fused
multiply-adds.

Every kernel of the package spends its time in this loop. Written out for 2 scalars and 2 vectors, one step is

    load w0, [walk]          broadcast s, [near]            fma acc00, s, w0     fma acc01, s, w1
    load w1, [walk + 64]     broadcast s', [near + pitch]   fma acc10, s', w0    fma acc11, s', w1

and nothing else but moving the pointers on. A result depends on its own row and column only, in increasing k,
whatever the tile around it: that is why the bits of a row never depend on how many rows there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regweave.assembly.variables import Variable
from regweave.kernels.scalars import Scalars
from regweave.kernels.workspace import Workspace


def emit_products(
    w: Workspace, scalars: Scalars, count: int, vectors: int, pitch: int
) -> list[list[Variable]]:
    """Emit the loop for a tile; the accumulators acc[i][j] hold the results.

    `pitch` is the number of bytes from one row of vectors to the next. Reads slots `k` and `panel`; leaves
    `walk` behind the last row of vectors and `source` where it was.
    """
    b, r = w.b, w.r
    acc = [b.vectors(f"acc{i}_", vectors) for i in range(count)]
    for row in acc:
        for variable in row:
            b.emit("zero", variable)
    b.emit("mov", r.walk, w.slot("panel"))

    def step() -> None:
        row_of_vectors = b.vectors("vector", vectors)
        for j, vector in enumerate(row_of_vectors):
            b.emit("load", vector, b.at(r.walk, j * w.geometry.vector_bytes))
        for i, row in enumerate(acc):
            if vectors == 1:
                b.emit("fma", row[0], row_of_vectors[0], scalars.at(w, i))
                continue
            scalar = b.vector(f"scalar{i}")
            b.emit("broadcast", scalar, scalars.at(w, i))
            for variable, vector in zip(row, row_of_vectors, strict=True):
                b.emit("fma", variable, scalar, vector)
        b.emit("add", r.walk, pitch)

    scalars.loop(w, count, step)
    return acc


def spill(w: Workspace, acc: Sequence[Sequence[Variable]]) -> None:
    """Store a tile of results to the tile memory, rows a full panel apart."""
    b, g = w.b, w.geometry
    tile = w.tile_memory()
    for i, row in enumerate(acc):
        for j, variable in enumerate(row):
            b.emit("store", tile + (i * g.panel_bytes + j * g.vector_bytes), variable)


@dataclass(frozen=True)
class SpilledProducts:
    """Routine: the loop for a tile, its results in the tile memory, `source` moved to the next tile.

    `widths` are the numbers of vectors it can do; with several, slot `vectors` says which.
    """

    scalars: Scalars
    count: int
    widths: tuple[int, ...]
    pitch: int

    @property
    def stem(self) -> str:
        return f"products{self.count}x{'_'.join(map(str, self.widths))}"

    def write(self, w: Workspace) -> None:
        b = w.b
        done = b.fresh_label("spilled")
        labels = [b.fresh_label("width") for _ in self.widths]
        if len(self.widths) > 1:
            number = b.general("number")
            b.emit("mov", number, w.slot("vectors"))
            for width, label in zip(self.widths[:-1], labels, strict=False):
                b.emit("cmp", number, width)
                b.emit("jump_equal", label)
        for width, label in reversed(list(zip(self.widths, labels, strict=True))):
            b.label(label)
            spill(w, emit_products(w, self.scalars, self.count, width, self.pitch))
            if width != min(self.widths):
                b.emit("jump", done)
        b.label(done)
        self.scalars.next_tile(w, self.count)
        b.emit("ret")
