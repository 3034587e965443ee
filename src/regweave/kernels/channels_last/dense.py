"""Lanes are filters: what a pixel reads is repeated to all lanes, element by element.

    for each run of neighbouring elements, for each element:
        weights of the vectors of filters;  results[pixel] += element of that pixel * weights

Of channels last, the elements of a pixel lie one after the other, and so do those of the pixels beside it: a
kernel of 3 columns reads runs of 3 x channels elements. Nothing is rearranged, and results are whole vectors.

Sums are made in pieces, as those of products of matrices are (`kernels/chains/products.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.channels_last.arguments import SpanEntry
from regweave.kernels.channels_last.folding import FoldedRun, store_folded
from regweave.kernels.channels_last.storing import Results, ResultStore, activated
from regweave.kernels.channels_last.tiles import DenseTile
from regweave.kernels.channels_last.transformed import store_transformed
from regweave.kernels.common.workspace import Workspace
from regweave.values import frozen

#: Lanes of a filter -> what loads as many elements, again and again.
_LOADS = {1: "broadcast", 2: "broadcast_2", 4: "broadcast_4", 8: "broadcast_8", 16: "load"}
#: pixel -> (its pitch, scale): 3, 5 and 7 pixels have registers of their own.
_PLACES = {1: (1, 1), 2: (1, 2), 3: (3, 1), 4: (1, 4), 5: (5, 1), 6: (3, 2), 7: (7, 1), 8: (1, 8)}


@frozen
class DenseProducts:
    """Routine: a tile of pixels of `vectors` vectors of filters.

    Register `near` is the address of the tile's first SpanEntry and stays; slots `source` and `target` say
    where its window is read and written, `weights` where the weights of these filters start.
    """

    tile: DenseTile
    vectors: int

    @property
    def stem(self) -> str:
        return f"pixels_{self.vectors}"

    def write(self, w: Workspace) -> None:
        b, r, tile = w.b, w.r, self.tile
        spans = [b.general(f"span{number}") for number in range(len(tile.spans))]
        for number, span in enumerate(spans):
            if tile.fused is not None and number:
                b.emit("mov", span, spans[number - 1])
                b.emit("add", span, w.slot("x_step"))
                continue
            b.emit("mov", span, w.slot("source"))
            b.emit("add", span, b.at(r.near, _entry(number) + SpanEntry.x.offset))
        if tile.ahead:
            b.emit("imul", r.ahead, w.slot("x_step"), tile.pixels)
            b.emit("add", r.ahead, spans[0])
        pitches = self._pitches(w)
        acc = {
            (pixel, v): b.vector(f"result_{pixel}_{v}")
            for pixel in range(tile.pixels)
            for v in range(self.vectors)
        }
        b.emit("mov", r.walk, w.slot("weights"))
        for (_, v), result in acc.items():
            if tile.transform is None:
                b.emit("load", result, b.at(r.walk, v * w.geometry.vector_bytes))
            else:  # biases come on the way back
                b.emit("zero", result)
        b.emit("add", r.walk, self.vectors * w.geometry.vector_bytes)
        b.emit("mov", r.far, w.field("runs"))
        if tile.planar:
            b.emit("mov", r.pitch, w.field("x_element"))
        if tile.pieces:
            self._in_pieces(w, acc, spans, pitches)
        else:
            b.emit("mov", r.left, w.field("run_count"))
            self._runs(w, acc, spans, pitches)
        if tile.staged:
            results, memory = activated(w, tile.epilogue if tile.planar else (), acc)
            self._stage(w, results, memory)
        elif tile.transform is None:
            self._store(w, acc)
        else:
            store_transformed(w, tile, acc)
        b.emit("ret")

    def _pitches(self, w: Workspace) -> dict[int, Variable]:
        """Registers of 1, 3, 5 and 7 pixels, or rows of products, as far as they are needed."""
        b = w.b
        used = {_PLACES[pixel][0] for pixel in range(1, max(self.tile.spans))}
        pitches = {}
        for pixels in sorted(used | ({1} if used else set())):
            pitches[pixels] = b.general(f"pitch{pixels}")
            if pixels == 1:
                pitch = w.slot("x_step") if self.tile.fused is None else w.field("strip_row")
                b.emit("mov", pitches[1], pitch)
            elif pixels < 7:
                b.emit("lea", pitches[pixels], b.at(pitches[1], index=pitches[1], scale=pixels - 1))
            else:
                b.emit("imul", pitches[pixels], pitches[1], pixels)
        return pitches

    def _in_pieces(
        self,
        w: Workspace,
        acc: dict[tuple[int, int], Variable],
        spans: list[Variable],
        pitches: dict[int, Variable],
    ) -> None:
        """All runs, `piece_runs` at a time; what a piece gives is added in tile memory."""
        b, r, size = w.b, w.r, w.geometry.vector_bytes
        memory = w.kept_memory(f"partial_sums_{len(acc)}", size * len(acc))
        piece, complete = b.fresh_label("piece"), b.fresh_label("all_runs")
        left = b.general("runs_left")
        b.emit("mov", left, w.field("run_count"))
        b.emit("mov", w.slot("runs_left"), left)
        for number, result in enumerate(acc.values()):
            b.emit("store", memory + number * size, result)
        b.label(piece)
        for result in acc.values():
            b.emit("zero", result)
        b.emit("mov", left, w.slot("runs_left"))
        b.emit("mov", r.left, w.field("piece_runs"))
        b.emit("min", r.left, left)
        b.emit("sub", left, r.left)
        b.emit("mov", w.slot("runs_left"), left)
        self._runs(w, acc, spans, pitches)
        for number, result in enumerate(acc.values()):
            b.emit("add", result, result, memory + number * size)
        b.emit("mov", left, w.slot("runs_left"))
        b.emit("test", left, left)
        b.emit("jump_zero", complete)
        for number, result in enumerate(acc.values()):
            b.emit("store", memory + number * size, result)
        b.emit("jump", piece)
        b.label(complete)

    def _runs(
        self,
        w: Workspace,
        acc: dict[tuple[int, int], Variable],
        spans: list[Variable],
        pitches: dict[int, Variable],
    ) -> None:
        """The next `left` runs."""
        b, r = w.b, w.r
        run, step, rest, first = b.fresh_label("run"), b.fresh_label("step"), b.fresh_label("rest"), None
        if self.tile.tail:
            first = b.mask("first")
            b.emit("load_mask", first, _first_lanes(w, self.tile.split))
        b.label(run)
        for span in spans:
            b.emit("add", span, b.at(r.far))
        b.emit("add", r.far, 8)
        b.emit("mov", r.steps, w.field("run_length"))
        b.emit("align", 32)
        b.label(step)
        self._step(w, acc, spans, pitches, None)
        for line in range(self.tile.ahead):
            b.emit("prefetch", b.at(r.ahead, 64 * line))
        if self.tile.ahead:
            b.emit("add", r.ahead, 64 * self.tile.ahead)
        self._count_down(w, spans, self.tile.split, step)
        if self.tile.tail:
            b.emit("mov", r.steps, w.field("run_tail"))
            b.label(rest)
            self._step(w, acc, spans, pitches, first)
            self._count_down(w, spans, 1, rest)
        b.emit("dec", r.left)
        b.emit("jump_nonzero", run)

    def _count_down(self, w: Workspace, spans: list[Variable], elements: int, again: str) -> None:
        """On to the next elements and their weights; to `again` until all steps are done."""
        b, r = w.b, w.r
        for span in spans:
            b.emit("add", span, r.pitch if self.tile.planar else 4 * elements)
        products = 1 if self.tile.fused is None else self.tile.fused.products
        b.emit("add", r.walk, products * self.vectors * w.geometry.vector_bytes)
        b.emit("dec", r.steps)
        b.emit("jump_nonzero", again)

    def _step(
        self,
        w: Workspace,
        acc: dict[tuple[int, int], Variable],
        spans: list[Variable],
        pitches: dict[int, Variable],
        first: Variable | None,
    ) -> None:
        """A step; with the mask `first`, an element for the first of the lanes that share a filter."""
        b, t = w.b, self.tile.fused
        held = self.tile.holds_element(self.vectors, b.machine)
        weights = self._weights(w, 0)
        for pixel, (span, number) in self._order(spans):
            if t is not None and pixel and pixel < t.products:  # the first pixel's next product
                weights = self._weights(w, number)
            place = _pixel(w, span, number, pitches, repeat=not held)
            element: Variable | Memory = place
            if held:
                element = b.vector("element")
                if first is None:
                    b.emit(_LOADS[self.tile.split], element, place)
                else:
                    b.emit("broadcast_masked", element, place, first)
            for v, weight in enumerate(weights):
                b.emit("fma", acc[pixel, v], weight, element)

    def _order(self, spans: list[Variable]) -> list[tuple[int, tuple[Variable, int]]]:
        """(number, (span, place in it)) of all pixels, or products: of these the same one of all pixels."""
        places = [
            (span, at) for span, count in zip(spans, self.tile.spans, strict=True) for at in range(count)
        ]
        order = list(enumerate(places))
        return order if self.tile.fused is None else sorted(order, key=lambda entry: entry[1][1])

    def _weights(self, w: Workspace, product: int) -> list[Variable]:
        """Those of a step, for a product of a transform."""
        weights = w.b.vectors("weight", self.vectors)
        for v, weight in enumerate(weights, product * self.vectors):
            w.b.emit("load", weight, w.b.at(w.r.walk, v * w.geometry.vector_bytes))
        return weights

    def _stage(self, w: Workspace, acc: Results, memory: Mapping[tuple[int, int], Memory]) -> None:
        """Whole vectors to where a product is staged."""
        store = ResultStore(w, replace(self.tile, stream=False, masked=False), memory)
        b, r, pixel = w.b, w.r, 0
        pitch = b.general("stage_pixel")
        b.emit("mov", pitch, w.field("stage_pixel"))
        for number, pixels in enumerate(self.tile.spans):
            b.emit("mov", r.out, w.slot("target"))
            b.emit("add", r.out, b.at(r.near, _entry(number) + SpanEntry.y.offset))
            for i in range(pixels):
                if i:
                    b.emit("add", r.out, pitch)
                for v in range(self.vectors):
                    store(b.at(r.out, v * w.geometry.vector_bytes), acc, (pixel, v), masked=False)
                pixel += 1

    def _store(self, w: Workspace, acc: dict[tuple[int, int], Variable]) -> None:
        b, r, tile = w.b, w.r, self.tile
        if tile.split > 1:
            self._store_folded(w, list(acc.values()))
            return
        results, memory = activated(w, tile.epilogue, acc)
        store = ResultStore(w, tile, memory)
        pitch, pixel = b.general("y_pitch"), 0
        b.emit("mov", pitch, w.field("y_pixel"))
        for number, pixels in enumerate(tile.spans):
            b.emit("mov", r.out, w.slot("target"))
            b.emit("add", r.out, b.at(r.near, _entry(number) + SpanEntry.y.offset))
            for i in range(pixels):
                if i:
                    b.emit("add", r.out, pitch)
                for v in range(self.vectors):
                    place = b.at(r.out, v * w.geometry.vector_bytes)
                    store(place, results, (pixel, v), masked=tile.masked and v + 1 == self.vectors)
                pixel += 1

    def _store_folded(self, w: Workspace, results: list[Variable]) -> None:
        """Results of which each vector holds several, span by span."""
        b, r, tile = w.b, w.r, self.tile
        runs = [FoldedRun(b.general(f"to_{span}"), pixels) for span, pixels in enumerate(tile.spans)]
        for span, run in enumerate(runs):
            b.emit("mov", run.to, w.slot("target"))
            b.emit("add", run.to, b.at(r.near, _entry(span) + SpanEntry.y.offset))
        store_folded(w, tile, results, runs)


def _first_lanes(w: Workspace, split: int) -> Memory:
    """The mask of the first of the lanes of each filter."""
    lanes = np.arange(w.geometry.lanes) % split == 0
    if w.b.machine.mask_class == "vector":
        return w.b.data((-lanes.astype(np.int32)).tobytes())
    return w.b.data(np.packbits(lanes, bitorder="little").tobytes())


def _entry(number: int) -> int:
    """Bytes from a tile's first SpanEntry to that of a number."""
    return number * 8 * len(SpanEntry._fields_)


def _pixel(
    w: Workspace, span: Variable, number: int, pitches: dict[int, Variable], *, repeat: bool
) -> Memory:
    """The element of a pixel of a span."""
    if number == 0:
        return w.b.at(span, repeat=repeat)
    pixels, scale = _PLACES[number]
    return w.b.at(span, index=pitches[pixels], scale=scale, repeat=repeat)
