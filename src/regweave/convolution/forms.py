"""Rows rearranged for a kernel's width and stride, so that neighbouring outputs read neighbouring elements.

Sliding along a row, three taps wide and two apart, gives one column of elements per step; the columns of a
row are a block, and the blocks of successive rows stand one below the other:

    row 0   a b c d e f g        a c e   taps 0      unrolled: a row of outputs per tap,
                            ->   b d f   taps 1      Kw / s times the image
                                 c e g   taps 2

    row 0   a b c d e f g        a c e g  phase 0    polyphase: a row per place within the stride, once the
                            ->   b d f .  phase 1    image; tap k is phase k mod s, moved by k div s

Either way each tap reads consecutive elements, whole vectors of them. A column as tall as the kernel would be
im2col, Kh * Kw / s^2 times the image; here rows stay apart and a kernel's rows are found below one another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regweave.cascades.arrays import take
from regweave.errors import InputError
from regweave.memory import room
from regweave.operators import Axis

FORMS = ("unrolled", "polyphase", "none")


def unroll_rows(image: Any, kernel_width: int, stride: int = 1) -> Any:
    """The unrolled image: `kernel_width` rows of outputs per image row, block after block.

    `image` [..., height, width] is an ndarray of any element type, or a float32 tensor. The result is of the
    same kind, [..., height * kernel_width, (width - kernel_width) // stride + 1]: row `y * kernel_width + k`
    holds the elements that tap k reads in image row y. Errors: InputError where a row is shorter than the
    kernel, or is none, and where the result is larger than this machine's memory.
    """
    x, wrap = (image, np.asarray) if type(image) is np.ndarray else take(image, "image")
    axis = _axis(x, kernel_width, stride)
    blocks = room(
        (*x.shape[:-1], axis.kernel, axis.outputs),
        x.dtype,
        fix="unroll some rows at a time: image[..., first:last, :]; regweave.conv2d keeps a few rows only",
    )
    rows = np.lib.stride_tricks.sliding_window_view(x, axis.kernel, axis=-1)[..., :: axis.stride, :]
    np.copyto(blocks, np.moveaxis(rows, -1, -2))
    return wrap(blocks.reshape(*x.shape[:-2], x.shape[-2] * axis.kernel, axis.outputs))


def plane_shifts(axis: Axis, form: str) -> tuple[int, ...]:
    """The rows that a form makes of an image row: element j of plane p is `j * stride + shifts[p] - before`.

    An unrolled row has one plane per tap; a polyphase one has one per place within the stride that some tap
    reads, in the order of the taps, longer than the outputs; without rearrangement the row itself is the
    only one.
    """
    if form == "unrolled":
        return tuple(tap * axis.dilation for tap in range(axis.kernel))
    if form == "polyphase":
        return tuple(tap * axis.dilation % axis.stride for tap in range(min(axis.kernel, phases(axis))))
    return (0,)


def phases(axis: Axis) -> int:
    """After so many taps their places within the stride repeat."""
    return axis.stride // math.gcd(axis.stride, axis.dilation)


def plane_of(axis: Axis, form: str, tap: int) -> tuple[int, int]:
    """(plane, elements from output 0) where a tap finds its element in the planes of `plane_shifts`."""
    if form == "unrolled":
        return tap, 0
    if form == "polyphase":
        return tap % phases(axis), tap * axis.dilation // axis.stride
    return 0, tap * axis.dilation


def plane_width(axis: Axis, form: str) -> int:
    """Elements of a plane that taps read."""
    if form == "none":
        return (axis.outputs - 1) * axis.stride + axis.span
    return axis.outputs + max(plane_of(axis, form, tap)[1] for tap in range(axis.kernel))


def rearranged(image: np.ndarray, axis: Axis, form: str) -> np.ndarray:
    """[..., height, planes, plane width]: the rows of `image` in a form, zero where they are padding."""
    shifts, width = plane_shifts(axis, form), plane_width(axis, form)
    step = 1 if form == "none" else axis.stride
    result = np.zeros((*image.shape[:-1], len(shifts), width), image.dtype)
    for plane, shift in enumerate(shifts):
        first = shift - axis.before
        low = max(0, -(first // step))
        high = max(low, min(width, -(-(axis.size - first) // step)))
        result[..., plane, low:high] = image[..., first + low * step : first + high * step : step][
            ..., : high - low
        ]
    return result


def _axis(image: np.ndarray, kernel_width: int, stride: int) -> Axis:
    for name, value in (("kernel_width", kernel_width), ("stride", stride)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise InputError(f"{value!r} is no {name}", where=name, expected="a whole number, at least 1")
    if image.ndim < 2:
        raise InputError(f"the shape is {list(image.shape)}", where="image", expected="[..., height, width]")
    axis = Axis(image.shape[-1], int(kernel_width), int(stride))
    if axis.outputs < 1:
        raise InputError(
            f"a kernel of width {kernel_width} over rows of {image.shape[-1]}",
            where="kernel_width",
            expected=f"at most {image.shape[-1]}",
        )
    return axis
