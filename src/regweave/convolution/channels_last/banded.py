"""Channels last, few of them: bands of rows are taken apart into planes, convolved, and put together again.

    rows 0 .. 15 of the result   <-   planes of image rows 0 .. 16, the top with its padding
    rows 16 .. 31                <-   planes of image rows 15 .. 32, no padding above or below

Of photographs a pixel has three lanes to offer, a row of a plane hundreds. Pixels are taken apart by vectors
(`kernels/colours/`): 16 of three channels take three loads, six picks and three stores. Each part of the
work does its bands one after the other in memory of its own, which stays in a core's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from regweave.convolution.planes.choice import choose
from regweave.convolution.planes.chosen import Choice, scratch_bytes
from regweave.convolution.planes.strips import strip_limit
from regweave.kernels.colours.structure import MOST_CHANNELS
from regweave.kernels.convolution import ConvTile
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise
from regweave.values import frozen

#: Bytes of a band at most, image and result together; bands that the memory of strips has room for at once;
#: rows that a band has a multiple of if it can.
_BAND_BYTES, _BANDS, _ROWS = 512 * 1024, 2, 8


@frozen
class PlanesAsked:
    """What is asked of the kernels of planes, for any band."""

    machine: VectorMachine
    form: str | None
    epilogue: tuple[Elementwise, ...]
    separable: bool

    def choose(self, c: Convolution) -> Choice:
        """How the planes of a band are convolved. Errors: InputError for a form that is not for it."""
        return choose(c, self.machine, form=self.form, epilogue=self.epilogue, separable=self.separable)


@frozen
class BandChoice:
    """Output rows of a band, how the planes of most bands are convolved, what is asked for those of others,
    and whether results pass the caches."""

    band_rows: int
    planes: Choice
    asked: PlanesAsked
    stream: bool

    @property
    def form(self) -> str:
        """That of the planes."""
        return self.planes.form

    @property
    def tile(self) -> ConvTile:
        """That of the planes; whether results pass the caches is said of the whole."""
        return replace(self.planes.tile, stream=self.stream)


def can_band(c: Convolution, machine: VectorMachine) -> bool:
    """Whether the pixels of `c` can be taken apart by vectors: there are few channels, and rows of them."""
    narrow = min(c.horizontal.size, c.horizontal.outputs) < machine.lanes
    return not narrow and max(c.channels, c.filters) <= MOST_CHANNELS


def choose_bands(c: Convolution, asked: PlanesAsked, *, stream: bool) -> BandChoice:
    """The bands for `c`. Errors: InputError for a form that is not for it."""
    budget = min(_BAND_BYTES, strip_limit(c) // _BANDS)
    row = 4 * (c.channels * c.horizontal.size * c.vertical.stride + c.filters * c.horizontal.outputs)
    rows = max(1, budget // row)
    whole = c.horizontal.outputs % asked.machine.lanes == 0  # vectors of results
    while True:
        rows = min(c.vertical.outputs, rows // _ROWS * _ROWS or rows)
        planes = asked.choose(band_of(c, rows))
        choice = BandChoice(rows, planes, asked, stream and whole and c.filters > 1)
        taken = band_bytes(c, choice)
        if rows == 1 or taken <= budget:
            return choice
        rows = min(rows - 1, rows * budget // taken) or 1


def bands(c: Convolution, rows: int) -> Iterator[tuple[int, Convolution, range]]:
    """For each band its first output row, its convolution, and the image rows that it reads."""
    for first in range(0, c.vertical.outputs, rows):
        axis, lines = c.vertical.band(first, min(first + rows, c.vertical.outputs))
        yield first, replace(c, batch=1, vertical=axis), lines


def band_of(c: Convolution, rows: int) -> Convolution:
    """Most bands of so many output rows: one in the middle."""
    first = (c.vertical.outputs - rows) // 2
    return replace(c, batch=1, vertical=c.vertical.band(first, first + rows)[0])


def band_bytes(c: Convolution, choice: BandChoice) -> int:
    """Bytes of a part of the work: the planes of a band, and strips of them."""
    band = band_of(c, choice.band_rows)
    image = plane_strides(c.channels, band.vertical.size, c.horizontal.size, 0)[0]
    result = plane_strides(c.filters, choice.band_rows, c.horizontal.outputs, 0)[0]
    return image + result + scratch_bytes(band, choice.asked.machine, choice.planes)


def plane_strides(count: int, rows: int, width: int, there: int | None) -> tuple[int, ...]:
    """Strides of planes in a band's memory; of a single one that is `there`, rows so many bytes apart, of
    that, which takes no memory."""
    if count == 1 and there is not None:
        return 0, 0, there, 4
    lines = -(-width // 16)
    pitch = 64 * (lines + (lines % 64 == 0))  # rows a page apart would share cache sets
    return count * rows * pitch, rows * pitch, pitch, 4
