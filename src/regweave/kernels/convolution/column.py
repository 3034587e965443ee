"""A tile for one channel: all weights in registers, rows coming in from above, results going out below.

    for each image row:  for each kernel column: one image vector, a product for each output row that meets it

An output row takes registers from its first image row to its last, so as many rows are under way as the
kernel is high, however many the tile has; an image row is loaded once for all of them. A 5 x 5 kernel: 25
weights, 5 results, one image vector, and per image row 5 loads for 25 products. Nothing is read twice in
one tile, which also spares the first-level cache where rows start a multiple of its size apart.

Where the weights are a column times a row (separable), an image row is summed with the row of weights once,
and each output row gets that sum times a weight of the column: 10 products instead of 25.

Every other element of a row (stride 2) comes from two vectors that follow each other: columns one apart share
them, the even elements are one's, the odd ones the other's. Image rows that do not exist are stepped over, so
all padding is done without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.arguments import BlockEntry
from regweave.kernels.convolution.copying import Halves
from regweave.kernels.convolution.results import Last, fetch_results, mask_bytes, no_operand
from regweave.kernels.convolution.tile import ConvTile
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.buildermath import BuilderMath
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
        if not tile.stream and max(tile.vectors) > 1:
            fetch_results(w, tile, 1, self.vectors)
        b.emit("mov", r.out, w.slot("out_base"))
        b.emit("add", r.out, b.at(r.near, BlockEntry.y.offset))
        b.emit("zero", below)

        wide = b.machine.mask_class == "mask"
        last = Last(w, tile, self.vectors) if self.edge and wide else None

        def finish(row: int, results: Sequence[Variable]) -> None:
            self._store(w, results, last)
            if row + 1 < tile.rows:
                b.emit("add", r.out, w.slot("y_row"))

        self.rows(w, at, below, weights, finish)
        b.emit("ret")

    def addresses(self, w: Workspace, below: Variable) -> list[Memory]:
        """Where each read of a row begins for the block's first result, `below` bytes from the first row: one
        for each kernel column, or as of ConvTile.reads."""
        b, source, table = w.b, w.b.general("start"), w.b.general("table")
        b.emit("mov", source, w.slot("base"))
        b.emit("add", source, b.at(w.r.near, BlockEntry.x.offset))
        b.emit("mov", table, w.slot("taps"))
        columns, step = self.tile.kernel_columns, self.tile.column_bytes
        at = [b.general(f"column{tap}") for tap in range(1 if step else columns)]
        for tap, place in enumerate(at):
            b.emit("mov", place, b.at(table, 8 * tap))
            b.emit("add", place, source)
        if self.tile.direct:
            return [b.at(at[0], 4 * first, index=below) for first in self.tile.reads(w.geometry.lanes)]
        return [b.at(at[0 if step else tap], step * tap, index=below) for tap in range(columns)]

    def rows(
        self,
        w: Workspace,
        at: Sequence[Memory],
        below: Variable,
        weights: Sequence[Variable | Memory],
        finish: Callable[[int, Sequence[Variable]], None],
    ) -> None:
        """All image rows, at `below` in the addresses `at`; `finish` gets each row of results when it is
        complete. Rows that do not exist add nothing."""
        b, tile, masks = w.b, self.tile, self.masks(w, len(at))
        pairs = Halves(w, (0, 1)) if tile.row_step == 2 else None
        acc: dict[tuple[int, int], Variable] = {}
        here, done, lines = 0, 0, 1 + tile.image_rows[-1]
        for q in tile.image_rows:
            for _ in range(q - here):
                b.emit("add", below, w.slot("pitch"))
            here = q
            met = [
                (i, k) for i in range(tile.rows) for k in range(tile.kernel_rows) if tile.row_of(i, k) == q
            ]
            self.begin(w, acc, [i for i, k in met if k == 0])
            absent = b.fresh_label("absent")
            maybe = q < tile.missing[0] or q >= lines - tile.missing[1]
            if maybe:
                line = b.general("line")
                b.emit("mov", line, w.slot("line"))
                b.emit("add", line, q)
                b.emit("cmp", line, w.field("height"))  # unsigned: a row above the image is far behind it
                b.emit("jump_above_equal", absent)
            self.image_row(w, Reads(w, at, masks, pairs), weights, acc, met)
            if maybe:
                b.label(absent)
            while done < tile.rows and tile.row_of(done, tile.kernel_rows - 1) == q:
                finish(done, self.activated(w, [acc.pop((done, v)) for v in range(self.vectors)]))
                done += 1

    def image_row(
        self,
        w: Workspace,
        reads: Reads,
        weights: Sequence[Variable | Memory],
        acc: dict[tuple[int, int], Variable],
        met: Sequence[tuple[int, int]],
    ) -> None:
        """What an image row gives to the output rows of `met`, each with its kernel row."""
        tile, shared = self.tile, self._shares_weights(w, weights)
        if tile.separable and shared:
            totals = self._summed_together(w, reads, weights[tile.kernel_rows :])
            for i, k in met:
                self._multiply_all(w, [acc[i, v] for v in range(self.vectors)], totals, weights[k])
            return
        if tile.separable:
            for v in range(self.vectors):
                total = self._summed(w, v, reads, weights[tile.kernel_rows :])
                for i, k in met:
                    self._multiply(w, v, acc[i, v], total, weights[k])
            return
        if shared:
            for tap in range(tile.kernel_columns):
                images = [reads.vector(tap, v) for v in range(self.vectors)]
                for i, k in met:
                    weight = weights[tap * tile.kernel_rows + k]
                    self._multiply_all(w, [acc[i, v] for v in range(self.vectors)], images, weight)
            return
        if tile.row_step == 2:
            apart = self._two_apart(reads)
        else:
            apart = (
                (tap, v, reads.vector(tap, v))
                for tap in range(tile.kernel_columns)
                for v in range(self.vectors)
            )
        for tap, v, image in apart:
            for i, k in met:
                self._multiply(w, v, acc[i, v], image, weights[tap * tile.kernel_rows + k])

    def _shares_weights(self, w: Workspace, weights: Sequence[Variable | Memory]) -> bool:
        """Whether a weight that is left in memory is loaded once for all vectors: where no product can repeat
        it by itself, each would load it anew."""
        few = w.b.machine.mask_class == "vector" and self.tile.rolling
        return few and any(isinstance(weight, Memory) for weight in weights)

    def _multiply_all(
        self, w: Workspace, results: Sequence[Variable], images: Sequence[Variable], weight: Variable | Memory
    ) -> None:
        """results += images * weight, which is loaded once."""
        weight = self._in_register(w, weight)
        for result, image in zip(results, images, strict=True):
            w.b.emit("fma", result, image, weight)

    def _in_register(self, w: Workspace, weight: Variable | Memory) -> Variable:
        if isinstance(weight, Variable):
            return weight
        held = w.b.vector("weight")
        w.b.emit("broadcast", held, Memory("m", weight.base, weight.offset))
        return held

    def _two_apart(self, reads: Reads) -> Iterator[tuple[int, int, Variable]]:
        """(kernel column, vector of results, what it reads): every other element."""
        tile, step = self.tile, self.tile.column_bytes // 4
        columns = [tap * step for tap in range(tile.kernel_columns)]
        assert reads.pairs is not None
        for v in range(self.vectors):
            for number, first in enumerate(sorted({column & ~1 for column in columns})):
                low = reads.vector(2 * number, 2 * v)
                high = None if self._is_half(v) else reads.vector(2 * number + 1, 2 * v)
                for place in range(2):
                    if first + place in columns:
                        yield columns.index(first + place), v, reads.pairs.one(place, low, high)

    def _summed(self, w: Workspace, v: int, reads: Reads, weights: Sequence[Variable | Memory]) -> Variable:
        """Vector v of an image row, summed with the row of weights."""
        b, total = w.b, w.b.vector("total")
        for tap, weight in enumerate(weights):
            image = reads.place(tap, v) if not self._is_half(v) else None
            image = image or reads.vector(tap, v)
            if tap == 0:
                b.emit("mul", total, weight, image)
            else:
                b.emit("fma_half" if self._is_half(v) else "fma", total, weight, image)
        return total

    def _summed_together(
        self, w: Workspace, reads: Reads, weights: Sequence[Variable | Memory]
    ) -> list[Variable]:
        """All vectors of an image row, summed with the row of weights."""
        totals = [w.b.vector("total") for _ in range(self.vectors)]
        for tap, weight in enumerate(weights):
            held = self._in_register(w, weight)
            for v, total in enumerate(totals):
                w.b.emit("fma" if tap else "mul", total, held, reads.place(tap, v) or reads.vector(tap, v))
        return totals

    def _is_half(self, v: int) -> bool:
        return self.half and v == self.vectors - 1

    def _multiply(
        self, w: Workspace, v: int, result: Variable, image: Variable, weight: Variable | Memory
    ) -> None:
        if self._is_half(v) and isinstance(weight, Memory):
            held = w.b.vector("weight")
            w.b.emit("broadcast_half", held, Memory("m", weight.base, weight.offset))
            weight = held
        w.b.emit("fma_half" if self._is_half(v) else "fma", result, image, weight)

    def weights(self, w: Workspace) -> list[Variable | Memory]:
        """All weights, in the order of packing: in registers, those that are left over where they lie."""
        b, tile = w.b, self.tile
        held: list[Variable | Memory] = []
        for number in range(tile.held_weights):
            weight = b.vector(f"weight_{number}")
            b.emit("broadcast", weight, b.at(w.r.walk, 4 * (1 + number)))
            held.append(weight)
        far = range(tile.held_weights, tile.held_weights + tile.far_weights)
        return [*held, *(b.at(w.r.walk, 4 * (1 + number), repeat=True) for number in far)]

    def begin(self, w: Workspace, acc: dict[tuple[int, int], Variable], rows: Sequence[int]) -> None:
        for i in rows:
            for v in range(self.vectors):
                acc[i, v] = w.b.vector(f"result_{i}_{v}")
                w.b.emit("broadcast", acc[i, v], w.b.at(w.r.walk))

    def masks(self, w: Workspace, reads: int) -> dict[tuple[int, int], Variable | Memory]:
        """Of each load that padding may reach, (read, vector of results), the mask: in a register, or where
        it lies."""
        if not (self.edge and self.tile.direct):
            return {}
        b, tile, start = w.b, self.tile, w.b.general("masks")
        b.emit("mov", start, b.at(w.r.near, BlockEntry.masks.offset))
        reached = [v for v in range(self.vectors) if tile.at_edge(v, self.vectors)]
        places = {
            (read, v): b.at(start, ((1 + read) * max(tile.vectors) + v) * mask_bytes(w))
            for read in range(reads)
            for v in reached
            if not (self._is_half(v) and tile.row_step == 2 and read % 2)
        }
        if b.machine.mask_class == "vector" or len(places) >= b.machine.register_class("mask").count:
            return dict(places)
        held = {key: b.mask("lanes") for key in places}
        for key, mask in held.items():
            b.emit("load_mask", mask, places[key])
        return dict(held)

    def activated(self, w: Workspace, values: Sequence[Variable]) -> list[Variable]:
        return [activate_all(BuilderMath(w.b, shared=0), self.tile.epilogue, v, no_operand) for v in values]

    def _store(self, w: Workspace, results: Sequence[Variable], last: Last | None) -> None:
        b, size = w.b, w.geometry.vector_bytes
        if self.edge and last is None:  # where a mask takes a vector register
            last = Last(w, self.tile, self.vectors)
        for v, result in enumerate(results):
            place = b.at(w.r.out, v * size)
            if last is not None and v + 1 == len(results):
                last.store(place, result)
            else:
                b.emit("store_stream" if self.tile.stream else "store", place, result)


@frozen(eq=False)
class Reads:
    """How an image row is read: addresses, masks of (read, vector of results), what takes pairs apart."""

    w: Workspace
    at: Sequence[Memory]
    masks: dict[tuple[int, int], Variable | Memory]
    pairs: Halves | None

    def place(self, read: int, v: int) -> Memory | None:
        """Where a vector is read without a mask; None with one."""
        return None if (read, v) in self.masks else self.at[read] + v * self.w.geometry.vector_bytes

    def vector(self, read: int, v: int) -> Variable:
        """The vector of image elements of a read, v vectors on; through its mask at an edge."""
        b, image = self.w.b, self.w.b.vector("image")
        mask = self.masks.get((read, v // (1 if self.pairs is None else 2)))
        place = self.at[read] + v * self.w.geometry.vector_bytes
        if mask is None:
            b.emit("load", image, place)
            return image
        if isinstance(mask, Memory):
            held = b.mask("lanes")
            b.emit("load_mask", held, mask)
            mask = held
        b.emit("load_masked", image, place, mask)
        return image
