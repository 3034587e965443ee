"""Convolutions that are measured: seven that people have, layers of networks, those of a model; their data,
a float64 reference.

    >>> CONVOLUTIONS[4].name, CONVOLUTIONS[4].flops
    ('5x5 1->1 4096x4096', 838860800)
    >>> [(case.name, case.times) for case in model_convolutions(read_model("model.onnx", {"x[2]": 640}))][:2]
    [('3x3/2 3->24 640x640', 1), ('3x3 24->24 320x320', 4)]

The kernels of one case are outer products of two vectors, as those of blurs are: a library that is told so
may take one after the other, and no other library is told.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from regweave.operators import Convolution, convolution_of

if TYPE_CHECKING:
    from regweave.graphs import Model

Planes = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class ConvolutionCase:
    """y = x * w without bias, which a model does `times` times.

    `separable`: each kernel of w is a column times a row. `dtype` f16: image and result are stored so.
    `order` nhwc: ours reads and writes images whose channels lie side by side.
    """

    kind: ClassVar[str] = "convolution"

    convolution: Convolution
    times: int = 1
    separable: bool = False
    dtype: str = "f32"
    order: str = "nchw"

    @property
    def name(self) -> str:
        """For example `7x7/2 3->64 224x224`: what is not said is 1, and padding that keeps the size."""
        c = self.convolution
        kernel = "x".join(str(axis.kernel) for axis in c.axes)
        batch = "" if c.batch == 1 else f"{c.batch} of "
        words = [f"{kernel}{_sizes('/', c.strides)} {c.channels}->{c.filters} {batch}{_size(c)}"]
        words += [f"{c.groups} groups"] * (c.groups > 1) + [_sizes("dilation ", c.dilations)] * (
            c.dilations != (1, 1)
        )
        if any(pads != (axis.kernel // 2,) * 2 for axis, pads in zip(c.axes, _ends(c), strict=True)):
            words.append("padding " + " ".join(map(str, c.pads)))
        words += ["column times row"] * self.separable + [self.dtype] * (self.dtype != "f32")
        words += [self.order] * (self.order != "nchw")
        return ", ".join(words)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """[batch, filters, height, width] of the result."""
        return self.convolution.out_shape

    @property
    def flops(self) -> int:
        """Multiplications and additions, those with padding included."""
        kernel = int(np.prod(self.convolution.weights_shape[1:]))
        return 2 * int(np.prod(self.out_shape)) * kernel

    @property
    def bytes(self) -> int:
        """Image, weights and result, each once."""
        c, element = self.convolution, self.element_type.itemsize
        stored = sum(int(np.prod(shape)) for shape in (c.image_shape, c.out_shape))
        return element * stored + 4 * int(np.prod(c.weights_shape))

    @property
    def element_type(self) -> np.dtype:
        """That of image and result."""
        return np.dtype(np.float16 if self.dtype == "f16" else np.float32)

    def data(self) -> ConvolutionData:
        """The arrays of this case, from a fixed seed."""
        filters, channels, height, width = self.convolution.weights_shape
        random = np.random.default_rng(self.convolution.vertical.size * filters + width)
        x = random.standard_normal(self.convolution.image_shape, dtype=np.float32)
        x = x.astype(self.element_type).astype(np.float32)
        sides = ((height, 1), (1, width)) if self.separable else ((height, width),)
        weights = np.full((filters, channels, height, width), (height * width * channels) ** -0.5, np.float32)
        for side in sides:
            weights *= random.standard_normal((filters, channels, *side), dtype=np.float32)
        return ConvolutionData(self, x, weights)


@dataclass(frozen=True, eq=False)
class ConvolutionData:
    """The arrays of a case: float32, C-contiguous, [batch, channels, H, W] and [filters, channels / groups,
    height, width]. What is stored in fewer bits is rounded to them."""

    case: ConvolutionCase
    x: Planes
    weights: Planes

    @property
    def tolerance(self) -> float | None:
        """The error that a result stored in few bits may have, in units of its largest element."""
        return None if self.case.dtype == "f32" else 1e-3

    @cached_property
    def expected(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The result in float64."""
        return self.case.convolution.reference(self.x, self.weights)


