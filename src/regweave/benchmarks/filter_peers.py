"""Filters of photographs by the functions that libraries have for them.

opencv.named     GaussianBlur, blur, Laplacian, Sobel, and what people make of them
pillow           BoxBlur
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.benchmarks.filter_cases import FilterData
from regweave.benchmarks.peers import Peer, Runner

#: Up to here GaussianBlur's own weights are those of Pascal's triangle.
_SAME_GAUSSIAN = 5


class OpencvNamedPeer(Peer):
    """The function of the filter's name."""

    def __init__(self) -> None:
        import cv2

        self.cv: Any = cv2

    def filter(self, data: FilterData, threads: int) -> Runner:
        """UnsupportedError for gaussians whose weights are others, and magnitudes of 16 bits."""
        self.cv.setNumThreads(threads)
        word, side = data.case.filter.rstrip("0123456789"), len(data.chosen.kernels[0])
        if word == "gaussian" and side > _SAME_GAUSSIAN:
            raise self._lacks(f"{data.case.filter} with these weights")
        if data.case.bits > 8 and data.chosen.magnitude:
            raise self._lacks("magnitudes of 16 bits")
        call = getattr(self, f"_{word}")(data.plain, side)
        return lambda: call().reshape(data.x.shape)

    def _gaussian(self, x: np.ndarray, side: int) -> Callable[[], np.ndarray]:
        out, edge = np.empty_like(x), self.cv.BORDER_REPLICATE
        return lambda: self.cv.GaussianBlur(x, (side, side), 0, dst=out, borderType=edge)

    def _box(self, x: np.ndarray, side: int) -> Callable[[], np.ndarray]:
        out, edge = np.empty_like(x), self.cv.BORDER_REPLICATE
        return lambda: self.cv.blur(x, (side, side), dst=out, borderType=edge)

    def _laplacian(self, x: np.ndarray, side: int) -> Callable[[], np.ndarray]:
        cv, words, out, edge = (
            self.cv,
            np.empty(x.shape, np.int16),
            np.empty_like(x),
            self.cv.BORDER_REPLICATE,
        )

        def run() -> np.ndarray:
            cv.Laplacian(x, cv.CV_16S, dst=words, borderType=edge)
            return cv.convertScaleAbs(words, dst=out)

        return run

    def _sobel(self, x: np.ndarray, side: int) -> Callable[[], np.ndarray]:
        cv, out, edge = self.cv, np.empty_like(x), self.cv.BORDER_REPLICATE
        across, down, root = (np.empty(x.shape, np.float32) for _ in range(3))

        def run() -> np.ndarray:
            cv.Sobel(x, cv.CV_32F, 1, 0, dst=across, scale=0.25, borderType=edge)
            cv.Sobel(x, cv.CV_32F, 0, 1, dst=down, scale=0.25, borderType=edge)
            return cv.convertScaleAbs(cv.magnitude(across, down, magnitude=root), dst=out)

        return run

    def _unsharp(self, x: np.ndarray, side: int) -> Callable[[], np.ndarray]:
        blur, out = self._gaussian(x, side), np.empty_like(x)
        return lambda: self.cv.addWeighted(x, 2, blur(), -1, 0, dst=out)


class PillowPeer(Peer):
    """Pillow has no threads of its own."""

    def __init__(self) -> None:
        from PIL import Image, ImageFilter

        self.pictures: Any = Image
        self.filters: Any = ImageFilter

    def filter(self, data: FilterData, threads: int) -> Runner:
        """BoxBlur; UnsupportedError for 16 bits, and for filters that Pillow leaves out at the edges."""
        if data.case.bits > 8:
            raise self._lacks("16 bits")
        if not data.case.filter.startswith("box"):
            raise self._lacks(f"{data.case.filter} up to the edges")
        picture = self.pictures.fromarray(data.plain)
        blur = self.filters.BoxBlur(len(data.chosen.kernels[0]) // 2)
        return lambda: np.asarray(picture.filter(blur)).reshape(data.x.shape)
