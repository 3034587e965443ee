"""From a tile's registers to the result: activation, then stores, whole, masked, past the caches, or
scattered.

Cheap activations are written out for every register. Costly ones (GELU) and scattered results take the way
over the tile memory, a piece of stack that stays in the first-level cache: one loop then serves all
vectors, or all elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.epilogue import Epilogue
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.arguments import BlockEntry
from regweave.kernels.convolution.overlap import step_slot
from regweave.kernels.convolution.tile import ConvTile
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.buildermath import BuilderMath
from regweave.operators import Elementwise

Results = dict[tuple[int, int, int], Variable]
#: Vector registers that cheap activations take beside the results: a result, a constant.
_WORKING = 2


def store_results(w: Workspace, tile: ConvTile, acc: Results, edge: bool) -> None:
    """Apply the epilogue to the results [outputs, rows, vectors] and write them where the block belongs."""
    direct = Epilogue(tile.epilogue, by_vector=False).direct
    spare = len(w.b.machine.register_class("vector").registers) - len(acc) - _WORKING
    if spare < 1 and tile.epilogue:
        direct = False
    if direct and tile.epilogue:
        math = BuilderMath(w.b, shared=spare)
        acc = {key: activate_all(math, tile.epilogue, value, no_operand) for key, value in acc.items()}
    memory = None
    if not direct or not tile.dense:
        memory = to_memory(w, acc)
        if not direct:
            activate_memory(w, tile.epilogue, memory, len(acc))
    if tile.dense:
        _store_vectors(w, tile, acc, edge, memory)
    else:
        assert memory is not None
        _scatter(w, tile, acc, memory)


def no_operand(index: int) -> Variable:
    """Where an epilogue would find a second operand: a convolution's has none."""
    raise AssertionError(f"operator {index} of a convolution's epilogue takes no operand")


def to_memory(w: Workspace, acc: Mapping[Any, Variable]) -> Memory:
    """Tile memory with the results in it, one after the other."""
    size = w.geometry.vector_bytes
    memory = w.b.stack(len(acc) * size, align=64)
    for index, value in enumerate(acc.values()):
        w.b.emit("store", memory + index * size, value)
    return memory


def activate_memory(w: Workspace, epilogue: Sequence[Elementwise], memory: Memory, count: int) -> None:
    """The epilogue on `count` vectors of tile memory, in place."""
    b, here, left = w.b, w.b.general("here"), w.b.general("vectors")
    b.emit("lea", here, memory)
    b.emit("mov", left, count)
    top = b.fresh_label("activate")
    b.label(top)
    value = b.vector("value")
    b.emit("load", value, b.at(here))
    b.emit("store", b.at(here), activate_all(BuilderMath(b), tuple(epilogue), value, no_operand))
    b.emit("add", here, w.geometry.vector_bytes)
    b.emit("dec", left)
    b.emit("jump_nonzero", top)


def fetch_results(w: Workspace, tile: ConvTile, outputs: int, vectors: int) -> None:
    """Bring in the lines that the tile's results will be written to, while its products are under way."""
    for _, _, row in _rows_of(w, tile, outputs, tile.out_rows):
        for v in range(vectors):
            w.b.emit("prefetch_write", w.b.at(row, v * w.geometry.vector_bytes))


def _rows_of(w: Workspace, tile: ConvTile, outputs: int, rows: int) -> Iterator[tuple[int, int, Variable]]:
    """(filter, row) pairs of the block in order, with the address of the row's first result."""
    b, r = w.b, w.r
    b.emit("mov", r.out, w.slot("out_base"))
    b.emit("add", r.out, b.at(r.near, BlockEntry.y.offset))
    if outputs > 1:
        b.emit("mov", r.out_pitch, w.slot("y_channel"))
    row = b.general("row")
    for o in range(outputs):
        if rows > 1:
            b.emit("mov", row, r.out)
        for i in range(rows):
            yield o, i, row if rows > 1 else r.out
            if i + 1 < rows:
                b.emit("add", row, step_slot(w, tile, i))
        if o + 1 < outputs:
            b.emit("add", r.out, r.out_pitch)


def _sides(acc: Results) -> tuple[int, int]:
    """(filters, rows) of a tile of results."""
    return 1 + max(o for o, _, _ in acc), 1 + max(i for _, i, _ in acc)


