"""Two routines for products of halves (see seven.py): the sums of rows, and all tiles of all panels.

    OperandSums   for each pair of tiles: 12 rows of the input -> 7 left operands [6, K / 2], slot `operands`
    SevenTiles    for each panel, for each pair of tiles: 7 products, 4 quarters of 6 rows x a panel

The quarters under way lie in the stack; each is finished in registers by the last product that it needs.
"""

from __future__ import annotations

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.chains.products import spill
from regweave.kernels.chains.rowloop import RowLoop
from regweave.kernels.chains.scalars import Blocks, Rows
from regweave.kernels.chains.seven import LEFT, PIECE, PRODUCTS, operand_bytes
from regweave.kernels.common.epilogue import Columns, Epilogue, finish_tile
from regweave.kernels.common.places import InBlocks, Strided
from regweave.kernels.common.workspace import Workspace
from regweave.values import frozen

Tile = list[list[Variable]]


@frozen
class OperandSums:
    """Routine: the left operands of `groups` pairs of tiles from the rows at `source`, for `k` steps."""

    scalars: Rows | Blocks
    k: int

    @property
    def stem(self) -> str:
        return "operand_sums"

    def write(self, w: Workspace) -> None:
        """Loops run along memory: over the columns of a row, or over the rows of a block of channels."""
        b, r, g = w.b, w.r, w.geometry
        half, six, to, row = (b.general(s) for s in ("half", "six", "to", "row"))
        outer, inner = b.general("outer"), b.general("inner")
        group, next_outer, next_inner = (b.fresh_label(s) for s in ("group", "outer", "inner"))
        rows, operand = g.scalars, operand_bytes(self.k, g) // PRODUCTS
        blocks = isinstance(self.scalars, Blocks)
        width = self.scalars.block if isinstance(self.scalars, Blocks) else g.lanes
        chunks, operand_row = self.k // 2 // width, operand // rows
        if blocks:
            b.emit("mov", row, w.slot("block_step"))
            b.emit("add", row, 4 * width)
            b.emit("imul", half, row, chunks)
            b.emit("mov", six, 4 * width * rows)
            counts, steps, back = (chunks, rows), (4 * width, operand_row), 4 * width - operand
        else:
            b.emit("mov", row, w.slot("pitch"))
            b.emit("mov", half, operand_row)
            b.emit("imul", six, row, rows)
            counts, steps, back = (rows, chunks), (4 * width, 4 * width), 0
        b.emit("mov", to, w.slot("operands"))
        b.emit("mov", r.source, w.slot("source"))
        b.emit("mov", r.left, w.slot("groups"))
        b.label(group)
        b.emit("mov", r.walk, r.source)
        b.emit("mov", outer, counts[0])
        b.label(next_outer)
        b.emit("mov", r.near, r.walk)
        b.emit("lea", r.far, b.at(r.walk, index=half))
        b.emit("mov", inner, counts[1])
        b.label(next_inner)
        for offset in range(0, 4 * width, g.vector_bytes):
            upper, lower = b.at(r.near, offset), b.at(r.near, offset, index=six)
            upper_right, lower_right = b.at(r.far, offset), b.at(r.far, offset, index=six)
            self._vectors(w, (upper, upper_right, lower, lower_right), to, offset)
        b.emit("add", r.near, steps[0])
        b.emit("add", r.far, steps[0])
        b.emit("add", to, steps[1])
        b.emit("dec", inner)
        b.emit("jump_nonzero", next_inner)
        if back:
            b.emit("add", to, back)
        b.emit("add", r.walk, row)
        b.emit("dec", outer)
        b.emit("jump_nonzero", next_outer)
        b.emit("add", to, operand * PRODUCTS - (operand_row if blocks else operand))
        b.emit("add", r.source, six)
        b.emit("add", r.source, six)
        b.emit("dec", r.left)
        b.emit("jump_nonzero", group)
        b.emit("ret")

    def _vectors(self, w: Workspace, sources: tuple[Memory, ...], to: Variable, offset: int) -> None:
        """One vector of each of the seven operands."""
        b = w.b
        quarters = b.vectors("quarter", len(sources))
        for quarter, source in zip(quarters, sources, strict=True):
            b.emit("load", quarter, source)
        for index, signs in enumerate(LEFT):
            first, *more = (q for q, sign in zip(quarters, signs, strict=True) if sign > 0)
            minus = [q for q, sign in zip(quarters, signs, strict=True) if sign < 0]
            for name, others in (("add", more), ("sub", minus)):
                for other in others:
                    total = b.vector("total")
                    b.emit(name, total, first, other)
                    first = total
            size = operand_bytes(self.k, w.geometry) // PRODUCTS
            b.emit("store", b.at(to, offset + index * size), first)


