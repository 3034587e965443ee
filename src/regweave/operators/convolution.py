"""A convolution: its sizes, what each axis reads, and its value in float64.

    >>> c = convolution_of((1, 3, 224, 224), (64, 3, 7, 7), strides=2, padding=3)
    >>> c.out_shape
    (1, 64, 112, 112)

Both axes mean the same, so an `Axis` says it once (see `axis`).

A convolution of signals [batch, channels, width] is one of images of height 1, with kernels of height 1.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from regweave.errors import InputError
from regweave.operators.axis import Axis
from regweave.values import frozen

#: Places of an axis with its padding, and every other number, at most: kernels count in 32 bits.
MOST_PLACES = 2**31 - 1
#: Taps of a kernel at most: a float32 does not count further.
_MOST_TAPS = 1 << 24
_AXES = ("height", "width")


@frozen
class Convolution:
    """`filters` kernels over an image of `channels`, in `groups` that share nothing. All sizes are checked.

    `vertical` and `horizontal` are its axes; `dimensions` is 2, or 1 for signals, whose height is 1. Made by
    `convolution_of`. Errors: InputError.
    """

    batch: int
    channels: int
    filters: int
    vertical: Axis
    horizontal: Axis
    groups: int = 1
    dimensions: int = 2

    def __post_init__(self) -> None:
        for name, sizes in (("channels", self.channels), ("filters", self.filters)):
            if sizes % self.groups:
                raise InputError(
                    f"{sizes} {name} in {self.groups} groups",
                    where="groups",
                    expected=f"a divisor of {sizes}",
                    nearest=_divisors(self.channels, self.filters, self.groups),
                )
        taps = self.vertical.kernel * self.horizontal.kernel
        if taps > _MOST_TAPS:
            raise InputError(f"a kernel of {taps} places", where="kernel", expected=f"at most {_MOST_TAPS}")
        for name, axis in zip(_AXES, self.axes, strict=True):
            places = max(axis.span, axis.size + axis.before + axis.after)
            if axis.outputs >= 1 and places > MOST_PLACES:
                raise InputError(
                    f"{places} places with the padding", where=name, expected=f"at most {MOST_PLACES}"
                )
            if axis.outputs < 1:
                raise InputError(
                    f"a kernel that spans {axis.span} places of {axis.size} with {axis.before} + "
                    f"{axis.after} of padding has no output",
                    where=name,
                    expected=f"a {name} of at least {axis.span} with the padding",
                    fix="pad more, or take a smaller kernel or dilation",
                )

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """(vertical, horizontal)."""
        return self.vertical, self.horizontal

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """(top, left, bottom, right), the order of ONNX."""
        return (self.vertical.before, self.horizontal.before, self.vertical.after, self.horizontal.after)

    @property
    def strides(self) -> tuple[int, int]:
        """(vertical, horizontal)."""
        return self.vertical.stride, self.horizontal.stride

    @property
    def dilations(self) -> tuple[int, int]:
        """(vertical, horizontal)."""
        return self.vertical.dilation, self.horizontal.dilation

    @property
    def group_channels(self) -> int:
        """Channels that one output reads."""
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        """Filters of one group; the multiplier of a depthwise convolution."""
        return self.filters // self.groups

    @property
    def depthwise(self) -> bool:
        """Whether each output reads a single channel out of several."""
        return self.groups > 1 and self.group_channels == 1

    @property
    def image_shape(self) -> tuple[int, ...]:
        """[batch, channels, height, width], or [batch, channels, width]."""
        return (self.batch, self.channels, *(axis.size for axis in self.axes[-self.dimensions :]))

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """[filters, channels / groups, kernel height, kernel width], or without the height."""
        return (self.filters, self.group_channels, *(axis.kernel for axis in self.axes[-self.dimensions :]))

    @property
    def out_shape(self) -> tuple[int, ...]:
        """[batch, filters, height, width], or [batch, filters, width]."""
        return (self.batch, self.filters, *(axis.outputs for axis in self.axes[-self.dimensions :]))

    @cached_property
    def products(self) -> int:
        """Multiplications, each with its addition, that are not with padding."""
        per_axis = [axis.products for axis in self.axes]
        return self.batch * self.filters * self.group_channels * per_axis[0] * per_axis[1]

    def reference(self, image: np.ndarray, weights: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """The result in float64; the arrays have `image_shape` and `weights_shape`, `bias` [filters]."""
        groups, deep = self.groups, self.group_channels
        x = np.asarray(image, np.float64).reshape(self.batch, groups, deep, *(a.size for a in self.axes))
        w = np.asarray(weights, np.float64).reshape(groups, self.group_filters, deep, *self._kernel)
        y = np.zeros((self.batch, groups, self.group_filters, *(axis.outputs for axis in self.axes)))
        with np.errstate(invalid="ignore", over="ignore"):
            for row, column in np.ndindex(*self._kernel):
                places, outs = [], []
                for axis, tap in zip(self.axes, (row, column), strict=True):
                    found = axis.inside(tap)
                    first = axis.place(found.start, tap)
                    places.append(slice(first, first + len(found) * axis.stride, axis.stride))
                    outs.append(slice(found.start, found.stop))
                if all(part.stop > part.start for part in outs):
                    seen = x[..., places[0], places[1]]
                    sizes = seen.shape[-2:]
                    sums = w[..., row, column] @ seen.reshape(self.batch, groups, deep, sizes[0] * sizes[1])
                    y[..., outs[0], outs[1]] += sums.reshape(self.batch, groups, self.group_filters, *sizes)
            if bias is not None:
                y += np.asarray(bias, np.float64).reshape(groups, self.group_filters, 1, 1)
        return y.reshape(self.out_shape)

    @property
    def _kernel(self) -> tuple[int, int]:
        return self.vertical.kernel, self.horizontal.kernel

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.image_shape))
        text = f"{sizes} by {'x'.join(map(str, self.weights_shape))}"
        for name in ("stride", "dilation"):
            values = [getattr(axis, name) for axis in self.axes[-self.dimensions :]]
            if any(value != 1 for value in values):
                text += f", {name} " + "x".join(map(str, values[: len(set(values))]))
        if any(self.pads):
            text += f", padding {' '.join(map(str, self.pads))}"
        return text + (f", {self.groups} groups" if self.groups > 1 else "")


def _divisors(channels: int, filters: int, near: int) -> tuple[str, ...]:
    """The group counts closest to `near` that divide both, as text."""
    both = math.gcd(channels, filters)
    small = [count for count in range(1, math.isqrt(both) + 1) if both % count == 0]
    found = {*small, *(both // count for count in small)}
    return tuple(map(str, sorted(found, key=lambda count: (abs(count - near), count))[:3]))
