"""NumPy: matmul into a buffer per stage, bias and ReLU in place; its BLAS held to the threads asked for."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from regweave.benchmarks.cases import CascadeData, ProductData
from regweave.benchmarks.image_cases import ImageData
from regweave.benchmarks.peers import Peer, Runner


class NumpyPeer(Peer):
    """NumPy with the BLAS it was built with."""

    def cascade(self, data: CascadeData, threads: int) -> Runner:
        """Three calls a stage; NumPy has no fused epilogue."""
        threadpool_limits(threads, user_api="blas")
        buffers = [np.empty((len(data.x), weight.shape[1]), np.float32) for weight in data.weights]

        def run() -> np.ndarray:
            x = data.x
            for weight, bias, out in zip(data.weights, data.biases, buffers, strict=True):
                np.matmul(x, weight, out=out)
                np.add(out, bias, out=out)
                x = np.maximum(out, 0, out=out)
            return x

        return run

    def product(self, data: ProductData, threads: int) -> Runner:
        """One matmul into a buffer."""
        threadpool_limits(threads, user_api="blas")
        out = np.empty((len(data.a), data.b.shape[1]), np.float32)
        return lambda: np.matmul(data.a, data.b, out=out)

    def image(self, data: ImageData, threads: int) -> Runner:
        """One matmul of all pixels into a buffer, constants in place; bytes are converted twice."""
        threadpool_limits(threads, user_api="blas")
        pixels = data.x.reshape(-1, data.case.channels)
        factors, constants = np.ascontiguousarray(data.matrix[:, :-1].T), data.matrix[:, -1]
        sums = np.empty((len(pixels), data.case.results), np.float32)
        shape = (*data.x.shape[:-1], data.case.results)

        def run() -> np.ndarray:
            np.matmul(pixels.astype(np.float32, copy=False), factors, out=sums)
            np.add(sums, constants, out=sums)
            if data.x.dtype == np.float32:
                return sums.reshape(shape)
            np.rint(sums, out=sums)
            return np.clip(sums, 0, 255, out=sums).astype(data.x.dtype).reshape(shape)

        return run
