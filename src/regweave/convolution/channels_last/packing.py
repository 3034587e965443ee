"""Channels last: weights as the kernels read them, in the order in which they are needed.

filters in lanes     for each group and tile of filters: biases, then for each tap (rows of the kernel, its
                     columns, channels) the filters, up to whole vectors; of transformed rows the products
                     of a tap together, or, staged, one product after the other, each with the biases
channels in lanes    for each vector of channels: biases, then the taps
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regweave.cascades.arrays import aligned_empty
from regweave.convolution.channels_last.choice import LastChoice
from regweave.convolution.channels_last.runs import Runs, shared
from regweave.convolution.planes.tables import combined_weights
from regweave.kernels.channels_last import DepthTile
from regweave.operators import Convolution


def pack_last(c: Convolution, choice: LastChoice, weights: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """For each tile of filters, or vector of channels: its biases, then the weights of each tap."""
    lanes = choice.machine.lanes
    start = np.zeros(c.filters, np.float32) if bias is None else bias
    if isinstance(choice.tile, DepthTile):
        whole = np.concatenate([start[None], weights.reshape(c.channels, -1).T])
        firsts = [min(v, max(0, c.channels - lanes)) for v in range(0, c.channels, lanes)]
        return _in_lines([_filled(whole[:, first : first + lanes], lanes) for first in firsts])
    size = (1, *weights.shape[2:])[-2:]  # signals have no rows
    by_group = weights.reshape(c.groups, c.group_filters, -1, *size)
    t = choice.tile.transform
    if t is not None and choice.tile.staged:
        by_group = combined_weights("pr,gfcrk->gpkcf", t.filter, by_group)
    elif t is not None:  # the products of a step stand together
        by_group = combined_weights("pr,gfcrk->gkcpf", t.filter, by_group)
    else:
        by_group = by_group.transpose(0, 3, 4, 2, 1)
    taps = by_group.reshape(c.groups, -1, c.group_filters)
    split, parts = choice.tile.split, []
    for biases, group in zip(start.reshape(c.groups, 1, 1, -1), taps, strict=True):
        if split > 1:
            each = group.reshape(-1, t.products if t else 1, c.group_filters)
            parts += [shared(biases, Runs(), split, lanes), shared(each, choice.runs, split, lanes)]
            continue
        products = t.products if t and choice.tile.staged else 1
        first = 0
        for vectors in choice.tiles:
            chosen = slice(first, first + vectors * lanes)
            for product in np.split(group[:, chosen], products):
                parts.append(_filled(np.concatenate([biases[0, :, chosen], product]), vectors * lanes))
            first += vectors * lanes
    return _in_lines(parts)


def _filled(rows: np.ndarray, width: int) -> np.ndarray:
    """[taps, up to `width`] filled up with zeros."""
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))


def _in_lines(parts: Sequence[np.ndarray]) -> np.ndarray:
    """All one after the other, from a cache line on: a vector that lies in two takes two loads."""
    packed = aligned_empty((sum(part.size for part in parts),))
    np.concatenate([part.reshape(-1) for part in parts], out=packed)
    return packed
