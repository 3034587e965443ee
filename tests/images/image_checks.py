"""What the tests of filters share: what a filter computes, in float64, and memory that must not be left.

sums = responses(image, chosen.kernels, "edge")       response, row, column, channel
raw = fenced(4 * mmap.PAGESIZE)                       its first and last page are no one's
"""

import ctypes
import mmap

import numpy as np

from regweave.images.beyond import inside


def responses(image, kernels, border):
    """Each kernel's sums over the image [rows, columns, channels], with `border` around it, in float64."""
    _, high, wide = kernels.shape
    height, width, _ = image.shape
    rows = np.arange(-(high // 2), height + high - 1 - high // 2)
    columns = np.arange(-(wide // 2), width + wide - 1 - wide // 2)
    around = image[inside(rows, height, border)][:, inside(columns, width, border)].astype(np.float64)
    if border == "zero":
        around[(rows < 0) | (rows >= height)] = 0
        around[:, (columns < 0) | (columns >= width)] = 0
    windows = np.lib.stride_tricks.sliding_window_view(around, (high, wide), axis=(0, 1))
    return np.einsum("yxchw,nhw->nyxc", windows, kernels.astype(np.float64))


def fenced(size):
    """Bytes between two pages that must not be touched, and these pages."""
    raw = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    libc = ctypes.CDLL(None)
    for start in (0, size - mmap.PAGESIZE):
        place = ctypes.c_void_p(raw.ctypes.data + start)
        assert libc.mprotect(place, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return raw
