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
from regweave.convolution.choice import transforms
from regweave.devices.onnxruntime import OUTPUT_PLACE, Place, Prepared, Step
from regweave.engine.preparing import Shape, convolution_step, room_of
from regweave.operators import Axis, Convolution


@dataclass(frozen=True)
class Interleaved:
    """Rows `source`, `source` + d, ... (`axis.size` of them) give the results `target`, `target` + d, ..."""

    source: int
    target: int
    axis: Axis


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


def prepare_interleaved(
    c: Convolution, shape: Shape, layer: Callable[[tuple[int, ...], tuple[int, int]], Conv2d]
) -> Prepared:
    """What runs `c` on dense images of that shape; `layer` gives its convolution with other padding and
    dilations."""
    batch, channels, _, width = shape
    d, left, right = c.vertical.dilation, c.horizontal.before, c.horizontal.after
    x_strides, y_strides = _strides(c.image_shape, d), _strides(c.out_shape, d)
    parts: list[tuple[DenseConvolution, Place, Place]] = []
    for part in interleaved(c.vertical):
        padding = part.axis.before, left, part.axis.after, right
        rows = batch, channels, part.axis.size, width
        dense = layer(padding, (1, c.horizontal.dilation)).dense(rows, x_strides, y_strides)
        x, y = 4 * width * part.source, 4 * c.horizontal.outputs * part.target
        parts.append((dense, Place(0, x), Place(OUTPUT_PLACE, y)))
    strips, memory = room_of([dense for dense, _, _ in parts])
    steps: tuple[Step, ...] = tuple(convolution_step(dense, x, y, strips) for dense, x, y in parts)
    return Prepared(c.out_shape, steps, memory)


def _strides(shape: Shape, apart: int) -> tuple[int, ...]:
    """Bytes from one image, channel, row and element to the next, of every `apart`-th row."""
    return 4 * prod(shape[1:]), 4 * prod(shape[2:]), 4 * apart * shape[3], 4
