"""Blocked channels: [batch, ceil(C / block), P, block], so that a vector load takes neighbouring channels.

>>> to_blocks(np.ones((1, 3, 5)), 16).shape
(1, 1, 5, 16)
"""

from __future__ import annotations

import numpy as np


def from_blocks(x: np.ndarray, channels: int) -> np.ndarray:
    """[batch, ceil(channels / block), P, block] as [batch, channels, P]."""
    batch, blocks, pixels, block = x.shape
    return x.transpose(0, 1, 3, 2).reshape(batch, blocks * block, pixels)[:, :channels]


def to_blocks(x: np.ndarray, block: int) -> np.ndarray:
    """[batch, channels, P] as [batch, ceil(channels / block), P, block], zero beyond the channels."""
    batch, channels, pixels = x.shape
    padded = np.pad(x, ((0, 0), (0, -channels % block), (0, 0)))
    blocks = padded.shape[1] // block
    return np.ascontiguousarray(padded.reshape(batch, blocks, block, pixels).transpose(0, 1, 3, 2))
