"""The tile: results in registers, taps one after the other, then bias, activation and the way to memory.

    for each tap:  at = block + taps[i]
        image vectors at `at` (and rows below it), weights at `walk`: results += vector * weight

Whichever is fewer, image vectors or weights, is held in registers for a tap, the other comes one at a time.
At an edge every image vector is loaded through a mask of its own: lanes beyond the image read nothing and
are zero, so what stands beside the image in memory, a NaN even, never enters a product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.apart import keep_product, open_products, store_apart
from regweave.kernels.convolution.arguments import BlockEntry
from regweave.kernels.convolution.pieces import in_pieces, next_piece
from regweave.kernels.convolution.results import fetch_results, mask_bytes, store_results
from regweave.kernels.convolution.tile import ConvTile
from regweave.kernels.convolution.transformed import transform_back
from regweave.values import frozen

Results = dict[tuple[int, int, int], Variable]
#: Taps from a weight that is asked for to the one in use, of transformed rows.
_TAPS_AHEAD = 24
#: Bytes along the row from a block to what is asked for meanwhile, and bytes more from channel to channel.
_AHEAD, _APART = 2048, 512


@frozen
class Products:
    """Routine: one block of `outputs` filters x `vectors` vectors, at an edge or not, the last vector at most
    half full or not.

    Register `near` is the address of the block's entry and stays; slots `base` and `out_base` say where its
    row is read and written, `weights` where its channel tile's weights start, `taps`, `pitch` how the image
    is read.
    """

    tile: ConvTile
    outputs: int
    vectors: int
    edge: bool
    half: bool = False

    @property
    def stem(self) -> str:
        return f"tile_{self.outputs}_{self.vectors}{'_half' if self.half else '_edge' if self.edge else ''}"

    @property
    def _masked(self) -> bool:
        """Whether image loads go through masks."""
        return self.edge and self.tile.direct

    def write(self, w: Workspace) -> None:
        b, r = w.b, w.r
        b.emit("mov", r.source, w.slot("base"))
        b.emit("add", r.source, b.at(r.near, BlockEntry.x.offset))
        if self.tile.dense and not self.tile.stream and not self.tile.result_pieces:
            fetch_results(w, self.tile, self.outputs, self.vectors)
        if self.tile.direct and self.tile.stream:
            self._ask_ahead(w)
        b.emit("mov", r.walk, w.slot("weights"))
        if self.tile.apart:
            self._one_by_one(w)
            b.emit("ret")
            return
        acc = self._start(w)
        b.emit("add", r.walk, 4 * self.outputs)
        b.emit("mov", r.far, w.slot("taps"))
        if self.tile.rows > 1:
            b.emit("mov", r.pitch, w.slot("pitch"))
        if self._masked:
            b.emit("mov", r.left, w.field("tap_masks"))
        if self.tile.transform is None:
            b.emit("mov", r.steps, w.field("tap_count"))
            self._taps(w, acc)
        else:
            in_pieces(w, acc.values(), lambda: self._taps(w, acc))
            acc = transform_back(w, self.tile.transform, acc)
        store_results(w, self.tile, acc, self.edge)
        b.emit("ret")

    def _ask_ahead(self, w: Workspace) -> None:
        """Ask for what the tiles below read of each of several channels, a little further from channel to
        channel: lines of different ones may compete for a place of the cache."""
        b, tile = w.b, self.tile
        left, at, step = (b.general(name) for name in ("channels_left", "below", "step"))
        again, asked = b.fresh_label("ask"), b.fresh_label("asked")
        b.emit("mov", left, w.field("channels"))
        b.emit("cmp", left, 1)
        b.emit("jump_equal", asked)
        b.emit("imul", step, w.slot("pitch"), 1 - tile.rows)  # from the last row back to the first
        b.emit("add", step, w.field("x_channel"))
        b.emit("add", step, _APART)
        b.emit("mov", at, w.slot("pitch"))
        b.emit("imul", at, w.field("lines"))
        b.emit("add", at, w.r.source)
        b.label(again)
        for row in range(tile.rows):
            if row:
                b.emit("add", at, w.slot("pitch"))
            for v in range(self.vectors):
                b.emit("prefetch_l2", b.at(at, _AHEAD + v * w.geometry.vector_bytes))
        b.emit("add", at, step)
        b.emit("dec", left)
        b.emit("jump_nonzero", again)
        b.label(asked)

    def _one_by_one(self, w: Workspace) -> None:
        """A transform's products one after the other (see apart): each is a tile of one row."""
        b, r, tile = w.b, w.r, self.tile
        assert tile.transform is not None
        flat = replace(self, tile=replace(tile, transform=None, rows=1, kernel_rows=1))
        again, piece = b.fresh_label("product"), b.fresh_label("piece")
        b.emit("add", r.walk, 4 * self.outputs)
        memory = open_products(w, tile.transform, self.outputs * self.vectors)
        b.label(again)
        b.emit("mov", r.far, w.slot("taps"))
        taps = b.general("taps_left")
        b.emit("mov", taps, w.field("tap_count"))
        b.emit("mov", w.slot("taps_left"), taps)
        b.emit("mov", w.slot("pieces_done"), 0)
        b.label(piece)
        next_piece(w, tile.taps_together)
        acc = flat._start(w)
        flat._taps(w, acc)
        keep_product(w, list(acc.values()), again, piece)
        store_apart(w, tile, memory, (self.outputs, self.vectors), self.edge)

    def _taps(self, w: Workspace, acc: Results) -> None:
        """The next `steps` taps, several in a step of the loop."""
        b, r, together = w.b, w.r, self.tile.taps_together
        top = b.fresh_label("tap")
        b.emit("align", 32)
        b.label(top)
        for number in range(together):
            self._tap(w, acc, number)
        step = 4 * self.outputs * self.tile.kernel_rows
        if (self.tile.transform is not None or self.tile.apart) and self.tile.result_pieces:
            # a small map has few products for each weight: these are asked for in time
            for line in range(0, step * together, 64):
                b.emit("prefetch", b.at(r.walk, _TAPS_AHEAD * step + line))
        b.emit("add", r.far, 8 * together)
        b.emit("add", r.walk, step * together)
        if together > 1:
            b.emit("sub", r.steps, together)
        else:
            b.emit("dec", r.steps)
        b.emit("jump_nonzero", top)

    def _start(self, w: Workspace) -> Results:
        """Every result = its filter's bias; those of a transform get it on the way back."""
        b, acc, transform = w.b, {}, self.tile.transform
        for o in range(self.outputs):
            for row in range(self.tile.rows):
                for v in range(self.vectors):
                    acc[o, row, v] = b.vector(f"result_{o}_{row}_{v}")
                    if transform is None and not self.tile.apart:
                        b.emit("broadcast", acc[o, row, v], b.at(w.r.walk, 4 * o))
                    else:
                        b.emit("zero", acc[o, row, v])
        return acc

    def _tap(self, w: Workspace, acc: Results, number: int) -> None:
        """Tap `number` of those that are written out."""
        b, r, tile = w.b, w.r, self.tile
        at, first = r.ahead, number * tile.kernel_rows
        b.emit("mov", at, b.at(r.far, 8 * number))
        b.emit("add", at, r.source)
        load = self._loader(w)
        room = len(b.machine.register_class("vector").registers) - len(acc) - 1
        room -= self._masked and b.machine.mask_class == "vector"
        images = len(tile.image_rows) * self.vectors
        weights = self.outputs * tile.kernel_rows
        if images <= min(weights, room) or weights > room >= images:
            self._hold_images(w, acc, load, first)
        else:
            self._hold_weights(w, acc, load, room, first)

    def _loader(self, w: Workspace) -> Callable[[int, Memory], Variable]:
        """What loads image vector v from an address: through its mask at an edge."""
        b, r, size = w.b, w.r, w.geometry.vector_bytes
        if not self._masked:

            def load(v: int, at: Memory) -> Variable:
                image = b.vector("image")
                b.emit("load_half" if self._is_half(v) else "load", image, at + v * size)
                return image

            return load
        masks, step = r.out_far, mask_bytes(w)
        b.emit("mov", masks, b.at(r.left))
        b.emit("add", masks, b.at(r.near, BlockEntry.masks.offset))
        b.emit("add", r.left, 8)

        held: dict[int, Variable] = {}

        def load_masked(v: int, at: Memory) -> Variable:
            image = b.vector("image")
            if not self.tile.at_edge(v, self.vectors):
                b.emit("load_half" if self._is_half(v) else "load", image, at + v * size)
                return image
            if v not in held or b.machine.mask_class == "vector":
                held[v] = b.mask("lanes")
                b.emit("load_mask", held[v], b.at(masks, v * step))
            b.emit("load_masked", image, at + v * size, held[v])
            return image

        return load_masked

    def _rows(self, w: Workspace) -> Callable[[int], Memory]:
        """What gives an image row's address; to be asked for rows in ascending order."""
        b, r, here = w.b, w.r, 0

        def row(q: int) -> Memory:
            nonlocal here
            while here < q:
                step = 1
                if q - here >= 2:  # lea takes two pitches at once
                    b.emit("lea", r.ahead, b.at(r.ahead, index=r.pitch, scale=2))
                    step = 2
                else:
                    b.emit("add", r.ahead, r.pitch)
                here += step
            return b.at(r.ahead)

        return row

    def _hold_images(
        self, w: Workspace, acc: Results, load: Callable[[int, Memory], Variable], first: int
    ) -> None:
        tile, row = self.tile, self._rows(w)
        images = {(q, v): load(v, row(q)) for q in tile.image_rows for v in range(self.vectors)}
        for k in range(tile.kernel_rows):
            for o in range(self.outputs):
                once = len(tile.rows_of(k)) * self.vectors == 1 and not self.half
                weight = self._weight_at(w, first + k, o) if once else self._weight(w, first + k, o)
                for i in tile.rows_of(k):
                    for v in range(self.vectors):
                        self._multiply(w, v, acc[o, i, v], images[tile.row_of(i, k), v], weight)

    def _hold_weights(
        self, w: Workspace, acc: Results, load: Callable[[int, Memory], Variable], room: int, first: int
    ) -> None:
        """Weights in registers from the first image row that meets them to the last; where these do not find
        room they are read by each product."""
        tile, row = self.tile, self._rows(w)
        met: dict[int, list[tuple[int, int]]] = {q: [] for q in tile.image_rows}
        spans = []
        for k in range(tile.kernel_rows):
            for i in tile.rows_of(k):
                met[tile.row_of(i, k)].append((k, i))
            rows = [tile.row_of(i, k) for i in tile.rows_of(k)]
            spans.append(range(min(rows), max(rows) + 1))
        # what is used once is read by the product itself: of such loads there are two in a cycle
        once = tile.transform is not None and self.vectors == 1
        held = not once and max(sum(q in span for span in spans) for q in met) * self.outputs <= room
        weights: dict[tuple[int, int], Variable | Memory] = {}
        for q in tile.image_rows:
            place = row(q)
            for k, o in product((k for k, _ in met[q]), range(self.outputs)):
                if (k, o) not in weights:
                    weight = self._weight if held else self._weight_at
                    weights[k, o] = weight(w, first + k, o)
            for v in range(self.vectors):
                image = load(v, place)
                for k, i in met[q]:
                    for o in range(self.outputs):
                        self._multiply(w, v, acc[o, i, v], image, weights[k, o])

    def _is_half(self, v: int) -> bool:
        return self.half and v == self.vectors - 1

    def _multiply(
        self, w: Workspace, v: int, result: Variable, image: Variable, weight: Variable | Memory
    ) -> None:
        """result += image * weight, for vector v of the block."""
        if not self._is_half(v):
            w.b.emit("fma", result, image, weight)
            return
        if isinstance(weight, Memory):
            held = w.b.vector("weight")
            w.b.emit("broadcast_half", held, Memory("m", weight.base, weight.offset))
            weight = held
        w.b.emit("fma_half", result, image, weight)

    def _weight(self, w: Workspace, k: int, o: int) -> Variable:
        weight = w.b.vector("weight")
        w.b.emit(
            "broadcast_half" if self._is_half(0) else "broadcast",
            weight,
            w.b.at(w.r.walk, 4 * (k * self.outputs + o)),
        )
        return weight

    def _weight_at(self, w: Workspace, k: int, o: int) -> Memory:
        return w.b.at(w.r.walk, 4 * (k * self.outputs + o), repeat=True)
