"""Filtering an image of any size: small kernels by name or from a file.

    >>> soft = filter_image(photo, image_filter("gaussian5"))
    >>> edges = filter_image(photo, image_filter("sobel"), stride=2)

Images are filtered as they lie in memory: of 8 and 16 bits where whole numbers do it (`bytewise`, `means`),
else in f32 (`weighted`). Narrow images and very large kernels go band by band through `Conv2d`. A band is
some rows of the image with what its kernels reach above and below, as f32, one plane per channel; so an image
that is mapped from a file needs memory for a band only. Kernels are not flipped (as in OpenCV's filter2D);
the middle of a kernel of even size is the element right and below. Channels are filtered apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regweave.cascades import thread_count
from regweave.errors import InputError, nearest_names, unknown_name
from regweave.files import path_of
from regweave.images.beyond import BORDERS, inside
from regweave.images.bytewise import filter_bytes, stays_in_registers
from regweave.images.finishing import Progress, check_progress
from regweave.images.means import filter_means
from regweave.images.operations import read_matrix
from regweave.images.taking import check_out, whole_number
from regweave.images.weighted import filter_weighted
from regweave.images.whole import whole_numbers
from regweave.memory import room
from regweave.values import frozen

_MOST_SIDE = 63
_SIZED = re.compile(r"(gaussian|box)([0-9]{1,9})")
#: A kernel with a longer side that is a column times a row of weights takes its columns first, then its rows:
#: one pass that does both holds no more in registers.
_LONGEST_AT_ONCE = 13
#: Elements of a band as f32.
_BAND = 1 << 19
_CROSS = ((0, 1, 0), (1, -4, 1), (0, 1, 0))
_SOBEL = ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))


@frozen(eq=False)
class ImageFilter:
    """Kernels [n, height, width]; of one the response is taken, or its `magnitude`; of several the root of
    the sum of squares."""

    name: str
    kernels: np.ndarray
    magnitude: bool = False

    def __post_init__(self) -> None:
        shape, kind = np.shape(self.kernels), getattr(self.kernels, "dtype", None)
        if kind != np.float32 or len(shape) != 3 or 0 in shape or max(shape[1:]) > _MOST_SIDE:
            raise InputError(
                f"kernels of shape {list(shape)} and type {kind}",
                where=self.name,
                expected=f"[n, height, width] of float32, at most {_MOST_SIDE} x {_MOST_SIDE}",
            )

    def combine(self, responses: np.ndarray) -> np.ndarray:
        """Responses [channels, n, height, width], which are overwritten, to [channels, height, width]."""
        if responses.shape[1] == 1:
            first = responses[:, 0]
            return np.abs(first, out=first) if self.magnitude else first
        np.multiply(responses, responses, out=responses)
        total = responses[:, 0]
        for n in range(1, responses.shape[1]):
            total += responses[:, n]
        return np.sqrt(total, out=total)


def _gaussian(side: int) -> np.ndarray:
    row = np.array([1.0])
    for _ in range(side - 1):
        row = np.convolve(row, (0.5, 0.5))
    return np.outer(row, row)


def _unsharp() -> np.ndarray:
    kernel = -_gaussian(5)
    kernel[2, 2] += 2
    return kernel


_FILTERS: dict[str, tuple[str, Callable[[], ImageFilter]]] = {
    "gaussianN": ("binomial blur of N x N (gaussian5)", lambda: _made("gaussian5", _gaussian(5))),
    "boxN": ("mean of N x N pixels (box9)", lambda: _made("box9", np.full((9, 9), 1 / 81))),
    "sobel": ("strength of edges, a step of 1 gives 1", lambda: _made("sobel", *_sobel(), magnitude=True)),
    "laplacian": ("magnitude of the second derivative", lambda: _made("laplacian", _CROSS, magnitude=True)),
    "unsharp": ("sharper: the image and its difference to gaussian5", lambda: _made("unsharp", _unsharp())),
}


def _sobel() -> tuple[np.ndarray, np.ndarray]:
    kernel = np.array(_SOBEL) / 4
    return kernel, kernel.T


def _made(name: str, *kernels: Any, magnitude: bool = False) -> ImageFilter:
    return ImageFilter(name, np.array(kernels, np.float32), magnitude)


def filter_names() -> dict[str, str]:
    """The filters by name, each with what it does; N stands for an odd number."""
    return {name: text for name, (text, _) in _FILTERS.items()}


def image_filter(name: str | Path) -> ImageFilter:
    """A filter by name (`gaussian5`, `box9`, `sobel`, `laplacian`, `unsharp`), or the kernel in a file.

    A file is an .npy or a text with one row per line, [height, width] up to 63 x 63. InputError for unknown
    names and for files that hold no such kernel.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise InputError(
            f"{type(name).__name__} is no filter",
            where="kernel",
            expected="a name like 'gaussian5', or that of a file with a kernel",
            fix="np.save the kernel, or give it to regweave.conv2d",
        )
    word = str(name)
    sized = _SIZED.fullmatch(word)
    if sized is not None:
        side = int(sized[2])
        if side % 2 == 0 or side > _MOST_SIDE:
            raise InputError(
                f"a filter of {side} x {side}", where=word, expected=f"an odd side up to {_MOST_SIDE}"
            )
        return _made(word, _gaussian(side) if sized[1] == "gaussian" else np.full((side, side), 1 / side**2))
    if word in _FILTERS and not word.endswith("N"):
        return _FILTERS[word][1]()
    path = path_of(name)
    if not word or (not path.suffix and not path.exists()):
        known = [key.replace("N", "5") for key in _FILTERS]
        raise InputError(
            f"unknown filter {word!r}",
            where="kernel",
            nearest=nearest_names(word, known),
            expected=f"{', '.join(_FILTERS)} (N odd), or a file (.npy, or text with one row per line)",
        )
    kernel = read_matrix(path)
    if kernel.ndim != 2 or max(kernel.shape) > _MOST_SIDE:
        raise InputError(
            f"a kernel of shape {list(kernel.shape)}",
            where=str(path),
            expected=f"[height, width], at most {_MOST_SIDE} x {_MOST_SIDE}",
        )
    return _made(path.name, kernel)


