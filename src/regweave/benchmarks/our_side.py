"""regweave as one more peer: weights packed once, but for a product, where packing is part of each call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regweave.benchmarks.cases import CascadeData, ProductData
from regweave.benchmarks.convolution_cases import ConvolutionData
from regweave.benchmarks.filter_cases import FilterData
from regweave.benchmarks.image_cases import ImageData
from regweave.benchmarks.peers import Peer, Runner
from regweave.cascades.arrays import aligned_bytes


class OurSide:
    """Each kind of case through the public calls, writing to one buffer."""

    def cascade(self, data: CascadeData, threads: int) -> Runner:
        """The compiled cascade."""
        from regweave.cascades import cascade

        compiled = cascade(data.weights, data.biases, ["relu"] * len(data.weights), threads=threads)
        out = np.empty(data.expected.shape, np.float32)
        return lambda: compiled(data.x, out=out)

    def product(self, data: ProductData, threads: int) -> Runner:
        """The product; packing is part of each call."""
        from regweave.cascades import gemm

        out = np.empty(data.expected.shape, np.float32)
        return lambda: gemm(data.a, data.b, threads=threads, out=out)

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """The convolution, into the first result: memory of the library's own, aligned as it likes it."""
        from regweave.convolution import Conv2d

        c, order = data.case.convolution, data.case.order
        layer = Conv2d(
            data.weights,
            stride=c.strides,
            padding=c.pads,
            dilation=c.dilations,
            groups=c.groups,
            threads=threads,
            order=order,
        )
        if order == "nchw":
            out = layer(data.x)
            return lambda: layer(data.x, out=out)
        pixels = np.moveaxis(data.x, 1, -1)
        # at a cache line, as other libraries' own memory of this order is
        x = aligned_bytes(data.x.nbytes).view(data.x.dtype).reshape(pixels.shape)
        x[...] = pixels
        out = layer(x)
        return lambda: np.moveaxis(layer(x, out=out), -1, 1)

    def image(self, data: ImageData, threads: int) -> Runner:
        """The colours."""
        from regweave.images import image_gemm

        out = np.empty((*data.x.shape[:-1], data.case.results), data.x.dtype)
        return lambda: image_gemm(data.x, data.matrix, result="image", out=out, threads=threads).pixels

    def filter(self, data: FilterData, threads: int) -> Runner:
        """The filter."""
        from regweave.images import filter_image

        out = np.empty_like(data.x)
        return lambda: filter_image(data.x, data.chosen, out=out, threads=threads)


class OurPlanes(Peer):
    """Ours on planes of channels, beside ours on channels last."""

    def convolution(self, data: ConvolutionData, threads: int) -> Runner:
        """The same convolution; UnsupportedError where it is of planes anyway."""
        if data.case.order == "nchw":
            raise self._lacks("convolutions of another order")
        planes = ConvolutionData(replace(data.case, order="nchw"), data.x, data.weights)
        return OurSide().convolution(planes, threads)
