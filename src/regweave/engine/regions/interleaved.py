"""Kernels with rows apart as several kernels without: of every d-th row of the image, for every d-th result.

With dilation d and stride 1 along the columns, results d rows apart read image rows d rows apart, and no
others. So the rows of an image are d images that lie inside each other, each with padding of its own:

    3 rows at dilation 2, padding 1:     y0 reads (-1) x1 x3      y1 reads x0 x2 x4
                                         y2 reads  x1  x3 x5      y3 reads x2 x4 x6
    odd rows, one row of padding above -> even results; even rows, none -> odd results

Of neighbouring rows half of the products can be saved (kernels/convolution/transforms.py), of rows apart
none: that is what this is for. Nothing is copied, an image of every d-th row is one whose rows lie further
apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from regweave.convolution import Conv2d, DenseConvolution
from regweave.convolution.planes.form import transforms
from regweave.devices.onnxruntime import Place, Step
from regweave.engine.regions.preparing import Shape, convolution_step
from regweave.operators import Axis, Convolution


@dataclass(frozen=True)
class Interleaved:
    """Rows `source`, `source` + d, ... (`axis.size` of them) give the results `target`, `target` + d, ..."""

    source: int
    target: int
    axis: Axis


@dataclass(frozen=True)
class Part:
    """A convolution, and the bytes from the first row of image and result to where it begins."""

    dense: DenseConvolution
    x: int = 0
    y: int = 0

    def step(self, x: Place, y: Place, strips: int, x_image: int, y_image: int) -> Step:
        """What runs it where image and result lie there, and images are so many bytes apart."""
        x, y = replace(x, offset=x.offset + self.x), replace(y, offset=y.offset + self.y)
        return convolution_step(self.dense, x, y, strips, x_image, y_image)


def interleaved(axis: Axis) -> tuple[Interleaved, ...]:
    """The images inside each other, for stride 1; only those with results."""
    d, found = axis.dilation, []
    for target in range(min(d, axis.outputs)):
        above, source = divmod(target - axis.before, d)
        size, outputs = len(range(source, axis.size, d)), len(range(target, axis.outputs, d))
        below = outputs - 1 + above + axis.kernel - size
        part = Axis(size + min(below, 0), axis.kernel, before=-above, after=max(below, 0))
        found.append(Interleaved(source, target, part))
    return tuple(found)


def worth_parting(c: Convolution) -> bool:
    """Whether rows of a dilated kernel are worth taking apart: each image has something to transform."""
    axis = c.vertical
    if axis.dilation == 1 or axis.stride != 1:
        return False
    parts = interleaved(axis)
    return bool(parts) and all(
        part.axis.size > 0 and part.axis.before >= 0 and transforms(replace(c, vertical=part.axis))
        for part in parts
    )


def convolutions(
    layer: Conv2d,
    shape: Shape,
    x_strides: tuple[int, ...],
    y_strides: tuple[int, ...],
    parted: Callable[[tuple[int, ...], tuple[int, int]], Conv2d],
    finite: bool,
) -> tuple[Part, ...]:
    """What runs a layer on images of that shape, whose images, channels, rows and elements are so many bytes
    apart, as those of the result; `parted` gives its convolution with other padding and dilations."""
    c = layer.convolution(shape)
    if not (finite and worth_parting(c)):
        return (Part(layer.dense(shape, x_strides, y_strides, finite=finite)),)
    d, left, right = c.vertical.dilation, c.horizontal.before, c.horizontal.after
    apart = [(*s[:2], d * s[2], s[3]) for s in (x_strides, y_strides)]
    found = []
    for part in interleaved(c.vertical):
        padding = part.axis.before, left, part.axis.after, right
        rows = (*shape[:2], part.axis.size, shape[3])
        dense = parted(padding, (1, c.horizontal.dilation)).dense(rows, *apart)
        found.append(Part(dense, x_strides[2] * part.source, y_strides[2] * part.target))
    return tuple(found)


def strides_of(shape: Shape) -> tuple[int, ...]:
    """Bytes from one image, channel, row and element to the next where they lie one after the other."""
    return 4 * prod(shape[1:]), 4 * prod(shape[2:]), 4 * shape[3], 4
