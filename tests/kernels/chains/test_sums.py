"""Long sums: exact enough, and in pieces whose boundaries do not move."""

from __future__ import annotations

import numpy as np
import pytest

from regweave.kernels.chains.products import PIECE
from regweave.operators import Chain, Stage


@pytest.mark.parametrize("k", [PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 5 * PIECE + 3])
@pytest.mark.parametrize("order", ["rows", "pixels", "blocked"])
def test_sums_are_made_of_pieces(kernels, order: str, k: int) -> None:
    """2^24 swallows every 1 that is added to it, but not the sum of a later piece."""
    block = kernels.machine.lanes if order == "blocked" else 0
    chain = Chain((Stage(np.ones((k, 3), np.float32)),), order, block)  # type: ignore[arg-type]
    values = np.ones(k, np.float32)
    values[0] = 2.0**24
    x = {
        "rows": values[None],
        "pixels": values[None, :, None],
        "blocked": np.pad(values, (0, -k % (block or 1))).reshape(1, -1, 1, block or 1),
    }[order]
    expected = values[0]
    for start in range(PIECE, k, PIECE):
        expected += np.float32(min(PIECE, k - start))
    assert kernels.chain(chain, np.ascontiguousarray(x)).reshape(-1)[0] == expected


@pytest.mark.parametrize("k", [384, 768, 3072])
def test_long_sums_are_exact_enough(kernels, random, k: int) -> None:
    """No worse than NumPy's product, and far from what one chain of k additions would give."""
    a = random.standard_normal((24, k), np.float32)
    b = (random.standard_normal((k, 64)) / np.sqrt(k)).astype(np.float32)
    exact = a.astype(np.float64) @ b
    error = np.abs(kernels.gemm(a, b) - exact).max()
    chain = np.zeros((24, 64), np.float32)
    for i in range(k):
        chain += a[:, i : i + 1] * b[i]
    assert error < np.abs(chain - exact).max() / 1.5
    assert error < 1.5 * np.abs(a @ b - exact).max()
