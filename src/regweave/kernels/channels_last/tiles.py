"""The tiles: which results stay in registers, for lanes that are filters or channels."""

from __future__ import annotations

from itertools import product

from regweave.errors import InputError
from regweave.kernels.convolution.transforms import Transform
from regweave.machines import AssemblyMachine
from regweave.operators import Elementwise
from regweave.values import frozen


@frozen
class DenseTile:
    """Lanes are filters: pixels x vectors of filters.

    `spans`: pixels of each span of a tile; `vectors`: numbers of vectors of a tile of filters; `strip`: rows
    are copied with their padding first; `masked`: the last vector of filters is stored through the mask;
    `pieces`: sums are made in pieces. With a `transform` a span is a pixel with all its products, each with
    weights of its own, of one vector of filters; or, `staged`, products are made one after the other, go to
    memory, and come back for the way back. `staged` without a transform: the image has planes of channels, of
    which pixels are repeated, and results go to planes by way of a stage.

    `split` lanes share a filter, each with every so-many-th element of a run; `tail`: runs are no multiple of
    that. What they hold is added up at the end (`folding`). `joined`: pixels, of so many filters, follow one
    another in the result, and are stored together. `ahead`: lines of the next tile's pixels, which follow
    this one's, that each step asks for.
    """

    spans: tuple[int, ...]
    vectors: tuple[int, ...]
    strip: bool = False
    masked: bool = False
    pieces: bool = False
    stream: bool = False
    epilogue: tuple[Elementwise, ...] = ()
    transform: Transform | None = None
    staged: bool = False
    split: int = 1
    tail: bool = False
    joined: int = 0
    ahead: int = 0

    def __post_init__(self) -> None:
        fits = not self.staged and self.masked and self.vectors == (1,)
        if self.split not in SPLITS or (self.split > 1 and not fits):
            raise InputError(
                f"{self.split} lanes for a filter",
                where="split",
                expected=f"one of {SPLITS}; of several lanes one vector of filters, masks, and no stage",
            )
        if not self.spans or not self.vectors or min(*self.spans, *self.vectors) < 1:
            raise InputError(f"{self} has an empty side", where="tile", expected="sizes of 1 or more")
        if max(self.spans) > MOST_PIXELS or len(self.spans) > MOST_SPANS:
            raise InputError(
                f"spans of {self.spans} pixels",
                where="spans",
                expected=f"at most {MOST_SPANS} spans of at most {MOST_PIXELS}",
            )
        t = self.fused
        if t is not None and (self.spans != (t.products,) * len(self.spans) or self.vectors != (1,)):
            raise InputError(
                f"spans of {self.spans} pixels, {self.vectors} vectors of filters",
                where="spans",
                expected=f"{t.products} products for each pixel, and one vector",
            )

    @property
    def pixels(self) -> int:
        """Pixels of a tile, or products of all its pixels."""
        return sum(self.spans)

    @property
    def fused(self) -> Transform | None:
        """The transform whose products are all in registers."""
        return None if self.staged else self.transform

    @property
    def planar(self) -> bool:
        """Whether image and result have planes."""
        return self.staged and self.transform is None

    @property
    def length(self) -> int:
        """Neighbouring pixels that a SpanEntry stands for."""
        return self.spans[0] if self.fused is None else len(self.spans)

    @property
    def entries(self) -> int:
        """SpanEntries of a tile."""
        return len(self.spans) if self.fused is None else 1

    def holds_element(self, vectors: int, machine: AssemblyMachine) -> bool:
        """Whether an element of the image, or a few, are loaded before they are multiplied: for several
        vectors of filters that leave a register, or for lanes that share a filter."""
        registers = len(machine.register_class("vector").registers)
        several = vectors > 1 and self.pixels * vectors + vectors < registers
        return several or self.split > 1

    def fits(self, registers: int) -> bool:
        """Whether the results find room beside a vector of weights each."""
        return self.pixels * max(self.vectors) + max(self.vectors) + (self.split > 1) <= registers


@frozen
class DepthTile:
    """Lanes are channels, each with a kernel of its own: rows x columns of results of a vector of channels.

    `masked`: there are fewer channels than lanes; `padded`: image rows, or columns, may not exist.
    """

    rows: int
    columns: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padded: tuple[bool, bool] = (False, False)
    masked: bool = False
    stream: bool = False
    epilogue: tuple[Elementwise, ...] = ()

    transform = None
    strip = staged = False

    def __post_init__(self) -> None:
        if min(self.rows, self.columns, *self.kernel, *self.stride, *self.dilation) < 1:
            raise InputError(f"{self} has an empty side", where="tile", expected="sizes of 1 or more")
        if max(self.image_rows[-1], self.image_columns[-1]) >= MOST_LINES:
            raise InputError(
                f"{self} reads more than {MOST_LINES} rows or columns",
                where="tile",
                expected="a smaller tile",
            )

    @property
    def image_rows(self) -> tuple[int, ...]:
        """The image rows that the tile reads, counted from its first."""
        return _read(self.rows, self.kernel[0], self.stride[0], self.dilation[0])

    @property
    def image_columns(self) -> tuple[int, ...]:
        """The image columns that the tile reads, counted from its first."""
        return _read(self.columns, self.kernel[1], self.stride[1], self.dilation[1])

    def holds_weights(self, machine: AssemblyMachine) -> bool:
        """Whether all weights find room in registers."""
        held = self.rows * self.columns + self.kernel[0] * self.kernel[1] + _WORKING
        held += self.masked and machine.mask_class == "vector"
        return held <= len(machine.register_class("vector").registers)

    def met(self, axis: int, at: int) -> tuple[tuple[int, int], ...]:
        """(result, kernel element) pairs along an axis that read image row, or column, `at`."""
        results = self.columns if axis else self.rows
        pairs = product(range(results), range(self.kernel[axis]))
        return tuple((r, k) for r, k in pairs if r * self.stride[axis] + k * self.dilation[axis] == at)


#: Lanes that may share a filter.
SPLITS = (1, 2, 4, 8, 16)
#: Vector registers beside results and held weights of channels: an image vector, the next one.
_WORKING = 2
#: Pixels of a span (the addresses of so many are written with four pitches), spans of a tile.
MOST_PIXELS, MOST_SPANS = 9, 4
#: Image rows and columns that a tile of channels reads: a bit for each.
MOST_LINES = 31


def _read(results: int, kernel: int, stride: int, dilation: int) -> tuple[int, ...]:
    return tuple(sorted({r * stride + k * dilation for r in range(results) for k in range(kernel)}))
