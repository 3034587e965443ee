"""regweave as one more runner of a case: weights packed once for a cascade, nothing packed for a product."""

from __future__ import annotations

import numpy as np

from regweave.benchmarks.cases import CascadeData, ProductData
from regweave.benchmarks.peers import Runner
from regweave.cascades import cascade, gemm


def our_cascade(data: CascadeData, threads: int) -> Runner:
    """The compiled cascade, writing to one buffer."""
    compiled = cascade(data.weights, data.biases, ["relu"] * len(data.weights), threads=threads)
    out = np.empty(data.expected.shape, np.float32)
    return lambda: compiled(data.x, out=out)


def our_product(data: ProductData, threads: int) -> Runner:
    """The product, writing to one buffer; packing is part of each call."""
    out = np.empty(data.expected.shape, np.float32)
    return lambda: gemm(data.a, data.b, threads=threads, out=out)
