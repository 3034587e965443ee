"""Images filtered in bands of rows by a native kernel: tables that tell it where rows lie, and running it.

    run_bands(kernel.address, arguments, image, out, height=5, band=16, border="edge", threads=2)

Rows may lie anywhere, forwards or backwards; in a row pixels follow one another. Where only every n-th pixel
is wanted whole rows are made, a few at a time, of which pixels are taken; rows that are not wanted all go to
one place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from regweave.cascades.threads import run
from regweave.images.beyond import inside
from regweave.images.finishing import Progress

#: Bytes that are done between two reports of progress; bytes of whole rows of which a few pixels are wanted.
_BYTES, _WHOLE = 1 << 25, 1 << 20


def run_bands(
    address: int,
    arguments: Callable[[int, int, int], ctypes.Structure],
    image: np.ndarray,
    out: np.ndarray,
    *,
    height: int,
    band: int,
    border: str,
    threads: int,
    stride: int = 1,
    progress: Progress | None = None,
) -> None:
    """Run the kernel at `address` on each band of `band` rows; `height` rows of the image make one of `out`.

    `arguments(rows, outs, last)` are its arguments: addresses of the tables, the first row of the last band.
    """
    rows, length = len(image), image[0].nbytes
    above, spare = height // 2, max(0, band - rows)
    places = np.arange(-above, rows + spare + height - 1 - above)
    starts = image.ctypes.data + inside(places, rows, border) * image.strides[0]
    nought, nowhere = np.zeros(length, np.uint8), np.empty(length, np.uint8)
    if border == "zero":
        starts[(places < 0) | (places >= rows)] = nought.ctypes.data
    last = max(0, rows - band)
    bands = -(-rows // band)
    step = bands if progress is None else max(1, _BYTES // (band * length))
    if stride > 1:
        step = max(threads, _WHOLE // (band * length))
    for first in range(0, bands, step):
        parts = min(step, bands - first)
        done = min((first + parts) * band, rows)
        begin = min(first * band, last)  # the last band reaches back
        wanted = slice(-(-begin // stride), -(-done // stride))
        whole = out[wanted] if stride == 1 else np.empty((len(out[wanted]), *image.shape[1:]), out.dtype)
        outs = np.full(max(parts * band, done - begin), nowhere.ctypes.data)
        outs[wanted.start * stride - begin : done - begin : stride] = (
            whole.ctypes.data + np.arange(len(whole)) * whole.strides[0]
        )
        given = arguments(starts[begin:].ctypes.data, outs.ctypes.data, last - begin)
        run(address, ctypes.addressof(given), parts, threads)
        if stride > 1:
            _thin(whole, stride, out[wanted])
        if progress is not None:
            progress(wanted.stop, len(out))


def is_dense(image: np.ndarray) -> bool:
    """Whether a row's pixels follow one another."""
    size, channels = image.itemsize, image.shape[2]
    return image.strides[1:] == (channels * size, size) or (image.strides[2] == size and image.shape[1] == 1)


def _thin(whole: np.ndarray, stride: int, out: np.ndarray) -> None:
    """Every `stride`-th pixel of rows; channel by channel NumPy is fastest."""
    for channel in range(out.shape[2]):
        np.copyto(out[..., channel], whole[:, ::stride, channel])
