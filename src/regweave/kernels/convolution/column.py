"""A tile for one channel: all weights in registers, rows coming in from above, results going out below.

    for each image row:  for each kernel column: one image vector, a product for each output row that meets it

An output row takes registers from its first image row to its last, so as many rows are under way as the
kernel is high, however many the tile has; an image row is loaded once for all of them. A 5 x 5 kernel: 25
weights, 5 results, one image vector, and per image row 5 loads for 25 products. Nothing is read twice in
one tile, which also spares the first-level cache where rows start a multiple of its size apart.

Where the weights are a column times a row (separable), an image row is summed with the row of weights once,
and each output row gets that sum times a weight of the column: 10 products instead of 25.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.activations import activate_all
from regweave.kernels.buildermath import BuilderMath
from regweave.kernels.convolution.arguments import BlockEntry
from regweave.kernels.convolution.results import Last, fetch_results, mask_bytes, no_operand
from regweave.kernels.convolution.tile import ConvTile
from regweave.kernels.workspace import Workspace
from regweave.values import frozen


@frozen
class Column:
    """Routine: one block of `vectors` vectors of one filter of one channel; registers and slots as of
    Products.

    The taps are the kernel's columns, their weights in the order of packing.
    """

    tile: ConvTile
    vectors: int
    edge: bool
    half: bool = False

    @property
    def stem(self) -> str:
        return f"column_{self.vectors}{'_half' if self.half else '_edge' if self.edge else ''}"

    def write(self, w: Workspace) -> None:
        b, r, tile = w.b, w.r, self.tile
        below = b.general("below")
        at = self.addresses(w, below)
        b.emit("mov", r.walk, w.slot("weights"))
        weights = self.weights(w)
        if not tile.stream:
            fetch_results(w, 1, tile.rows, self.vectors)
        b.emit("mov", r.out, w.slot("out_base"))
        b.emit("add", r.out, b.at(r.near, BlockEntry.y.offset))
        b.emit("zero", below)

        def finish(row: int, results: Sequence[Variable]) -> None:
            self._store(w, results)
            if row + 1 < tile.rows:
                b.emit("add", r.out, w.slot("y_row"))

        self.rows(w, at, below, weights, finish)
        b.emit("ret")

    def addresses(self, w: Workspace, below: Variable) -> list[Memory]:
        """Where each kernel column reads for the block's first result, `below` bytes from the first row."""
        b, source, table = w.b, w.b.general("start"), w.b.general("table")
        b.emit("mov", source, w.slot("base"))
        b.emit("add", source, b.at(w.r.near, BlockEntry.x.offset))
        b.emit("mov", table, w.slot("taps"))
        columns, step = self.tile.kernel_columns, self.tile.column_bytes
        at = [b.general(f"column{tap}") for tap in range(1 if step else columns)]
        for tap, place in enumerate(at):
            b.emit("mov", place, b.at(table, 8 * tap))
            b.emit("add", place, source)
        return [b.at(at[0 if step else tap], step * tap, index=below) for tap in range(columns)]

    def rows(
        self,
        w: Workspace,
        at: Sequence[Memory],
        below: Variable,
        weights: Sequence[Variable],
        finish: Callable[[int, Sequence[Variable]], None],
    ) -> None:
        """All image rows, at `below` in the addresses `at`; `finish` gets each row of results when it is
        complete."""
        b, tile, masks = w.b, self.tile, self._masks(w)
        acc: dict[tuple[int, int], Variable] = {}
        here, done = 0, 0
        for q in tile.image_rows:
            for _ in range(q - here):
                b.emit("add", below, w.slot("pitch"))
            here = q
            met = [
                (i, k) for i in range(tile.rows) for k in range(tile.kernel_rows) if tile.row_of(i, k) == q
            ]
            self._begin(w, acc, [i for i, k in met if k == 0])
            self._image_row(w, at, weights, masks, acc, met)
            while done < tile.rows and tile.row_of(done, tile.kernel_rows - 1) == q:
                finish(done, self._activated(w, [acc.pop((done, v)) for v in range(self.vectors)]))
                done += 1

    def _image_row(
        self,
        w: Workspace,
        at: Sequence[Memory],
        weights: Sequence[Variable],
        masks: dict[tuple[int, int], Variable | Memory],
        acc: dict[tuple[int, int], Variable],
        met: Sequence[tuple[int, int]],
    ) -> None:
        """What an image row gives to the output rows of `met`, each with its kernel row."""
        b, tile = w.b, self.tile
        places = [(tap, v) for tap in range(tile.kernel_columns) for v in range(self.vectors)]
        for tap, v in places if not tile.separable else ():
            image = self._image(w, at[tap] + v * w.geometry.vector_bytes, masks.get((tap, v)))
            for i, k in met:
                b.emit(self._fma(v), acc[i, v], image, weights[tap * tile.kernel_rows + k])
        for v in range(self.vectors) if tile.separable else ():
            total = self._summed(w, v, at, weights[tile.kernel_rows :], masks)
            for i, k in met:
                b.emit(self._fma(v), acc[i, v], total, weights[k])

    def _summed(
        self,
        w: Workspace,
        v: int,
        at: Sequence[Memory],
        weights: Sequence[Variable],
        masks: dict[tuple[int, int], Variable | Memory],
    ) -> Variable:
        """Vector v of an image row, summed with the row of weights."""
        b, total = w.b, w.b.vector("total")
        for tap, weight in enumerate(weights):
            place, mask = at[tap] + v * w.geometry.vector_bytes, masks.get((tap, v))
            image = place if mask is None and self._fma(v) == "fma" else self._image(w, place, mask)
            if tap == 0:
                b.emit("mul", total, weight, image)
            else:
                b.emit(self._fma(v), total, weight, image)
        return total

    def _fma(self, v: int) -> str:
        return "fma_half" if self.half and v == self.vectors - 1 else "fma"

    def weights(self, w: Workspace) -> list[Variable]:
        """All weights in registers, in the order of packing."""
        b, held = w.b, []
        for number in range(self.tile.held_weights):
            held.append(b.vector(f"weight_{number}"))
            b.emit("broadcast", held[-1], b.at(w.r.walk, 4 * (1 + number)))
        return held

    def _begin(self, w: Workspace, acc: dict[tuple[int, int], Variable], rows: Sequence[int]) -> None:
        for i in rows:
            for v in range(self.vectors):
                acc[i, v] = w.b.vector(f"result_{i}_{v}")
                w.b.emit("broadcast", acc[i, v], w.b.at(w.r.walk))

    def _masks(self, w: Workspace) -> dict[tuple[int, int], Variable | Memory]:
        """Of each load that padding may reach, the mask: in a register, or where it lies."""
        if not (self.edge and self.tile.direct):
            return {}
        b, tile, start = w.b, self.tile, w.b.general("masks")
        b.emit("mov", start, b.at(w.r.near, BlockEntry.masks.offset))
        reached = [v for v in range(self.vectors) if tile.at_edge(v, self.vectors)]
        places = {
            (tap, v): b.at(start, ((1 + tap) * max(tile.vectors) + v) * mask_bytes(w))
            for tap in range(tile.kernel_columns)
            for v in reached
        }
        if b.machine.mask_class == "vector" or len(places) >= b.machine.register_class("mask").count:
            return dict(places)
        held = {key: b.mask("lanes") for key in places}
        for key, mask in held.items():
            b.emit("load_mask", mask, places[key])
        return dict(held)

    def _image(self, w: Workspace, place: Memory, mask: Variable | Memory | None) -> Variable:
        b, image = w.b, w.b.vector("image")
        if mask is None:
            b.emit("load", image, place)
            return image
        if isinstance(mask, Memory):
            held = b.mask("lanes")
            b.emit("load_mask", held, mask)
            mask = held
        b.emit("load_masked", image, place, mask)
        return image

    def _activated(self, w: Workspace, values: Sequence[Variable]) -> list[Variable]:
        return [activate_all(BuilderMath(w.b, shared=0), self.tile.epilogue, v, no_operand) for v in values]

    def _store(self, w: Workspace, results: Sequence[Variable]) -> None:
        b, size = w.b, w.geometry.vector_bytes
        last = Last(w, self.tile, self.vectors) if self.edge else None
        for v, result in enumerate(results):
            place = b.at(w.r.out, v * size)
            if last is not None and v + 1 == len(results):
                last.store(place, result)
            else:
                b.emit("store_stream" if self.tile.stream else "store", place, result)