def _store_vectors(w: Workspace, tile: ConvTile, acc: Results, edge: bool, memory: Memory | None) -> None:
    b, size = w.b, w.geometry.vector_bytes
    vectors = 1 + max(v for _, _, v in acc)
    order = {key: index for index, key in enumerate(acc)}
    folded = Folded(w, tile) if tile.result_pieces else None
    last = Last(w, tile, vectors) if edge and folded is None else None
    for o, i, row in _rows_of(w, tile, *_sides(acc)):
        for v in range(vectors):
            value = acc[o, i, v]
            if memory is not None:
                value = b.vector("value")
                b.emit("load", value, memory + order[o, i, v] * size)
            if folded is not None:
                folded.store(row, i, v, value)
            elif last is not None and v + 1 == vectors:
                last.store(b.at(row, v * size), value)
            else:
                b.emit("store_stream" if tile.stream else "store", b.at(row, v * size), value)


def _scatter(w: Workspace, tile: ConvTile, acc: Results, memory: Memory) -> None:
    """Element by element, the block's valid ones of each row."""
    b, size = w.b, w.geometry.vector_bytes
    vectors = 1 + max(v for _, _, v in acc)
    step, count = b.general("step"), b.general("count")
    source, to, element = b.general("from"), b.general("to"), b.general("element")
    b.emit("mov", step, w.slot("y_element"))
    for index, (_, _, row) in enumerate(_rows_of(w, tile, *_sides(acc))):
        top = b.fresh_label("element")
        b.emit("mov", count, b.at(w.r.near, BlockEntry.columns.offset))
        b.emit("lea", source, memory + index * vectors * size)
        b.emit("mov", to, row)
        b.label(top)
        b.emit("mov32", element, b.at(source))
        b.emit("mov32", b.at(to), element)
        b.emit("add", source, 4)
        b.emit("add", to, step)
        b.emit("dec", count)
        b.emit("jump_nonzero", top)


class Folded:
    """Stores vectors whose lanes are rows of several folds, a piece for each.

    Slot `row_masks` is the bytes from a block's masks to those of the tile's first row.
    """

    def __init__(self, w: Workspace, tile: ConvTile) -> None:
        self.w, self.tile, self.masks = w, tile, w.b.general("masks")
        w.b.emit("mov", self.masks, w.slot("row_masks"))
        w.b.emit("add", self.masks, w.b.at(w.r.near, BlockEntry.masks.offset))

    def store(self, row: Variable, i: int, v: int, value: Variable) -> None:
        """Vector v of row i of the tile; `row` is where that row would be in the first fold."""
        w, b, pieces = self.w, self.w.b, self.tile.result_pieces
        first = v * pieces
        for piece in range(first, first + pieces):
            mask, at = b.mask("lanes"), b.general("at")
            b.emit("mov", at, b.at(w.r.near, BlockEntry.places.offset))
            b.emit("mov", at, b.at(at, 8 * piece))
            b.emit("load_mask", mask, b.at(self.masks, i * row_masks(w, self.tile) + piece * mask_bytes(w)))
            b.emit("store_masked", b.at(row, v * w.geometry.vector_bytes, index=at), value, mask)


def row_masks(w: Workspace, tile: ConvTile) -> int:
    """Bytes of the masks of a row of folds."""
    return tile.result_pieces * max(tile.vectors) * mask_bytes(w)


class Last:
    """Stores the last vector of a block at an edge: the lanes that exist, all others are whole.

    Results that pass the caches do so here, too, if all lanes exist: a store through a mask would bring the
    line in first, and all stores behind it would wait.
    """

    def __init__(self, w: Workspace, tile: ConvTile, vectors: int) -> None:
        self.w, self.whole = w, vectors * w.geometry.lanes
        b, masks, self.mask = w.b, w.b.general("masks"), w.b.mask("lanes")
        b.emit("mov", masks, b.at(w.r.near, BlockEntry.masks.offset))
        b.emit("load_mask", self.mask, b.at(masks, (vectors - 1) * mask_bytes(w)))
        self.columns = b.general("columns") if tile.stream else None
        if self.columns is not None:
            b.emit("mov", self.columns, b.at(w.r.near, BlockEntry.columns.offset))

    def store(self, place: Memory, value: Variable) -> None:
        """The vector to its place."""
        b = self.w.b
        if self.columns is None:
            b.emit("store_masked", place, value, self.mask)
            return
        part, stored = b.fresh_label("part"), b.fresh_label("stored")
        b.emit("cmp", self.columns, self.whole)
        b.emit("jump_not_equal", part)
        b.emit("store_stream", place, value)
        b.emit("jump", stored)
        b.label(part)
        b.emit("store_masked", place, value, self.mask)
        b.label(stored)


def mask_bytes(w: Workspace) -> int:
    """Bytes of a mask in memory."""
    return w.geometry.vector_bytes if w.b.machine.mask_class == "vector" else 2
