"""Kernels that are a column of weights times a row of weights, as those of blurs and derivatives are.

    1 2 1     1
    2 4 2  =  2  x  1 2 1        6 products give what 9 give, and for 5 x 5 it is 10 instead of 25
    1 2 1     1

A kernel counts as one if every weight is the product of its factors but for rounding, a few units in its
last place: results then are as near to float64 as those of the plain sum. The row's absolute values sum to
between a half and one, so that no sum of an image's row overflows.
"""

from __future__ import annotations

import numpy as np

#: Of each weight, how far the product of its factors may be away: it and those that the factors were taken
#: from are rounded, once or twice each.
_ROUNDING = 2.0**-21


def factors(weights: np.ndarray) -> np.ndarray | None:
    """[filters, height + width]: each filter's column, then its row; None where one has none, or where they
    spare nothing.

    `weights` [filters, channels / groups, height, width], or without the height.
    """
    deep, height, width = (1, *weights.shape)[-3:]
    if deep > 1 or height + width >= height * width:
        return None
    planes = weights.reshape(-1, height, width).astype(np.float64)
    largest = np.abs(planes).reshape(len(planes), -1).argmax(axis=1)
    each = np.arange(len(planes))
    rows = planes[each, largest // width]
    sums = np.abs(rows).sum(axis=1)
    if not (np.isfinite(sums) & (sums > 0)).all():
        return None
    rows *= np.exp2(-np.ceil(np.log2(sums)))[:, None]  # powers of two: nothing is rounded
    columns = planes[each, :, largest % width] / rows[each, largest % width, None]
    if np.abs(columns).max() > np.finfo(np.float32).max:
        return None
    found = np.concatenate([columns, rows], axis=1).astype(np.float32)
    product = found[:, :height, None].astype(np.float64) * found[:, None, height:]
    near = np.abs(product - planes) <= _ROUNDING * np.abs(planes)
    return found if near.all() else None
