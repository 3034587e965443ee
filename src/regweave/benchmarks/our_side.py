"""regweave as one more peer: weights packed once, but for a product, where packing is part of each call."""

from __future__ import annotations

import numpy as np

from regweave.benchmarks.cases import CascadeData, ProductData
from regweave.benchmarks.convolution_cases import ConvolutionData
from regweave.benchmarks.image_cases import ImageData
from regweave.benchmarks.peers import Runner


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

        c = data.case.convolution
        layer = Conv2d(
            data.weights,
            stride=c.strides,
            padding=c.pads,
            dilation=c.dilations,
            groups=c.groups,
            threads=threads,
        )
        out = layer(data.x)
        return lambda: layer(data.x, out=out)

    def image(self, data: ImageData, threads: int) -> Runner:
        """The colours."""
        from regweave.images import image_gemm

        out = np.empty((*data.x.shape[:-1], data.case.results), data.x.dtype)
        return lambda: image_gemm(data.x, data.matrix, result="image", out=out, threads=threads).pixels