def same_size_case(
    channels: int,
    filters: int,
    kernel: int,
    height: int,
    width: int,
    stride: int = 1,
    *,
    separable: bool = False,
    groups: int = 1,
) -> ConvolutionCase:
    """One image, a square kernel of odd size, and as much padding as keeps the size at stride 1."""
    image, weights = (1, channels, height, width), (filters, channels // groups, kernel, kernel)
    c = convolution_of(image, weights, strides=stride, padding=kernel // 2, groups=groups)
    return ConvolutionCase(c, separable=separable)


def model_convolutions(model: Model) -> tuple[ConvolutionCase, ...]:
    """Each convolution of images in `model` whose sizes are known, once, in the model's order."""
    from regweave.graphs import recognise_window

    found: Counter[Convolution] = Counter()
    for node in model.nodes:
        window = recognise_window(model, node)
        if window is not None:
            found[window.convolution(size or 0 for size in model.shapes[node.input[0]])] += 1
    return tuple(ConvolutionCase(convolution, times) for convolution, times in found.items())


def _size(c: Convolution) -> str:
    return "x".join(str(axis.size) for axis in c.axes)


def _sizes(sign: str, values: tuple[int, int]) -> str:
    """`/2`, `/2x1`; nothing where all are 1."""
    alike = len(set(values)) == 1
    return "" if values == (1, 1) else sign + "x".join(map(str, values[:1] if alike else values))


def _ends(c: Convolution) -> list[tuple[int, int]]:
    return [(axis.before, axis.after) for axis in c.axes]


CONVOLUTIONS = (
    same_size_case(3, 16, 3, 1080, 1920),
    same_size_case(8, 8, 3, 1080, 1920),
    same_size_case(3, 64, 7, 224, 224, stride=2),
    same_size_case(64, 64, 3, 56, 56),
    same_size_case(1, 1, 5, 4096, 4096),
    same_size_case(32, 32, 3, 512, 512),
    same_size_case(1, 1, 5, 4096, 4096, separable=True),
)

#: Layers of networks for photographs: depthwise ones, products of pixels, squares at every size of map.
LAYERS = (
    *(
        same_size_case(c, c, 3, s, s, groups=c)
        for c, s in ((32, 112), (128, 56), (256, 28), (512, 14), (1024, 7))
    ),
    same_size_case(128, 128, 3, 56, 56, stride=2, groups=128),
    same_size_case(480, 480, 5, 14, 14, groups=480),
    same_size_case(256, 64, 1, 56, 56),
    same_size_case(64, 256, 1, 56, 56),
    same_size_case(1024, 256, 1, 14, 14),
    same_size_case(2048, 512, 1, 7, 7),
    same_size_case(1024, 1000, 1, 1, 1),
    same_size_case(256, 512, 1, 56, 56, stride=2),
    *(same_size_case(c, c, 3, s, s) for c, s in ((64, 56), (128, 28), (256, 14), (512, 7))),
    same_size_case(64, 128, 3, 56, 56, stride=2),
    same_size_case(3, 32, 3, 224, 224, stride=2),
)

#: What has fewer filters than lanes, or channels: products to colours, photographs.
FEW = (
    same_size_case(64, 3, 1, 224, 224),
    same_size_case(64, 3, 3, 56, 56),
    same_size_case(3, 1, 3, 540, 960),
    same_size_case(3, 3, 3, 540, 960),
    *(same_size_case(3, 3, k, 540, 960, groups=3) for k in (3, 5)),
)

#: What is measured at 64 megapixels beside one: layers so light that memory counts.
SCALED = tuple(
    same_size_case(channels, filters, kernel, 8192, 8192)
    for channels, filters, kernel in ((1, 1, 3), (1, 1, 5), (2, 1, 3), (2, 2, 3), (3, 3, 3), (4, 1, 3))
)


def channels_last_cases() -> tuple[ConvolutionCase, ...]:
    """The layers, those of few channels, and what people have of several channels, as images whose channels
    lie side by side."""
    several = (case for case in CONVOLUTIONS if case.convolution.channels > 1)
    cases = {case.convolution: replace(case, order="nhwc") for case in (*several, *LAYERS, *FEW)}
    return tuple(cases.values())
