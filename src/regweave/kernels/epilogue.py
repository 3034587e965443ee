"""The work behind a product, done while the results are in registers, and their way to memory.

Cheap work (bias, scale, ReLU, clip, ...) is written out for all accumulators of a tile at once. Everything
else takes the *row loop*: the tile goes to 1.5 KB of stack, which stays in the first-level cache, and comes
back one vector at a time. A GELU is some 20 instructions; written out for 24 accumulators and every tile
size it would be thousands, and the round trip costs 1 % where it is taken. Vectors do not depend on each
other, so the processor overlaps them.

Rows beyond the width: `valid` says how many lanes of each vector exist. The others are not written (rows,
pixels) or written as zeros (blocks, whose padding must stay zero).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.activations import activate_all, operation_counts
from regweave.kernels.buildermath import BuilderMath, Value
from regweave.kernels.places import InBlocks, Strided
from regweave.kernels.workspace import Workspace
from regweave.operators import Elementwise

#: Operations per vector up to which an epilogue is written out for a whole tile.
_CHEAP = 4
#: Operations of which even one is too much for that.
_COSTLY = ("div", "split", "scale")


@dataclass(frozen=True)
class Epilogue:
    """Element-wise operators with the place of their channel operands.

    `by_vector`: channels are the lanes (rows, blocks), operand o of vector j stands behind the panel of
    weights at walk + (o * vectors + j) * vector bytes. Otherwise channels are the tile's rows (pixels),
    operand o of channel i is the one element at near + 4 * (i * channels + o).
    """

    ops: tuple[Elementwise, ...]
    by_vector: bool

    @property
    def channels(self) -> int:
        """How many channel operands it takes."""
        return sum(op.operand == "channel" for op in self.ops)

    @property
    def tensors(self) -> int:
        """How many whole tensors it reads."""
        return sum(op.operand == "tensor" for op in self.ops)

    @property
    def direct(self) -> bool:
        """Whether it is written out for a whole tile."""
        counts = operation_counts(self.ops)
        return (
            not self.tensors
            and sum(counts.values()) <= _CHEAP
            and not any(name in counts for name in _COSTLY)
        )

    def ordinal(self, index: int) -> int:
        """The number of operator `index` among those with the same kind of operand."""
        return sum(op.operand == self.ops[index].operand for op in self.ops[:index])


@dataclass(frozen=True)
class Columns:
    """The vectors of a panel row: `full` whole ones, then one for each count in `rest` with that many valid
    lanes.

    None in both: slots `full_bytes` and `rest` (lanes of one more vector, 0: none) say it at run time.
    """

    full: int | None
    rest: tuple[int, ...] | None

    @classmethod
    def of(cls, lanes: int, vectors: int, columns: int) -> Columns:
        """`vectors` vectors of which the first `columns` lanes are valid."""
        valid = [min(lanes, max(0, columns - j * lanes)) for j in range(vectors)]
        full = sum(count == lanes for count in valid)
        return cls(full, tuple(valid[full:]))


def finish_tile(
    w: Workspace,
    epilogue: Epilogue,
    place: Strided | InBlocks,
    acc: Sequence[Sequence[Variable]],
    columns: Columns,
    stream: bool,
) -> None:
    """Epilogue and stores of a tile in registers; needs `place.prepare`. For direct epilogues."""
    b, size = w.b, w.geometry.vector_bytes
    math = BuilderMath(b)
    assert columns.full is not None
    assert columns.rest is not None
    masks = {n: _lane_mask(w, n) for n in set(columns.rest)} if isinstance(place, Strided) else {}
    vectors = len(acc[0])
    for i, row in enumerate(acc):
        for j, value in enumerate(row):

            def load(index: int, i: int = i, j: int = j) -> Value:
                o = epilogue.ordinal(index)
                if epilogue.by_vector:
                    return b.at(w.r.walk, (o * vectors + j) * size)
                return b.at(w.r.near, 4 * (i * epilogue.channels + o), repeat=True)

            result = activate_all(math, epilogue.ops, value, load)  # type: ignore[arg-type]
            if j < columns.full:
                b.emit("store_stream" if stream else "store", place.at(w, i, j), result)
                continue
            valid = columns.rest[j - columns.full]
            _store_part(w, place, place.at(w, i, j), result, valid, masks.get(valid))


def _lane_mask(w: Workspace, count: int | Memory) -> Variable:
    """A mask of the first `count` lanes."""
    number, mask = w.b.general("lanes"), w.b.mask("mask")
    w.b.emit("mov", number, count)
    w.b.emit("mask_from_count", mask, number)
    return mask


def _store_part(
    w: Workspace, place: Strided | InBlocks, to: Memory, value: Variable, valid: int, mask: Variable | None
) -> None:
    """Store a vector of which some lanes exist."""
    b = w.b
    if isinstance(place, Strided):
        b.emit("store_masked", to, value, mask)
        return
    kept = b.vector("kept")
    if valid == 0:
        b.emit("zero", kept)
    else:
        lanes = w.geometry.lanes
        words = b.data(b"".join((b"\xff" if n < valid else b"\0") * 4 for n in range(lanes)))
        b.emit("and", kept, value, words)
    b.emit("store", to, kept)


@dataclass(frozen=True)
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
            masks[None] = _lane_mask(w, w.slot("rest"))
        elif isinstance(self.place, Strided):
            masks |= {n: _lane_mask(w, n) for n in set(self.columns.rest)}
        top = b.fresh_label("row")
        b.label(top)
        blocked = isinstance(self.place, InBlocks) or isinstance(self.extras, InBlocks)
        if blocked:
            self._written_out_row(w, tile, starts, masks)
        else:
            self._looped_row(w, tile, offset, starts, masks)
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
            result = self._vector(w, b.at(tile, index=offset), offset, starts, None)
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
            self._part(w, tile, offset, starts, masks[None])
            b.label(none)
        else:
            for count in self.columns.rest:
                self._part(w, tile, offset, starts, masks[count])
                b.emit("add", offset, size)

    def _part(
        self, w: Workspace, tile: Variable, offset: Variable, starts: Sequence[Variable], mask: Variable
    ) -> None:
        result = self._vector(w, w.b.at(tile, index=offset), offset, starts, mask)
        w.b.emit("store_masked", w.b.at(w.r.out, index=offset), result, mask)

    def _vector(
        self,
        w: Workspace,
        source: Memory,
        offset: Variable,
        starts: Sequence[Variable],
        mask: Variable | None,
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
        return activate_all(BuilderMath(b), self.epilogue.ops, value, load)  # type: ignore[arg-type]

    def _written_out_row(
        self, w: Workspace, tile: Variable, starts: Sequence[Variable], masks: dict[int | None, Variable]
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
            result = activate_all(BuilderMath(b), self.epilogue.ops, value, load)  # type: ignore[arg-type]
            to = self.place.at(w, 0, j)
            if j < self.columns.full:
                b.emit("store_stream" if self.stream else "store", to, result)
            else:
                valid = self.columns.rest[j - self.columns.full]
                _store_part(w, self.place, to, result, valid, masks.get(valid))


def _loaded(w: Workspace, where: Memory, mask: Variable | None) -> Value:
    """A tensor operand: read from memory where whole, through the mask where not."""
    if mask is None:
        return where
    value = w.b.vector("extra")
    w.b.emit("load_masked", value, where, mask)
    return value
