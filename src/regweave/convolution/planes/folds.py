"""Small maps: several bands of rows side by side in a strip, so that vectors are full.

A row of 7 results fills 7 of 16 lanes. Fold the map: its lower rows stand beside its upper ones, and a strip
reads like that of an image half as high and twice as wide:

    rows 0 - 3 | rows 3 - 6    7 x 7 results, 2 folds of 4 rows, 8 places apart: a a a a a a a . b b b b b b b

Places between folds are zero and serve as padding for both of them; what is computed there is dropped. Folds
are equally high, so the last one may start early; rows that it has twice are stored once. Nothing is special
about the products: strips are filled, and results stored, through masks, a *piece* for each fold that a
vector meets. All rows of a map being in one strip, weights are read once, which is what a map of 7 x 7 with
512 channels is bound by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from regweave.errors import InputError
from regweave.machines.x86 import VectorMachine
from regweave.operators import Axis, Convolution
from regweave.values import frozen


@frozen
class Fold:
    """Folds of `rows` output rows each, `pitch` outputs apart, that begin at output rows `starts`."""

    rows: int
    pitch: int
    starts: tuple[int, ...]

    def new_rows(self, number: int) -> range:
        """Rows of a fold that no fold before it has."""
        return range(number * self.rows - self.starts[number], self.rows)


def fold(c: Convolution, rows: int) -> Fold:
    """`c` in folds of `rows` rows. Errors: InputError unless 1 <= rows <= its output rows."""
    down, across = c.vertical, c.horizontal
    if not 1 <= rows <= down.outputs:
        raise InputError(f"folds of {rows} rows", where="rows", expected=f"1 to {down.outputs}")
    reach = (across.outputs - 1) * across.stride + across.span
    # what a fold reads ends before the next one's zeros do, and what it reads of the next one is zeros
    pitch = max(min(across.before + across.size, reach), reach - across.before)
    count = -(-down.outputs // rows)
    starts = tuple(min(number * rows, down.outputs - rows) for number in range(count))
    return Fold(rows, -(-pitch // across.stride), starts)


def unfolded(c: Convolution, by: Fold | None) -> Convolution:
    """The convolution that a strip looks like: of fewer rows, which are longer, and without padding."""
    if by is None:
        return c
    down, across = c.vertical, c.horizontal
    columns = (len(by.starts) - 1) * by.pitch + across.outputs
    return replace(
        c,
        vertical=Axis((by.rows - 1) * down.stride + down.span, down.kernel, down.stride, down.dilation),
        horizontal=Axis(
            (columns - 1) * across.stride + across.span, across.kernel, across.stride, across.dilation
        ),
    )


@frozen(eq=False)
class Pieces:
    """Of vectors their pieces: `places` [vectors, pieces] in bytes, `masks` of their lanes, as bytes."""

    places: np.ndarray
    masks: np.ndarray


def most_pieces(by: Fold, lanes: int, step: int, width: int) -> int:
    """Pieces of a vector, at most; folds are `width` elements wide, `step` elements for each output."""
    return min(len(by.starts), 1 + (lanes + width - 2) // (by.pitch * step))


def image_pieces(
    c: Convolution,
    by: Fold,
    machine: VectorMachine,
    first: int,
    order: Sequence[tuple[int, int]],
    row_bytes: int,
) -> Pieces:
    """What the vectors of a strip are made of, counted from the first image row of the first fold.

    `first`: the output that the strip begins with; `order`: of each vector its row and its number in the row.
    """
    down, across, lanes = c.vertical, c.horizontal, machine.lanes
    width = min(across.size, (across.outputs - 1) * across.stride + across.span - across.before)
    vectors = []
    for row, number in order:
        pieces = []
        for fold_number, start in enumerate(by.starts):
            line = row + start * down.stride
            x = (first - fold_number * by.pitch) * across.stride + number * lanes - across.before
            met = range(max(0, -x), min(lanes, width - x))
            if met and down.before <= line < down.before + down.size:
                pieces.append((line * row_bytes + 4 * x, met))
        vectors.append(pieces)
    # a piece of nothing is read where the image is
    return _pieces(vectors, most_image_pieces(c, by, lanes), down.before * row_bytes, machine)


def most_image_pieces(c: Convolution, by: Fold, lanes: int) -> int:
    """Pieces of an image vector, at most."""
    return most_pieces(by, lanes, c.horizontal.stride, c.horizontal.size)


def most_result_pieces(c: Convolution, by: Fold, lanes: int) -> int:
    """Pieces of a vector of results, at most."""
    return most_pieces(by, lanes, 1, c.horizontal.outputs)


def result_pieces(
    c: Convolution, by: Fold, machine: VectorMachine, starts: Sequence[int], row_bytes: int
) -> Pieces:
    """Where the vectors of results belong that begin with the outputs `starts`, for each row of a fold;
    counted from where they would be in the first fold's row."""
    lanes, vectors = machine.lanes, []
    for row, start in product(range(by.rows), starts):
        pieces = []
        for fold_number, fold_row in enumerate(by.starts):
            x = start - fold_number * by.pitch
            met = range(max(0, -x), min(lanes, c.horizontal.outputs - x))
            if met:
                stored = met if row in by.new_rows(fold_number) else range(0)
                pieces.append((fold_row * row_bytes - 4 * fold_number * by.pitch, stored))
        vectors.append(pieces)
    return _pieces(vectors, most_result_pieces(c, by, lanes), 0, machine)


def _pieces(
    vectors: Sequence[Sequence[tuple[int, range]]], most: int, nowhere: int, machine: VectorMachine
) -> Pieces:
    places = np.full((len(vectors), most), nowhere, np.int64)
    lanes = np.zeros((len(vectors), most, machine.lanes), bool)
    for vector, pieces in enumerate(vectors):
        for piece, (place, met) in enumerate(pieces):
            places[vector, piece] = place
            lanes[vector, piece, met.start : met.stop] = True
    if machine.mask_class == "vector":
        return Pieces(places, (-lanes.astype(np.int32)).view(np.uint8))
    return Pieces(places, np.packbits(lanes, axis=-1, bitorder="little"))
