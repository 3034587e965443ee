"""OpenCV: filters of a plane, whole and taken apart into a row and a column; colours and photographs."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np

from regweave.benchmarks.convolution_cases import ConvolutionData
from regweave.benchmarks.filter_cases import FilterData
from regweave.benchmarks.image_cases import ImageData
from regweave.benchmarks.peers import Peer, Runner

#: Results of the image's own type.
_AS_IT_IS = -1


class OpencvPeer(Peer):
    """`filter2D`, which correlates as a convolution of a network does."""

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """One plane with zeros around it; UnsupportedError for other convolutions."""
        source, result, out = self._planes(data, threads)
        kernel = data.weights[0, 0]

        def run() -> np.ndarray:
            cv2.filter2D(source, cv2.CV_32F, kernel, dst=result, borderType=cv2.BORDER_CONSTANT)
            return out

        return run

    def image(self, data: ImageData, threads: int) -> Runner:
        """`transform`, which takes the constants as one more column."""
        cv2.setNumThreads(threads)
        out = np.empty((*data.x.shape[:-1], data.case.results), data.x.dtype)
        return lambda: np.asarray(cv2.transform(data.x, data.matrix, dst=out))

    def filter(self, data: FilterData, threads: int) -> Runner:
        """The kernel itself; of two the magnitude."""
        kernels, edge = list(data.chosen.kernels), cv2.BORDER_REPLICATE

        def respond(n: int, depth: int, to: np.ndarray) -> None:
            cv2.filter2D(data.plain, depth, kernels[n], dst=to, borderType=edge)

        return self._filtered(data, threads, respond)

    def _filtered(
        self, data: FilterData, threads: int, respond: Callable[[int, int, np.ndarray], None]
    ) -> Runner:
        """A response of the image's type; or several, or one that turns positive, by way of another type, as
        bytes."""
        cv2.setNumThreads(threads)
        out, chosen = np.empty_like(data.plain), data.chosen
        if not chosen.magnitude:

            def run() -> np.ndarray:
                respond(0, _AS_IT_IS, out)
                return out.reshape(data.x.shape)

            return run
        if data.case.bits > 8:
            raise self._lacks("magnitudes of 16 bits")
        several = len(chosen.kernels) > 1
        depth, kind = (cv2.CV_32F, np.float32) if several else (cv2.CV_16S, np.int16)
        parts = [np.empty(out.shape, kind) for _ in chosen.kernels]
        root = np.empty(out.shape, np.float32)

        def magnitude() -> np.ndarray:
            for n, part in enumerate(parts):
                respond(n, depth, part)
            found = cv2.magnitude(*parts, magnitude=root) if several else parts[0]
            return cv2.convertScaleAbs(found, dst=out).reshape(data.x.shape)

        return magnitude

    def _planes(self, data: ConvolutionData, threads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        c = data.case.convolution
        if c.image_shape[:2] != (1, 1) or c.filters != 1:
            raise self._lacks("convolutions of several planes")
        if c.out_shape != c.image_shape or any(
            axis.stride * axis.dilation != 1 or axis.before != axis.after for axis in c.axes
        ):
            raise self._lacks("convolutions to another size")
        cv2.setNumThreads(threads)
        out = np.empty(c.out_shape, np.float32)
        return data.x[0, 0], out[0, 0], out


class OpencvSeparablePeer(OpencvPeer):
    """`sepFilter2D`, told the two vectors that the kernel is the product of."""

    def image(self, data: ImageData, threads: int) -> Runner:
        """There is but one way."""
        raise self._lacks("colours")

    def filter(self, data: FilterData, threads: int) -> Runner:
        """UnsupportedError for kernels that are no column times a row."""
        pairs, edge = data.factors, cv2.BORDER_REPLICATE
        if pairs is None:
            raise self._lacks("kernels that are no column times a row")

        def respond(n: int, depth: int, to: np.ndarray) -> None:
            column, row = pairs[n]
            cv2.sepFilter2D(data.plain, depth, row, column, dst=to, borderType=edge)

        return self._filtered(data, threads, respond)

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """One plane with zeros around it; UnsupportedError for other convolutions."""
        if not data.case.separable:
            raise self._lacks("kernels that are no column times a row")
        source, result, out = self._planes(data, threads)
        left, size, right = np.linalg.svd(data.weights[0, 0].astype(np.float64))
        column, row = (left[:, 0] * size[0]).astype(np.float32), right[0].astype(np.float32)

        def run() -> np.ndarray:
            cv2.sepFilter2D(source, cv2.CV_32F, row, column, dst=result, borderType=cv2.BORDER_CONSTANT)
            return out

        return run
