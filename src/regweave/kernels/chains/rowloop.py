"""The row loop: epilogue and stores of a tile that went through memory, one vector at a time.

    tile memory (1.5 KB of stack)  ->  load vector  ->  all operators  ->  store, whole or masked

Taken by epilogues that are too long to be written out for a whole tile (GELU), by those that read other
tensors, by the smaller tiles at the end of a block, and by panels whose width is known only at run time.
One body serves every vector of every tile size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.epilogue import Columns, Epilogue, lane_mask, store_part
from regweave.kernels.common.places import InBlocks, Strided
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.functions.activations import activate_all, lookup_tables
from regweave.kernels.functions.buildermath import BuilderMath, Table, Value, held_tables
from regweave.values import frozen

Tables = Mapping[Table, Variable]


@frozen
class RowLoop:
    """Routine: epilogue and stores of a tile in the tile memory, `steps` rows of it, `out` moved past them.

    Reads operands at `walk` or `near`, extra tensor t from slot `extra<t>_here`, which moves on as well.
    `extras` is the pattern of the extra tensors, whose rows or blocks are slot `extra_pitch` bytes apart.
    """

    epilogue: Epilogue
    place: Strided | InBlocks
    extras: Strided | InBlocks
    vectors: int
    columns: Columns
    stream: bool

    @property
    def stem(self) -> str:
        return "rows"

    def write(self, w: Workspace) -> None:
        b, r, g = w.b, w.r, w.geometry
        tile, offset = b.general("tile"), b.general("offset")
        starts = [b.general(f"extra{t}") for t in range(self.epilogue.tensors)]
        b.emit("lea", tile, w.tile_memory())
        for t, start in enumerate(starts):
            b.emit("mov", start, w.slot(f"extra{t}_here"))
        masks: dict[int | None, Variable] = {}
        if self.columns.rest is None:
            masks[None] = lane_mask(w, w.slot("rest"))
        elif isinstance(self.place, Strided):
            masks |= {n: lane_mask(w, n) for n in set(self.columns.rest)}
        tables = held_tables(b, lookup_tables(self.epilogue.ops, g.lanes))
        top = b.fresh_label("row")
        b.label(top)
        blocked = isinstance(self.place, InBlocks) or isinstance(self.extras, InBlocks)
        if blocked:
            self._written_out_row(w, tile, starts, masks, tables)
        else:
            self._looped_row(w, tile, offset, starts, masks, tables)
        b.emit(
            "add", r.out, 4 * self.place.block if isinstance(self.place, InBlocks) else w.slot("out_pitch")
        )
        row_bytes = 4 * self.extras.block if isinstance(self.extras, InBlocks) else w.slot("extra_pitch")
        b.emit("add", tile, g.panel_bytes)
        for start in starts:
            b.emit("add", start, row_bytes)
        if not self.epilogue.by_vector and self.epilogue.channels:
            b.emit("add", r.near, 4 * self.epilogue.channels)
        b.emit("dec", r.steps)
        b.emit("jump_nonzero", top)
        for t, start in enumerate(starts):
            b.emit("mov", w.slot(f"extra{t}_here"), start)
        b.emit("ret")

    def _looped_row(
        self,
        w: Workspace,
        tile: Variable,
        offset: Variable,
        starts: Sequence[Variable],
        masks: dict[int | None, Variable],
        tables: Tables,
    ) -> None:
        """One row, vectors side by side: a loop over the whole ones, then those that exist in part."""
        b, r, size = w.b, w.r, w.geometry.vector_bytes
        b.emit("zero", offset)
        skip = b.fresh_label("whole_done")
        if self.columns.full is None:
            b.emit("cmp", offset, w.slot("full_bytes"))
            b.emit("jump_greater_equal", skip)
        if self.columns.full != 0:
            top = b.fresh_label("vector")
            b.label(top)
            result = self._vector(w, b.at(tile, index=offset), offset, starts, None, tables)
            b.emit("store_stream" if self.stream else "store", b.at(r.out, index=offset), result)
            b.emit("add", offset, size)
            end = w.slot("full_bytes") if self.columns.full is None else self.columns.full * size
            b.emit("cmp", offset, end)
            b.emit("jump_less", top)
        b.label(skip)
        if self.columns.rest is None:
            none = b.fresh_label("no_rest")
            b.emit("cmp", w.slot("rest"), 0)
            b.emit("jump_equal", none)
            self._part(w, tile, offset, starts, masks[None], tables)
            b.label(none)
        else:
            for count in self.columns.rest:
                self._part(w, tile, offset, starts, masks[count], tables)
                b.emit("add", offset, size)

    def _part(
        self,
        w: Workspace,
        tile: Variable,
        offset: Variable,
        starts: Sequence[Variable],
        mask: Variable,
        tables: Tables,
    ) -> None:
        result = self._vector(w, w.b.at(tile, index=offset), offset, starts, mask, tables)
        w.b.emit("store_masked", w.b.at(w.r.out, index=offset), result, mask)

    def _vector(
        self,
        w: Workspace,
        source: Memory,
        offset: Variable,
        starts: Sequence[Variable],
        mask: Variable | None,
        tables: Tables,
    ) -> Variable:
        """The epilogue on the vector at `offset` of a row."""
        b = w.b

        def load(index: int) -> Value:
            o = self.epilogue.ordinal(index)
            if self.epilogue.ops[index].operand == "tensor":
                return _loaded(w, b.at(starts[o], index=offset), mask)
            if self.epilogue.by_vector:
                return b.at(w.r.walk, o * self.vectors * w.geometry.vector_bytes, index=offset)
            return b.at(w.r.near, 4 * o, repeat=True)

        value = b.vector("value")
        b.emit("load", value, source)
        return activate_all(BuilderMath(b, tables=tables), self.epilogue.ops, value, load)  # type: ignore[arg-type]

    def _written_out_row(
        self,
        w: Workspace,
        tile: Variable,
        starts: Sequence[Variable],
        masks: dict[int | None, Variable],
        tables: Tables,
    ) -> None:
        """One row where results or extra tensors lie in blocks: vector by vector."""
        b, g = w.b, w.geometry
        assert self.columns.full is not None
        assert self.columns.rest is not None
        self.place.prepare(w, 1)
        pitch = b.general("extra_pitch")
        if starts:
            b.emit("mov", pitch, w.slot("extra_pitch"))
        for j in range(self.vectors):

            def load(index: int, j: int = j) -> Value:
                o = self.epilogue.ordinal(index)
                if self.epilogue.ops[index].operand == "tensor":
                    assert isinstance(self.extras, InBlocks)
                    return self.extras.beside(w, starts[o], pitch, j)
                return b.at(w.r.walk, (o * self.vectors + j) * g.vector_bytes)

            value = b.vector("value")
            b.emit("load", value, b.at(tile, j * g.vector_bytes))
            result = activate_all(BuilderMath(b, tables=tables), self.epilogue.ops, value, load)  # type: ignore[arg-type]
            to = self.place.at(w, 0, j)
            if j < self.columns.full:
                b.emit("store_stream" if self.stream else "store", to, result)
            else:
                valid = self.columns.rest[j - self.columns.full]
                store_part(w, self.place, to, result, valid, masks.get(valid))


def _loaded(w: Workspace, where: Memory, mask: Variable | None) -> Value:
    """A tensor operand: read from memory where whole, through the mask where not."""
    if mask is None:
        return where
    value = w.b.vector("extra")
    w.b.emit("load_masked", value, where, mask)
    return value
