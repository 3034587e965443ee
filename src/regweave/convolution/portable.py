"""The portable device: a convolution in NumPy float32, one product per kernel element, slowly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regweave.kernels import NumpyMath, activate_all
from regweave.operators import Convolution, Elementwise


def run_portable(
    c: Convolution,
    x: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None,
    epilogue: Sequence[Elementwise],
    y: np.ndarray,
) -> None:
    """y = epilogue(convolution of x); x and y are [batch, channels, height, width] of any strides."""
    groups, deep, filters = c.groups, c.group_channels, c.group_filters
    kernel = tuple(axis.kernel for axis in c.axes)
    image = x.reshape(c.batch, groups, deep, *(axis.size for axis in c.axes))
    taps = weights.reshape(groups, filters, deep, *kernel)
    total = np.zeros((c.batch, groups, filters, *(axis.outputs for axis in c.axes)), np.float32)
    if bias is not None:
        total += bias.reshape(groups, filters, 1, 1)
    with np.errstate(all="ignore"):
        for place in np.ndindex(*kernel):
            found = [axis.inside(tap) for axis, tap in zip(c.axes, place, strict=True)]
            if not all(found):
                continue
            outs = tuple(slice(r.start, r.stop) for r in found)
            reads = tuple(
                slice(first := axis.place(r.start, tap), first + (len(r) - 1) * axis.stride + 1, axis.stride)
                for axis, r, tap in zip(c.axes, found, place, strict=True)
            )
            part = image[(..., *reads)].reshape(c.batch, groups, deep, -1)
            product = np.matmul(taps[(..., *place)], part)
            total[(..., *outs)] += product.reshape(c.batch, groups, filters, *map(len, found))
    y[...] = activate_all(NumpyMath(), epilogue, total.reshape(y.shape), _no_operand)


def _no_operand(index: int) -> np.ndarray:
    raise AssertionError(f"operator {index} of a convolution's epilogue takes no operand")
