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

from regweave.assembly.variables import Memory, Variable
from regweave.kernels.common.places import InBlocks, Strided
from regweave.kernels.common.workspace import Workspace
from regweave.kernels.functions.activations import activate_all, operation_counts
from regweave.kernels.functions.buildermath import BuilderMath, Value
from regweave.operators import Elementwise
from regweave.values import frozen

#: Operations per vector up to which an epilogue is written out for a whole tile.
_CHEAP = 4
#: Vector registers that such work takes beside the tile and shared constants: a mask, a result or constant.
_WORKING = 2
#: Operations of which even one is too much for that.
_COSTLY = ("div", "split", "scale")


@frozen
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


@frozen
class Columns:
    """The vectors of a panel: `full` whole ones, then one per entry of `rest`, its number of valid lanes.

    `full` None: slot `full_bytes` says it at run time; `rest` None: slot `rest` (lanes of one more vector,
    or 0) does.
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
    registers = len(b.machine.register_class("vector").registers)
    math = BuilderMath(b, shared=registers - len(acc) * len(acc[0]) - _WORKING)
    assert columns.full is not None
    assert columns.rest is not None
    masks = {n: lane_mask(w, n) for n in set(columns.rest)} if isinstance(place, Strided) else {}
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
            store_part(w, place, place.at(w, i, j), result, valid, masks.get(valid))


def lane_mask(w: Workspace, count: int | Memory) -> Variable:
    """A mask of the first `count` lanes."""
    number, mask = w.b.general("lanes"), w.b.mask("mask")
    w.b.emit("mov", number, count)
    w.b.emit("mask_from_count", mask, number)
    return mask


def store_part(
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
