"""Weights as the kernels of a convolution plan read them: tap by tap, the filters of a thread side by side.

group 0, block 0    bias of its filters        each line `filter_pitch` numbers of f32
                    channel 0, tap 0           (taps row by row of the kernel)
                    channel 0, tap 1
                    ...
group 0, block 1    ...                        the last block begins earlier if it would end beyond the group
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regweave.errors import InputError

if TYPE_CHECKING:
    from regweave.convolution.plans.plan import ConvPlan


def filter_blocks(plan: ConvPlan) -> int:
    """Blocks of filters in a group; the last one begins earlier if it would end beyond it."""
    return -(-plan.convolution.group_filters // plan.outputs_per_thread[2])


def filter_pitch(plan: ConvPlan) -> int:
    """Weights of a tap for a block of filters, as they lie in memory: whole vectors of up to four."""
    oc = plan.outputs_per_thread[2]
    return oc if plan.machine.kind == "vectors" or oc < 3 else -(-oc // 4) * 4


def pack_weights(plan: ConvPlan, weights: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """f32 [groups * blocks, 1 + channels * taps, pitch]: biases first, then the weights tap by tap.

    InputError for arrays of other shapes than the plan's.
    """
    c, oc = plan.convolution, plan.outputs_per_thread[2]
    check_array(weights, c.weights_shape, "weights")
    if bias is not None:
        check_array(bias, (c.filters,), "bias")
    by_group = np.asarray(weights, np.float32).reshape(c.groups, c.group_filters, -1)
    starts = np.zeros(c.filters, np.float32) if bias is None else np.asarray(bias, np.float32)
    whole = np.concatenate([starts.reshape(c.groups, c.group_filters, 1), by_group], axis=2)
    packed = np.zeros((c.groups, filter_blocks(plan), whole.shape[2], filter_pitch(plan)), np.float32)
    for block in range(filter_blocks(plan)):
        first = min(block * oc, c.group_filters - oc)
        packed[:, block, :, :oc] = whole[:, first : first + oc].swapaxes(1, 2)
    return packed.reshape(-1, *packed.shape[2:])


def check_array(array: np.ndarray, shape: tuple[int, ...], where: str) -> None:
    """InputError unless `array` has this shape and real numbers."""
    found = tuple(getattr(array, "shape", ()))
    if found != shape:
        raise InputError(f"the shape is {list(found)}", where=where, expected=str(list(shape)))
    if array.dtype.kind not in "fiub":
        raise InputError(f"the elements are {array.dtype}", where=where, expected="real numbers")
