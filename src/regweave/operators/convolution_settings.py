"""A convolution from what a caller says: shapes, strides, padding in numbers or a word, dilations, groups.

>>> convolution_of((1, 3, 224, 224), (64, 3, 7, 7), strides=2, padding="same_upper").pads
(2, 2, 3, 3)
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from regweave.errors import InputError, nearest_names
from regweave.operators.axis import Axis
from regweave.operators.convolution import MOST_PLACES, Convolution

PADDINGS = ("valid", "same_upper", "same_lower")


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
        shown = given[0] if isinstance(given, tuple) and len(given) == 1 else given  # as it was written
        raise InputError(f"{shown!r} is not whole numbers", where=where, expected="whole numbers") from None
    wrong = next((value for value in values if value < least), None)
    if wrong is not None:
        raise InputError(f"{wrong} in {where}", where=where, expected=f"at least {least}")
    if max(values, default=0) > MOST_PLACES:
        raise InputError(f"{max(values)} in {where}", where=where, expected=f"at most {MOST_PLACES}")
    return values
