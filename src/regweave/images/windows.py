"""Patches of an image as rows, so that a bank of filters is one matrix product.

    >>> rows = patches(image, 8)                    # [height - 7, width - 7, 8 * 8 * channels], a view
    >>> responses = filter_bank(image, bank)        # bank [filters, 8, 8] or [filters, 8, 8, channels]

A patch's elements stand row by row, then column, then channel. `filter_bank` pads the image by its edge
pixels, so that every pixel (every `stride`-th one) has a response, and works in bands of rows: the patches of
a whole image would take 64 times its memory for filters of 8 x 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regweave.errors import InputError
from regweave.images.finishing import Progress
from regweave.images.product import ImageProduct, image_gemm
from regweave.images.taking import real_matrix, whole_number
from regweave.memory import room

#: Elements of the patches that are made at a time.
_BAND = 1 << 22


def patches(image: Any, size: int | Sequence[int], stride: int = 1) -> np.ndarray:
    """All patches of `size` (one number, or height and width) of an image [height, width(, channels)].

    The result is [rows, columns, size * size * channels]: rows = (height - size) // stride + 1. It is a copy.
    InputError where the image is smaller than a patch.
    """
    pixels = _channels(image)
    high, wide = _size(size)
    stride = whole_number(stride, "stride")
    if pixels.shape[0] < high or pixels.shape[1] < wide:
        raise InputError(
            f"the image is {pixels.shape[0]} x {pixels.shape[1]}",
            where="image",
            expected=f"at least a patch, {high} x {wide}",
        )
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (high, wide), axis=(0, 1))
    windows = windows[::stride, ::stride].transpose(0, 1, 3, 4, 2)
    return windows.reshape(*windows.shape[:2], -1)


def filter_bank(
    image: Any,
    bank: Any,
    *,
    stride: int = 1,
    machine: str = "cpu",
    precision: str = "f32",
    threads: int | None = None,
    progress: Progress | None = None,
) -> ImageProduct:
    """The response of every filter of `bank` at every `stride`-th pixel: [rows, columns, filters], f32.

    `bank` is [filters, height, width], applied to each channel's mean, or [filters, height, width, channels].
    A filter is not flipped; its middle (of an even size: the pixel right and below it) is on the pixel.
    Machine, precision, errors: as of `image_gemm`.
    """
    pixels, filters = _channels(image), real_matrix(bank, "bank")
    if filters.ndim not in (3, 4) or 0 in filters.shape:
        raise InputError(
            f"the shape is {list(filters.shape)}",
            where="bank",
            expected="[filters, height, width(, channels)]",
        )
    channels = pixels.shape[2]
    if filters.ndim == 3:
        filters = np.repeat(filters[..., None] / channels, channels, axis=3)
    if filters.shape[3] != channels:
        raise InputError(
            f"the filters have {filters.shape[3]} channels and the image {channels}",
            where="bank, image",
            expected="equal numbers, or filters without channels",
        )
    count, high, wide, _ = filters.shape
    stride = whole_number(stride, "stride")
    matrix = filters.reshape(count, -1)
    rows, columns = (-(-side // stride) for side in pixels.shape[:2])
    found = room((rows, columns, count), np.float32, fix="take a larger stride, or a part of the image")
    band = max(1, _BAND // (columns * matrix.shape[1]))
    device = ""
    for first in range(0, rows, band):
        last = min(first + band, rows)
        part = patches(
            _surrounded(pixels, first * stride, (last - 1) * stride + 1, high, wide), (high, wide), stride
        )
        done = image_gemm(part, matrix, machine=machine, precision=precision, threads=threads)
        found[first:last], device = done.pixels, done.device
        if progress is not None:
            progress(last * columns, rows * columns)
    return ImageProduct(found, machine, device, precision)


def _surrounded(pixels: np.ndarray, first: int, last: int, high: int, wide: int) -> np.ndarray:
    """Rows `first` to `last` with what their patches reach, edge pixels repeated beyond the image."""
    height = pixels.shape[0]
    rows = np.clip(np.arange(first - high // 2, last + high - 1 - high // 2), 0, height - 1)
    sides = (wide // 2, wide - 1 - wide // 2)
    return np.pad(pixels[rows], ((0, 0), sides, (0, 0)), mode="edge")


def _channels(image: Any) -> np.ndarray:
    pixels = np.asarray(image)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or 0 in pixels.shape:
        raise InputError(
            f"the shape is {list(pixels.shape)}", where="image", expected="[height, width(, channels)]"
        )
    return pixels


def _size(size: int | Sequence[int]) -> tuple[int, int]:
    sides = (size, size) if np.ndim(size) == 0 else tuple(size)  # type: ignore[arg-type]
    if len(sides) != 2:
        raise InputError(f"a size of {len(sides)} numbers", where="size", expected="one, or height and width")
    high, wide = (whole_number(side, "size") for side in sides)
    return high, wide