@frozen
class SevenTiles:
    """Routine: one stage on `groups` pairs of tiles and `panels` panels of `vectors` vectors.

    `k`, `n` are the widths of the stage. Slot `panel`: the seven right operands of the first panel, behind
    each panel the channel operands of its left and of its right columns; `out`, `extra<t>` as in stage.py.
    In memory `mark` a lane becomes NaN where a sum is not finite.
    """

    k: int
    n: int
    vectors: int
    place: Strided | InBlocks
    extras: Strided | InBlocks
    epilogue: Epilogue

    @property
    def stem(self) -> str:
        return f"seven{self.vectors}"

    def write(self, w: Workspace) -> None:
        b, r, g = w.b, w.r, w.geometry
        panel, group = b.fresh_label("panel"), b.fresh_label("group")
        tensors = [f"extra{t}" for t in range(self.epilogue.tensors)]
        b.label(panel)
        b.emit("mov", r.source, w.slot("operands"))
        b.emit("mov", r.left, w.slot("groups"))
        for name in ("out", *tensors):
            w.copy_slot(f"{name}_group", name)
        b.label(group)
        self._pair(w)
        b.emit("add", r.source, operand_bytes(self.k, g))
        for name in ("out", *tensors):
            w.advance_slot(f"{name}_group", self._rows(w, name, 2))
        b.emit("dec", r.left)
        b.emit("jump_nonzero", group)
        w.advance_slot("panel", self._panel_bytes(w))
        w.advance_slot("out", self.place.next_panel(w, self.vectors))
        for name in tensors:
            w.advance_slot(name, self.extras.next_panel(w, self.vectors))
        w.advance_slot("panels", -1)
        b.emit("jump_nonzero", panel)
        b.emit("ret")

    def _pair(self, w: Workspace) -> None:
        """Seven products and four quarters: each sum is stored until its last product comes."""
        upper_left, lower_left, upper_right, lower_right = (
            w.kept_memory(name, w.geometry.scalars * w.geometry.panel_bytes)
            for name in ("c11", "c21", "c12", "c22")
        )
        self._put(w, self._product(w, 0), upper_left)
        second = self._product(w, 1)
        self._put(w, second, lower_left)
        self._put(w, second, lower_right, upper_left, minus=True)
        third = self._product(w, 2)
        self._put(w, third, upper_right)
        self._put(w, third, lower_right, lower_right)
        fourth = self._product(w, 3)
        self._put(w, fourth, upper_left, upper_left)
        self._finish(w, self._added(w, fourth, lower_left), lower=True, right=False)
        fifth = self._product(w, 4)
        self._put(w, fifth, upper_left, upper_left, minus=True)
        self._finish(w, self._added(w, fifth, upper_right), lower=False, right=True)
        self._finish(w, self._added(w, self._product(w, 5), lower_right), lower=True, right=True)
        self._finish(w, self._added(w, self._product(w, 6), upper_left), lower=False, right=False)

    def _product(self, w: Workspace, index: int) -> Tile:
        """Product `index` of the pair at `source`, in equal pieces of at most PIECE steps."""
        b, r, g = w.b, w.r, w.geometry
        acc = [b.vectors(f"acc{i}_", self.vectors) for i in range(g.scalars)]
        steps, pitch = self.k // 2, self.vectors * g.vector_bytes
        b.emit("mov", r.walk, w.slot("panel"))
        if index:
            b.emit("add", r.walk, index * steps * pitch)
        b.emit("lea", r.near, b.at(r.source, index * operand_bytes(self.k, g) // PRODUCTS))
        piece = -(-steps // -(-steps // PIECE))
        for start in range(0, steps, piece):
            for row in acc:
                for variable in row:
                    b.emit("zero", variable)
            b.emit("mov", r.steps, min(piece, steps - start))
            top = b.fresh_label("step")
            b.emit("align", 32)
            b.label(top)
            vectors = b.vectors("vector", self.vectors)
            for j, vector in enumerate(vectors):
                b.emit("load", vector, b.at(r.walk, j * g.vector_bytes))
            for i, row in enumerate(acc):
                scalar = b.vector(f"scalar{i}")
                b.emit("broadcast", scalar, b.at(r.near, 4 * steps * i))
                for variable, vector in zip(row, vectors, strict=True):
                    b.emit("fma", variable, scalar, vector)
            b.emit("add", r.walk, pitch)
            b.emit("add", r.near, 4)
            b.emit("dec", r.steps)
            b.emit("jump_nonzero", top)
            if start:
                acc = self._added(w, acc, w.tile_memory())
            if start + piece < steps:
                spill(w, acc)
        return acc

    def _places(self, w: Workspace, tile: Memory) -> list[list[Memory]]:
        g = w.geometry
        return [
            [tile + (i * g.panel_bytes + j * g.vector_bytes) for j in range(self.vectors)]
            for i in range(g.scalars)
        ]

    def _added(self, w: Workspace, acc: Tile, tile: Memory) -> Tile:
        """acc += tile."""
        for row, places in zip(acc, self._places(w, tile), strict=True):
            for variable, where in zip(row, places, strict=True):
                w.b.emit("add", variable, variable, where)
        return acc

    def _put(
        self, w: Workspace, acc: Tile, to: Memory, other: Memory | None = None, *, minus: bool = False
    ) -> None:
        """to = acc, or other + acc, or other - acc."""
        b = w.b
        others = self._places(w, to if other is None else other)
        for row, places, sources in zip(acc, self._places(w, to), others, strict=True):
            for variable, where, source in zip(row, places, sources, strict=True):
                result = variable
                if other is not None:
                    result = b.vector("sum")
                    if minus:
                        b.emit("load", result, source)
                        b.emit("sub", result, result, variable)
                    else:
                        b.emit("add", result, variable, source)
                b.emit("store", where, result)

    def _finish(self, w: Workspace, acc: Tile, *, lower: bool, right: bool) -> None:
        """Mark what is not finite; epilogue and stores of one quarter."""
        b, r, g = w.b, w.r, w.geometry
        mark, zero = b.vector("mark"), b.vector("nought")
        b.emit("load", mark, w.kept_memory("mark", g.vector_bytes))
        b.emit("zero", zero)
        for row in acc:
            for variable in row:
                b.emit("fma", mark, variable, zero)
        b.emit("store", w.kept_memory("mark", g.vector_bytes), mark)
        if not self.epilogue.direct:
            spill(w, acc)
        b.emit("mov", r.walk, w.slot("panel"))
        operands = self.epilogue.channels * self.vectors * g.vector_bytes
        b.emit("add", r.walk, self._panel_bytes(w) - operands * (1 if right else 2))
        for name in ("out", *(f"extra{t}" for t in range(self.epilogue.tensors))):
            here = r.out if name == "out" else b.general("here")
            b.emit("mov", here, w.slot(f"{name}_group"))
            if lower:
                b.emit("add", here, self._rows(w, name, 1))
            if right:
                b.emit("add", here, self._right(w, name))
            if name != "out":
                b.emit("mov", w.slot(f"{name}_here"), here)
        columns = Columns(self.vectors, ())
        if self.epilogue.direct:
            self.place.prepare(w, g.scalars)
            finish_tile(w, self.epilogue, self.place, acc, columns, False)
        else:
            b.emit("mov", r.steps, g.scalars)
            w.call(RowLoop(self.epilogue, self.place, self.extras, self.vectors, columns, False))

    def _panel_bytes(self, w: Workspace) -> int:
        rows = PRODUCTS * (self.k // 2) + 2 * self.epilogue.channels
        return rows * self.vectors * w.geometry.vector_bytes

    def _rows(self, w: Workspace, name: str, tiles: int) -> int | Variable:
        """Bytes from a tile of `out` or an extra tensor to the one `tiles` tiles of rows on."""
        place = self.place if name == "out" else self.extras
        rows = tiles * w.geometry.scalars
        if isinstance(place, InBlocks):
            return 4 * place.block * rows
        step = w.b.general("step")
        w.b.emit("imul", step, w.slot("out_pitch" if name == "out" else "extra_pitch"), rows)
        return step

    def _right(self, w: Workspace, name: str) -> int | Variable:
        """Bytes from the left half of the columns to the right one."""
        place = self.place if name == "out" else self.extras
        if not isinstance(place, InBlocks):
            return 4 * (self.n // 2)
        step = w.b.general("step")
        w.b.emit("imul", step, w.slot("block_pitch"), self.n // 2 // place.block)
        return step
