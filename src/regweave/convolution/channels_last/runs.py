"""Runs: the neighbouring elements that a pixel reads, and how they are packed where lanes share a filter.

    3 x 3 of 8 channels     3 rows, each one run of 3 x 8 elements
    the same, 2 apart       3 rows x 3 columns, each a run of 8 elements

A run is done in steps: of one element, or of as many as lanes share a filter; what is left of a run is done
element by element.
"""

from __future__ import annotations

import numpy as np

from regweave.operators import Convolution
from regweave.values import frozen

#: Elements that are summed in one chain, at most: of transformed rows, and of others.
_PIECE_TRANSFORMED, _PIECE = 64, 256


@frozen
class Runs:
    """Those of a filter: `rows` x `columns` x `pieces` runs of `length` elements."""

    rows: int = 1
    columns: int = 1
    pieces: int = 1
    length: int = 1

    @property
    def count(self) -> int:
        """How many there are."""
        return self.rows * self.columns * self.pieces

    def steps(self, split: int) -> int:
        """Steps of all runs, where `split` lanes share a filter."""
        return self.count * sum(divmod(self.length, split))


def runs_of(c: Convolution, *, dense: bool, transformed: bool) -> Runs:
    """The runs of a filter. `dense`: in what is read, pixels of a row follow one another."""
    down, across = c.axes
    length, columns = c.group_channels, across.kernel
    if dense and c.groups == 1 and across.dilation == 1:
        length, columns = length * columns, 1
    pieces = _pieces(length, piece(transformed=transformed))
    return Runs(1 if transformed else down.kernel, columns, pieces, length // pieces)


def piece(*, transformed: bool) -> int:
    """Elements that are summed in one chain, at most."""
    return _PIECE_TRANSFORMED if transformed else _PIECE


def _pieces(length: int, most: int) -> int:
    """Equal runs that a run of so many elements is cut into, for sums in pieces: few, if it can be."""
    least = -(-length // most)
    return next((count for count in range(least, 2 * least + 1) if length % count == 0), 1)


def shared(taps: np.ndarray, runs: Runs, split: int, lanes: int) -> np.ndarray:
    """[steps, lanes]: weights [elements, products, filters] as lanes read them, of which `split` share one.

    A step of several elements has one in each of these lanes; a single one stands in the first of them.
    """
    products, filters = taps.shape[1:]
    steps, tail = divmod(runs.length, split)
    by_run = taps.reshape(runs.count, runs.length, products, filters)
    whole = by_run[:, : steps * split].reshape(runs.count, steps, split, products, filters)
    packed = np.zeros((runs.count, steps + tail, products, lanes // split, split), np.float32)
    packed[:, :steps, :, :filters] = whole.transpose(0, 1, 3, 4, 2)
    packed[:, steps:, :, :filters, 0] = by_run[:, steps * split :]
    return packed.reshape(-1, lanes)
