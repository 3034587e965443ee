"""What a convolution kernel is generated from: the shape of its tile in registers and how it reads and
writes.

A tile is `outputs` filters x `rows` output rows x `vectors` vectors of results along a row. Per tap it
loads the image vectors that the tap meets and the filters' weights, one repeated element each:

    outputs 4, rows 1, vectors 6      6 image vectors and 4 weights for 24 products
    outputs 1, rows 8, vectors 2      a 3 x 3 kernel: per kernel column 10 x 2 image vectors, 3 weights, 48
                                      products

With one row a tap is one weight of a filter, and taps are a table that the kernel walks: any kernel, dilation
and number of channels is the same code. With several rows a tap is a column of `kernel_rows` weights, written
out, since neighbouring output rows share the image rows that they read. With a `transform` the rows of a tile
are its products, each of which has a transformed row and a column of weights of its own.
"""

from __future__ import annotations

from regweave.errors import InputError
from regweave.kernels.convolution.rowpairs import Pairs, column_groups, pairs
from regweave.kernels.convolution.transforms import Transform
from regweave.operators import Elementwise
from regweave.values import frozen


@frozen
class ConvTile:
    """A tile, and what is fixed about its surroundings.

    `outputs`: sizes of the channel tiles that occur; `vectors`: sizes of the blocks along a row that occur.
    `kernel_rows`, `row_stride`, `row_dilation`: the column of weights that a tap is (1, 1, 1 where rows is
    1). `kernel_columns`: so many of these columns are all there is, written out too (see column); else 0.
    `separable`: a column and a row of weights are given, whose products these are. `column_bytes`: from what
    a kernel column reads to what the next one reads, where that is the same for all; else 0: the taps say.
    `direct`: the image is read where it is, else only from strips; padding reaches no further than into the
    first `edges[0]` and the last `edges[1]` vectors of a row. Of a direct tile with columns: `row_step`
    elements from what a result reads to what the next one reads, 1 or 2; the first `missing[0]` and the last
    `missing[1]` image rows of a tile may not exist; `far_weights` weights are left in memory; `rolling`:
    bands are gone through from top to bottom, `rows` image rows of `channels` channels at a time (see
    rolling), by way of copies of `copied` vectors of each where that is not 0 (see copies); `paired`: two
    rows of results at a time (see paired). `stream`: results pass the caches; `lagging`: and are stored some
    blocks late (see lagging). `halves`: there are blocks whose last vector is at most half full, and
    instructions for half vectors. `dense`: results of a row lie side by side. `epilogue` follows the bias.
    `apart`: the products of a transform are taken one after the other (see apart), `taps_together` taps in a
    step of the loop. `in_place`: strips are
    filled from the image's own rows, whose elements lie side by side: of each plane the place within a step,
    of `in_place_step` elements; none: by way of tables. `image_pieces`, `result_pieces`: of folded maps,
    whose strips have several bands of rows side by side, the pieces of a vector. `by_blocks`: all filters of
    a block of a strip are done before the next block, which keeps what it reads in the first-level cache.
    """

    outputs: tuple[int, ...]
    rows: int
    vectors: tuple[int, ...]
    kernel_rows: int = 1
    kernel_columns: int = 0
    separable: bool = False
    column_bytes: int = 0
    row_stride: int = 1
    row_dilation: int = 1
    direct: bool = False
    edges: tuple[int, int] = (1, 1)
    row_step: int = 1
    missing: tuple[int, int] = (0, 0)
    far_weights: int = 0
    stream: bool = False
    rolling: bool = False
    channels: int = 1
    copied: int = 0
    paired: bool = False
    lagging: bool = False
    halves: bool = False
    dense: bool = True
    epilogue: tuple[Elementwise, ...] = ()
    transform: Transform | None = None
    apart: bool = False
    taps_together: int = 1
    in_place: tuple[int, ...] = ()
    in_place_step: int = 1
    image_pieces: int = 0
    result_pieces: int = 0
    by_blocks: bool = False

    def __post_init__(self) -> None:
        sizes = (
            *self.outputs,
            self.rows,
            *self.vectors,
            self.kernel_rows,
            self.row_stride,
            self.row_dilation,
        )
        if not self.outputs or not self.vectors or min(sizes) < 1:
            raise InputError(f"{self} has an empty side", where="tile", expected="sizes of 1 or more")
        if not self.by_column and self.kernel_rows != 1:
            raise InputError(
                "a tile of one row takes its weights one by one", where="kernel_rows", expected="1"
            )
        if self.kernel_columns and self.direct and not self.column_bytes:
            raise InputError(
                "columns of the image itself are evenly apart", where="column_bytes", expected="above 0"
            )
        if self.rolling and not (
            self.kernel_columns and self.direct and self.row_stride == self.row_dilation == 1
        ):
            raise InputError(
                "only columns of the image itself, of rows that follow one another, are gone through",
                where="rolling",
                expected="False",
            )
        if self.lagging and not (self.rolling and self.stream):
            raise InputError(
                "only results of bands that pass the caches are stored late",
                where="lagging",
                expected="False",
            )
        if self.stream and not self.dense:
            raise InputError("scattered results cannot pass the caches", where="stream", expected="False")

    @property
    def combined(self) -> Transform | Pairs | None:
        """What combines image rows before they are multiplied: what is not finite then spreads."""
        return pairs(self.kernel_rows) if self.paired else self.transform

    @property
    def filled(self) -> bool:
        """Whether strips are filled, if only where rows of the image are missing."""
        return not (self.direct and self.kernel_columns)

    @property
    def by_column(self) -> bool:
        """Whether a tap is a column of weights."""
        return self.rows > 1 or self.kernel_columns > 0

    def kind(self, vectors: int, *, edge: bool, half: bool = False) -> int:
        """The number of a sort of block in the tables."""
        index = self.vectors.index(vectors)
        return 2 * len(self.vectors) + index if half and self.halves else 2 * index + edge

    def at_edge(self, vector: int, vectors: int) -> bool:
        """Whether padding may reach into that vector of a block at an edge."""
        return vector < self.edges[0] or vector >= vectors - self.edges[1]

    @property
    def rows_under_way(self) -> int:
        """Output rows that have begun and are not done yet, at most, if image rows come one by one."""
        if self.rolling:
            return self.kernel_rows
        return min(self.rows, (self.kernel_rows - 1) * self.row_dilation // self.row_stride + 1)

    @property
    def held_weights(self) -> int:
        """Of a tile that holds weights all the time: how many."""
        rows, columns = self.kernel_rows, self.kernel_columns
        each = rows + columns if self.separable else rows * columns
        return max(self.outputs) * self.channels * each - self.far_weights

    def reads(self, lanes: int) -> tuple[int, ...]:
        """What the first vector of a direct tile with columns reads of an image row: numbers of first
        elements, from where the first column reads. Every `row_step`-th element is wanted: columns one apart
        share two vectors, of which one takes the even elements and the other the odd ones."""
        if self.paired:
            return tuple(group[-1] for group in column_groups(self.kernel_columns))
        columns = range(0, self.kernel_columns * (self.column_bytes // 4), self.column_bytes // 4)
        if self.row_step == 1:
            return tuple(columns)
        pairs = sorted({column & ~1 for column in columns})
        return tuple(first + part * lanes for first in pairs for part in range(2))

    @property
    def out_rows(self) -> int:
        """Output rows that a tile gives."""
        return self.rows if self.transform is None else self.transform.outputs

    @property
    def overlaps(self) -> bool:
        """Whether rows that two bands make are written by one of them only (see overlap)."""
        return self.transform is not None and not self.result_pieces

    def rows_of(self, kernel_row: int) -> range:
        """The rows of the tile that a kernel row contributes to."""
        return range(self.rows) if self.transform is None else range(kernel_row, kernel_row + 1)

    @property
    def image_rows(self) -> tuple[int, ...]:
        """The image rows that a tap meets, counted from the tile's first."""
        met = {self.row_of(r, k) for k in range(self.kernel_rows) for r in self.rows_of(k)}
        return tuple(sorted(met))

    def row_of(self, row: int, kernel_row: int) -> int:
        """The image row, or transformed row, that a row of the tile reads for a kernel row."""
        return row if self.transform is not None else row * self.row_stride + kernel_row * self.row_dilation

    def accumulators(self, outputs: int, vectors: int) -> int:
        """Registers of results."""
        return outputs * (1 if self.apart else self.rows) * vectors

    def fits(self, registers: int, held_masks: int = 0) -> bool:
        """Whether the largest tile finds room in that many vector registers.

        Beside the results stand one image vector and one weight; more are held where there is room.
        """
        if self.kernel_columns:
            results = max(self.outputs) * self.rows_under_way * max(self.vectors)
            held = results + self.held_weights + self.separable
            return held + 1 + 2 * (self.row_step - 1) + held_masks <= registers
        return self.accumulators(max(self.outputs), max(self.vectors)) + 2 + held_masks <= registers
