"""Channels last: weights as the kernels read them, in the order in which they are needed.

filters in lanes     for each group and tile of filters: biases, then for each tap (rows of the kernel, its
                     columns, channels) the filters, up to whole vectors; of transformed rows the products
                     of a tap together, or, staged, one product after the other, each with the biases
channels in lanes    for each vector of channels: biases, then the taps
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regweave.cascades.arrays import aligned_bytes
from regweave.convolution.channels_last.choice import LastChoice
from regweave.convolution.tables import combined_weights
from regweave.kernels.channels_last import DepthTile
from regweave.operators import Convolution


def pack_last(c: Convolution, choice: LastChoice, weights: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """For each tile of filters, or vector of channels: its biases, then the weights of each tap."""
    lanes = choice.machine.lanes
    start = np.zeros(c.filters, np.float32) if bias is None else bias
    if isinstance(choice.tile, DepthTile):
        whole = np.concatenate([start[None], weights.reshape(c.channels, -1).T])
        firsts = [min(v, max(0, c.channels - lanes)) for v in range(0, c.channels, lanes)]
        return _vectors([whole[:, first : first + lanes] for first in firsts], lanes)
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
    whole = np.concatenate([start.reshape(c.groups, 1, c.group_filters), taps], axis=1)
    products, parts = t.products if t and choice.tile.staged else 1, []
    for group in whole:
        first = 0
        for vectors in choice.tiles:
            part = group[:, first : first + vectors * lanes]
            each = (len(part) - 1) // products
            for at in range(1, len(part), each):
                parts.append(_vectors([np.concatenate([part[:1], part[at : at + each]])], vectors * lanes))
            first += vectors * lanes
    return np.concatenate(parts)


def _vectors(parts: Sequence[np.ndarray], width: int) -> np.ndarray:
    """[taps, up to `width`] arrays one after the other, filled up with zeros; at a cache line."""
    rows = len(parts[0])
    packed = aligned_bytes(4 * len(parts) * rows * width).view(np.float32).reshape(len(parts), rows, width)
    packed[...] = 0
    for number, part in enumerate(parts):
        packed[number, :, : part.shape[1]] = part
    return packed.reshape(-1)