def filtered_shape(shape: Sequence[int], stride: int) -> tuple[int, int, int]:
    """The shape of a filtered image. InputError for a stride that is none."""
    stride = whole_number(stride, "stride")
    return -(-shape[0] // stride), -(-shape[1] // stride), shape[2]


def filter_image(
    image: np.ndarray,
    chosen: ImageFilter | str,
    *,
    stride: int = 1,
    border: str = "edge",
    threads: int | None = None,
    out: np.ndarray | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """The filtered image, at every `stride`-th pixel: [height / stride, width / stride, channels], both up.

    `image` [height, width, channels] of u8, u16 or f32; `chosen` a filter, or the name of one. The result is
    of the image's type, rounded to even and clamped, or written into `out`. `border` says how the image goes
    on beyond its edges: "edge", "mirror" or "zero". `progress(done, rows)` is called after each band.
    InputError for other shapes, types and words.
    """
    if not isinstance(chosen, ImageFilter):
        chosen = image_filter(chosen)
    check_progress(progress)
    if not isinstance(border, str) or border not in BORDERS:
        raise unknown_name("border", border, BORDERS, where="border")
    image = image if isinstance(image, np.ndarray) else np.asarray(image)
    if image.ndim != 3 or 0 in image.shape or image.dtype not in (np.uint8, np.uint16, np.float32):
        raise InputError(
            f"an image of shape {list(image.shape)} and type {image.dtype}",
            expected="[height, width, channels] of uint8, uint16 or float32",
        )
    shape = rows, columns, channels = filtered_shape(image.shape, stride)
    stride = int(stride)
    if out is None:
        out = room(shape, image.dtype, fix="give an `out` that lies in a file, or a larger stride")
    else:
        check_out(out, shape, image.dtype, image)
    count, high, wide = chosen.kernels.shape
    workers = thread_count(threads)
    if image.dtype != np.float32 and _in_whole_numbers(image, chosen, stride, border, workers, out, progress):
        return out
    if filter_weighted(image, chosen, border, workers, out, progress, stride=stride):
        return out
    from regweave.images.conversion import to_image

    layer = _layer(chosen.kernels, stride, threads)
    band = max(1, _BAND // (columns * channels * max(count, stride * stride)))
    for first in range(0, rows, band):
        last = min(first + band, rows)
        planes = _planes(image, first * stride, (last - 1) * stride + 1, (high, wide), border, workers)
        values = chosen.combine(layer(planes)[:, :, : last - first, :columns])
        to_image(values, out[first:last], workers)
        if progress is not None:
            progress(last, rows)
    return out


def _in_whole_numbers(
    image: np.ndarray,
    chosen: ImageFilter,
    stride: int,
    border: str,
    workers: int,
    out: np.ndarray,
    progress: Progress | None,
) -> bool:
    """Whether there is such a kernel, and the image is filtered."""
    whole = whole_numbers(chosen, image.shape[2], deep=image.dtype == np.uint16)

    def filtered() -> bool:
        return whole is not None and filter_bytes(image, whole, border, workers, out, progress, stride=stride)

    if whole is not None and stays_in_registers(whole) and filtered():
        return True
    if stride == 1 and filter_means(image, chosen.kernels, border, workers, out, progress):
        return True
    return filtered()


def _layer(kernels: np.ndarray, stride: int, threads: int | None) -> Callable[[np.ndarray], np.ndarray]:
    """From planes [channels, 1, rows, columns] to the kernels' responses [channels, n, ...]."""
    from regweave.convolution import Conv2d
    from regweave.convolution.separable import factors

    count, height, width = kernels.shape
    found = factors(kernels[:, None]) if max(height, width) > _LONGEST_AT_ONCE else None
    if found is None:
        return Conv2d(kernels[:, None], stride=stride, threads=threads)
    down = Conv2d(found[:, None, :height, None], stride=(stride, 1), threads=threads)
    along = Conv2d(found[:, None, None, height:], stride=(1, stride), groups=count, threads=threads)
    return lambda planes: along(down(planes))


def _planes(
    image: np.ndarray, first: int, last: int, size: tuple[int, int], border: str, workers: int
) -> np.ndarray:
    """Rows `first` to `last` with what the kernel reaches around them: [channels, 1, rows, columns], f32."""
    from regweave.images.conversion import to_planes

    height, width, channels = image.shape
    (above, left), (below, right) = ((side // 2 for side in size), (side - 1 - side // 2 for side in size))
    rows = np.arange(first - above, last + below)
    beside = np.concatenate([np.arange(-left, 0), np.arange(width, width + right)])
    planes = np.empty((channels, 1, len(rows), left + width + right), np.float32)
    to_planes(image, inside(rows, height, border), planes[:, 0, :, left:], workers)
    planes[..., left + beside] = planes[..., left + inside(beside, width, border)]
    if border == "zero":
        planes[..., left + beside] = 0
        planes[:, :, (rows < 0) | (rows >= height)] = 0
    return planes
