"""Products of transformed rows, one after the other: each a tile of several filters and vectors.

    all together       3 filters x 9 products x 1 vector:  27 products, each with a weight of its own; a row
                       is read for three of them; 36 loads
    one by one         6 filters x 4 vectors:  10 loads for 24 products

A core multiplies one vector in a cycle and loads one, or two repeated elements; an unaligned vector takes
two cycles. Sums of each product go to memory, where pieces are added up (see pieces), and come back when
results are made of them. 7 x 7 at stride 2, 3 channels to 64 filters: 1.58 instead of 1.85 ms; 3 x 3 at
56 x 56, 64 to 64: 1.12 instead of 1.24 ms; with 16 registers, which hold all products of two filters only,
1.23 instead of 2.10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.epilogue import Epilogue
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.convolution.arguments import BlockEntry
from regweave.kernels.convolution.overlap import step_slot
from regweave.kernels.convolution.results import Folded, Last, activate_memory, no_operand
from regweave.kernels.convolution.tile import ConvTile
from regweave.kernels.convolution.transformed import inverse, watched
from regweave.kernels.convolution.transforms import Transform
from regweave.kernels.functions.activations import activate_all
from regweave.kernels.functions.buildermath import BuilderMath


def open_products(w: Workspace, t: Transform, count: int) -> Memory:
    """Memory for `count` vectors of each product; slot `product_at` is where those of the first belong,
    `products_left` how many are to come."""
    b, at = w.b, w.b.general("at")
    memory = w.kept_memory(f"products_{count}", count * t.products * w.geometry.vector_bytes)
    b.emit("lea", at, memory)
    b.emit("mov", w.slot("product_at"), at)
    b.emit("mov", w.slot("products_left"), t.products)
    return memory


def keep_product(w: Workspace, sums: Sequence[Variable], again: str, piece: str) -> None:
    """The sums of a piece to memory, added to those of the pieces before; to `piece` if more are to come,
    else on to the next product, and to `again` if there is one."""
    b, size = w.b, w.geometry.vector_bytes
    at, value, first = b.general("at"), b.general("value"), b.fresh_label("first_piece")
    b.emit("mov", at, w.slot("product_at"))
    b.emit("mov", value, w.slot("pieces_done"))
    b.emit("test", value, value)
    b.emit("jump_zero", first)
    for number, variable in enumerate(sums):
        b.emit("add", variable, variable, b.at(at, number * size))
    b.label(first)
    for number, variable in enumerate(sums):
        b.emit("store", b.at(at, number * size), variable)
    b.emit("mov", w.slot("pieces_done"), 1)
    b.emit("mov", value, w.slot("taps_left"))
    b.emit("test", value, value)
    b.emit("jump_nonzero", piece)
    b.emit("add", at, len(sums) * size)
    b.emit("mov", w.slot("product_at"), at)
    b.emit("add", w.r.source, w.slot("pitch"))
    w.count_down("products_left", 1, again, "jump_nonzero")


def store_apart(w: Workspace, tile: ConvTile, memory: Memory, sides: tuple[int, int], edge: bool) -> None:
    """The results of `sides` filters x vectors, of what is in `memory`, with bias and activation, to where
    they belong; their sum goes to `watched`.

    A costly activation is a loop over all results, which take the places of products until they are stored.
    """
    b, r, t, size, (outputs, vectors) = w.b, w.r, tile.transform, w.geometry.vector_bytes, sides
    assert t is not None
    direct, total = Epilogue(tile.epilogue, by_vector=False).direct, b.vector("total")

    def load(number: int, o: int, v: int) -> Variable:
        value = b.vector("product")
        b.emit("load", value, memory + ((number * outputs + o) * vectors + v) * size)
        return value

    def results(o: int, v: int) -> Iterator[Variable]:
        for value in inverse(b, t, [load(p, o, v) for p in range(t.products)]):
            b.emit("add", total, total, value)
            result = b.vector("result")
            b.emit("add", result, value, b.at(r.walk, 4 * o, repeat=True))
            yield result

    if not direct:
        b.emit("mov", r.walk, w.slot("weights"))
        b.emit("zero", total)
        for o, v in product(range(outputs), range(vectors)):
            for i, value in enumerate(results(o, v)):
                b.emit("store", memory + ((i * outputs + o) * vectors + v) * size, value)
        _watch(w, total)
        activate_memory(w, tile.epilogue, memory, t.outputs * outputs * vectors)
    folded = Folded(w, tile) if tile.result_pieces else None
    last = Last(w, tile, vectors) if edge and folded is None else None
    rows = [b.general(f"row{i}") for i in range(t.outputs)]
    if direct:
        b.emit("mov", r.walk, w.slot("weights"))
    b.emit("mov", r.out, w.slot("out_base"))
    b.emit("add", r.out, b.at(r.near, BlockEntry.y.offset))
    if direct:
        b.emit("zero", total)
    for o in range(outputs):
        for i, row in enumerate(rows):
            b.emit("mov", row, rows[i - 1] if i else r.out)
            if i:
                b.emit("add", row, step_slot(w, tile, i - 1))
        for v in range(vectors):
            for i, value in enumerate(results(o, v) if direct else (load(i, o, v) for i in range(t.outputs))):
                result = value
                if direct:
                    result = activate_all(BuilderMath(b, shared=0), tile.epilogue, value, no_operand)
                place = b.at(rows[i], v * size)
                if folded is not None:
                    folded.store(rows[i], i, v, result)
                elif last is not None and v + 1 == vectors:
                    last.store(place, result)
                else:
                    b.emit("store_stream" if tile.stream else "store", place, result)
        if o + 1 < outputs:
            b.emit("add", r.out, w.slot("y_channel"))
    if direct:
        _watch(w, total)


def _watch(w: Workspace, total: Variable) -> None:
    """`watched` stays finite only if the sum `total` is."""
    b = w.b
    b.emit("mul", total, total, b.constant(0.0))
    b.emit("add", total, total, watched(w))
    b.emit("store", watched(w), total)
