"""A convolution: its sizes, what each axis reads, and its value in float64.

    >>> c = convolution_of((1, 3, 224, 224), (64, 3, 7, 7), strides=2, padding=3)
    >>> c.out_shape
    (1, 64, 112, 112)
    >>> c.axes[1].inside(0)              # the outputs whose leftmost tap lies within the image
    range(2, 112)

Both axes mean the same, so an `Axis` says it once: output o reads, for tap k, the place
`o * stride + k * dilation - before` of the image, if there is such a place; a tap that falls into the padding
adds nothing. From this follow the output's size, the outputs that need no look at the border (`interior`),
and everything that kernels do at one.

A convolution of signals [batch, channels, width] is one of images of height 1, with kernels of height 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from regweave.errors import InputError, nearest_names
from regweave.values import frozen

PADDINGS = ("valid", "same_upper", "same_lower")
#: Places of an axis with its padding, and every other number, at most: kernels count in 32 bits.
_MOST_PLACES = 2**31 - 1
#: Taps of a kernel at most: a float32 does not count further.
_MOST_TAPS = 1 << 24
_AXES = ("height", "width")


@frozen
class Axis:
    """One direction: `size` places of the image, `kernel` taps `dilation` apart, outputs `stride` apart.

    `before` and `after` are the places of padding at either end.
    """

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def span(self) -> int:
        """Places from the first tap of an output to its last, both counted."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def outputs(self) -> int:
        """How many outputs there are; 0 or less where the padded image is shorter than the span."""
        return (self.size + self.before + self.after - self.span) // self.stride + 1

    @property
    def overlap(self) -> int:
        """Places that the spans of neighbouring outputs have in common; 0 where they do not meet."""
        return max(0, self.span - self.stride)

    def place(self, output: int, tap: int) -> int:
        """The place that `output` reads for `tap`; below 0, or `size` and above, it is padding."""
        return output * self.stride + tap * self.dilation - self.before

    def inside(self, tap: int) -> range:
        """The outputs whose `tap` lies within the image; empty (not reversed) where there are none."""
        shift = self.before - tap * self.dilation
        first = max(0, -(-shift // self.stride))
        end = min(self.outputs, (self.size - 1 + shift) // self.stride + 1)
        return range(min(first, max(0, self.outputs)), max(min(first, max(0, self.outputs)), end))

    @property
    def products(self) -> int:
        """Pairs of an output and a tap that lies within the image."""
        shifts = self.before - np.arange(self.kernel, dtype=np.int64) * self.dilation
        first = np.maximum(0, -(-shifts // self.stride))
        ends = np.minimum(self.outputs, (self.size - 1 + shifts) // self.stride + 1)
        return int(np.maximum(0, ends - first).sum())

    def taps(self, output: int) -> range:
        """The taps of `output` that lie within the image."""
        start = output * self.stride - self.before
        first = min(self.kernel, max(0, -(start // self.dilation)))
        end = max(0, min(self.kernel, (self.size - 1 - start) // self.dilation + 1))
        return range(first, max(first, end))

    def places(self, first: int, stop: int) -> tuple[int, int]:
        """The first place of the image that outputs `first` .. `stop - 1` read, and the one behind the last;
        both 0 where they read nothing but padding."""
        start = first * self.stride - self.before
        low, high = max(0, start), min(self.size, start + (stop - 1 - first) * self.stride + self.span)
        return (low, high) if low < high else (0, 0)

    def band(self, first: int, stop: int) -> tuple[Axis, range]:
        """The axis whose outputs are `first` .. `stop - 1` of this one, and the places that it reads.

        Where they read nothing but padding, the axis has one place, which must hold zeros.
        """
        start = self.place(first, 0)
        end = self.place(stop - 1, 0) + self.span
        low, high = self.places(first, stop)
        if low == high:
            return replace(self, size=1, before=0, after=end - start - 1), range(0)
        return replace(self, size=high - low, before=low - start, after=end - high), range(low, high)

    @property
    def interior(self) -> range:
        """The outputs all of whose taps lie within the image."""
        first, last = self.inside(0), self.inside(self.kernel - 1)
        start, end = max(first.start, last.start), min(first.stop, last.stop)
        return range(start, max(start, end))


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
            if axis.outputs >= 1 and places > _MOST_PLACES:
                raise InputError(
                    f"{places} places with the padding", where=name, expected=f"at most {_MOST_PLACES}"
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


def convolution_of(
    image_shape: Sequence[int],
    weights_shape: Sequence[int],
    *,
    strides: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
) -> Convolution:
    """The convolution of an image of that shape with weights of that shape.

    `image_shape` is [batch, channels, height, width] or [batch, channels, width], `weights_shape` [filters,
    channels / groups, kernel height, kernel width] or without the height. `padding` is one number for all
    sides, one per axis, both ends of each axis as ONNX orders them (top, left, bottom, right; left, right),
    or a word: `valid` (none), `same_upper`, `same_lower` (as many outputs as strides fit the image; an odd
    place of padding goes to the end, or to the beginning). Errors: InputError, also for numbers and padded
    images of 2^31 and more and kernels of more than 2^24 places.
    """
    image = _whole_numbers(image_shape, "the image's shape", least=0)
    weights = _whole_numbers(weights_shape, "the weights' shape", least=1)
    if len(image) not in (3, 4) or 0 in image[1:]:
        raise InputError(
            f"an image of shape {list(image)}",
            where="the image's shape",
            expected="[batch, channels, height, width] or [batch, channels, width], each at least 1",
        )
    if len(weights) != len(image):
        raise InputError(
            f"weights of shape {list(weights)} for an image of shape {list(image)}",
            where="the weights' shape",
            expected="[filters, channels / groups, "
            + ("kernel width]" if len(image) == 3 else "kernel height, kernel width]"),
        )
    (groups,) = _whole_numbers((groups,), "groups", least=1)
    dimensions = len(image) - 2
    if image[1] % groups == 0 and weights[1] != image[1] // groups:
        raise InputError(
            f"weights for {weights[1]} channels, but {image[1]} channels in {groups} "
            + ("group" if groups == 1 else "groups"),
            where="the weights' shape",
            expected=f"{image[1] // groups} channels",
            fix=f"give groups={image[1] // weights[1]}" if image[1] % weights[1] == 0 else None,
        )
    steps = _per_axis(strides, dimensions, "strides")
    spread = _per_axis(dilations, dimensions, "dilations")
    sizes = tuple(zip(image[2:], weights[2:], steps, spread, strict=True))
    axes = [Axis(*one, *ends) for one, ends in zip(sizes, _paddings(padding, sizes), strict=True)]
    vertical = axes[0] if dimensions == 2 else Axis(1, 1)
    return Convolution(image[0], image[1], weights[0], vertical, axes[-1], groups, dimensions)


def _paddings(padding: Any, sizes: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int]]:
    """(before, after) per axis."""
    if isinstance(padding, str):
        word = padding.lower()
        if word not in PADDINGS:
            raise InputError(
                f"unknown padding {padding!r}",
                where="padding",
                expected="numbers, or one of " + ", ".join(PADDINGS),
                nearest=nearest_names(word, PADDINGS),
            )
        return [(0, 0) if word == "valid" else _same(word, *one) for one in sizes]
    given = padding if isinstance(padding, Iterable) else (padding,)
    values = _whole_numbers(given, "padding", least=0)
    axes = len(sizes)
    if len(values) == 1:
        values *= 2 * axes
    elif len(values) == axes == 2:
        values *= 2
    if len(values) != 2 * axes:
        raise InputError(
            f"{len(values)} numbers of padding",
            where="padding",
            expected="one, (vertical, horizontal) or (top, left, bottom, right)"
            if axes == 2
            else "one or (left, right)",
        )
    return list(zip(values[:axes], values[axes:], strict=True))


def _same(word: str, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    outputs = -(-size // stride)
    total = max(0, (outputs - 1) * stride + (kernel - 1) * dilation + 1 - size)
    less = total // 2
    return (less, total - less) if word == "same_upper" else (total - less, less)


def _per_axis(given: Any, axes: int, where: str) -> tuple[int, ...]:
    values = _whole_numbers(given if isinstance(given, Iterable) else (given,), where, least=1)
    if len(values) not in (1, axes):
        raise InputError(f"{len(values)} {where}", where=where, expected=f"one, or {axes}: one per axis")
    return values * (axes // len(values))


def _whole_numbers(given: Any, where: str, *, least: int) -> tuple[int, ...]:
    """`given` as a tuple of integers of at least `least` that kernels can count with."""
    try:
        words = tuple(given)
        if any(isinstance(word, bool) for word in words):
            raise TypeError
        values = tuple(map(operator.index, words))
    except TypeError:
        raise InputError(f"{given!r} is not whole numbers", where=where, expected="whole numbers") from None
    wrong = next((value for value in values if value < least), None)
    if wrong is not None:
        raise InputError(f"{wrong} in {where}", where=where, expected=f"at least {least}")
    if max(values, default=0) > _MOST_PLACES:
        raise InputError(f"{max(values)} in {where}", where=where, expected=f"at most {_MOST_PLACES}")
    return values


def _divisors(channels: int, filters: int, near: int) -> tuple[str, ...]:
    """The group counts closest to `near` that divide both, as text."""
    both = math.gcd(channels, filters)
    small = [count for count in range(1, math.isqrt(both) + 1) if both % count == 0]
    found = {*small, *(both // count for count in small)}
    return tuple(map(str, sorted(found, key=lambda count: (abs(count - near), count))[:3]))
