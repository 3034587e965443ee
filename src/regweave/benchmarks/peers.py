"""The libraries that regweave is measured against, each used at its best.

A peer turns the data of a case into a call without arguments that computes and returns the result:

    >>> run = peer_named("numpy").cascade(data, threads=1)
    >>> run().shape

"At its best" means: constant weights known beforehand where the library can prepack them, results
written to memory that is reused, exactly `threads` threads, and of several equally idiomatic calls the
fastest. A peer that is not installed raises `MissingPeerError` with the reason; the comparison then goes on
without it and says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.benchmarks.cases import CascadeData, ProductData
from regweave.benchmarks.convolution_cases import ConvolutionData
from regweave.benchmarks.filter_cases import FilterData
from regweave.benchmarks.image_cases import ImageData
from regweave.errors import UnsupportedError

Runner = Callable[[], np.ndarray[Any, Any]]


class MissingPeerError(UnsupportedError):
    """A library that cannot take part, and why."""


class Peer:
    """A library: each call returns a runner for the data, or raises `MissingPeerError`.

    A library without such an operation leaves the call out: UnsupportedError.
    """

    def cascade(self, data: CascadeData, threads: int) -> Runner:
        """A runner of the cascade."""
        raise self._lacks("cascades")

    def product(self, data: ProductData, threads: int) -> Runner:
        """A runner of the product."""
        raise self._lacks("products")

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """A runner of the convolution."""
        raise self._lacks("convolutions")

    def image(self, data: ImageData, threads: int) -> Runner:
        """A runner of the colours."""
        raise self._lacks("colours")

    def filter(self, data: FilterData, threads: int) -> Runner:
        """A runner of the filter."""
        raise self._lacks("filters")

    def _lacks(self, operations: str) -> UnsupportedError:
        return UnsupportedError(f"{type(self).__name__} has no {operations} that could be measured")


# name -> module in this package that implements it, and the class in that module; what begins with regweave
# is ours in another order of memory, which has its turn but is no peer
PEER_CLASSES = {
    "numpy": ("numpy_peer", "NumpyPeer"),
    "onnxruntime": ("onnxruntime_peer", "OnnxruntimePeer"),
    "torch": ("torch_peer", "TorchPeer"),
    "torch.compile": ("torch_peer", "TorchCompilePeer"),
    "torch.channels_last": ("torch_peer", "TorchChannelsLastPeer"),
    "openvino": ("openvino_peer", "OpenvinoPeer"),
    "opencv": ("opencv_peer", "OpencvPeer"),
    "opencv.separable": ("opencv_peer", "OpencvSeparablePeer"),
    "opencv.named": ("filter_peers", "OpencvNamedPeer"),
    "pillow": ("filter_peers", "PillowPeer"),
    "regweave.nchw": ("our_side", "OurPlanes"),
}

# the same for kernels in OpenCL C, which are compared with ours on the same device
OPENCL_PEERS = {
    "opencl.naive": ("opencl_peers", "OpenclNaivePeer"),
    "opencl.padded": ("opencl_peers", "OpenclPaddedPeer"),
    "opencl.im2col": ("opencl_peers", "OpenclProductPeer"),
}


def peer_named(name: str) -> Peer:
    """The peer of that name; `MissingPeerError` where the library is not installed."""
    module, kind = {**PEER_CLASSES, **OPENCL_PEERS}[name]
    try:
        return getattr(importlib.import_module(f"regweave.benchmarks.{module}"), kind)()
    except ImportError as error:
        raise MissingPeerError(
            f"{error.name or name} is not installed", fix="pip install 'regweave[bench]'"
        ) from error
