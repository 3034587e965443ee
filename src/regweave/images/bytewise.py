"""8-bit and 16-bit images filtered by a kernel in whole numbers, where there is one.

    filter_bytes(photo, form, "edge", threads, out, None)      True: out is filled; False: not for this kernel

Tables tell the kernel where rows lie and where pixels beyond an edge come from. Rows may lie anywhere,
forwards or backwards; in a row pixels must follow one another.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.cascades.device import choose_machine
from regweave.cascades.threads import run
from regweave.devices import cpu
from regweave.images.beyond import inside
from regweave.images.finishing import Progress
from regweave.kernels.photographs import (
    ByteFilter,
    PhotographArguments,
    band_rows,
    in_memory,
    least_length,
)
from regweave.machines.x86 import VectorMachine

if TYPE_CHECKING:
    from regweave.assembly import Listing

#: Bytes that are done between two reports of progress; bytes of whole rows of which a few pixels are wanted.
_BYTES, _WHOLE = 1 << 25, 1 << 20


def filter_bytes(
    image: np.ndarray,
    form: ByteFilter,
    border: str,
    threads: int,
    out: np.ndarray,
    progress: Progress | None,
    *,
    stride: int = 1,
) -> bool:
    """Filter an image [height, width, channels] into `out`, every `stride`-th pixel of it; False where no
    kernel can."""
    machine = choose_machine()
    height, width, channels = image.shape
    if machine is None or not (is_dense(image) and is_dense(out)):
        return False
    pixel_bytes = channels * form.element
    length, most = width * pixel_bytes, band_rows(form, machine)
    if not most or length < least_length(form, machine):
        return False
    kernel = _loaded(form, machine)
    above, spare = form.height // 2, max(0, most - height)
    places = np.arange(-above, height + spare + form.height - 1 - above)
    starts = image.ctypes.data + inside(places, height, border) * image.strides[0]
    nought, nowhere = np.zeros(length, np.uint8), np.empty(length, np.uint8)
    if border == "zero":
        starts[(places < 0) | (places >= height)] = nought.ctypes.data
    beside = np.concatenate([np.arange(-form.left, 0), np.arange(form.right) + length])
    pixel, byte = np.divmod(beside, pixel_bytes)
    borders = inside(pixel, width, border) * pixel_bytes + byte
    last = max(0, height - most)
    bands = -(-height // most)
    step = bands if progress is None else max(1, _BYTES // (most * length))
    if stride > 1:
        step = max(threads, _WHOLE // (most * length))
    for first in range(0, bands, step):
        parts = min(step, bands - first)
        skipped, done = first * most, min((first + parts) * most, height)
        begin = min(skipped, last)  # the last band reaches back
        rows = slice(-(-begin // stride), -(-done // stride))
        whole = out[rows] if stride == 1 else np.empty((rows.stop - rows.start, *image.shape[1:]), out.dtype)
        outs = np.full(max(parts * most, done - begin), nowhere.ctypes.data)
        outs[rows.start * stride - begin : done - begin : stride] = (
            whole.ctypes.data + np.arange(len(whole)) * whole.strides[0]
        )
        arguments = PhotographArguments(
            starts[begin:].ctypes.data,
            outs.ctypes.data,
            length,
            last - begin,
            borders.ctypes.data,
            0 if border == "zero" else -1,
        )
        run(kernel.address, ctypes.addressof(arguments), parts, threads)
        if stride > 1:
            _thin(whole, stride, out[rows])
        if progress is not None:
            progress(rows.stop, len(out))
    return True


def _thin(whole: np.ndarray, stride: int, out: np.ndarray) -> None:
    """Every `stride`-th pixel of rows; channel by channel NumPy is fastest."""
    for channel in range(out.shape[2]):
        np.copyto(out[..., channel], whole[:, ::stride, channel])


def stays_in_registers(form: ByteFilter) -> bool:
    """Whether the kernel needs nothing but registers for what it knows of the rows above."""
    machine = choose_machine()
    return machine is not None and not in_memory(form, machine)


def is_dense(image: np.ndarray) -> bool:
    """Whether a row's pixels follow one another."""
    size, channels = image.itemsize, image.shape[2]
    return image.strides[1:] == (channels * size, size) or (image.strides[2] == size and image.shape[1] == 1)


@lru_cache(maxsize=64)
def _loaded(form: ByteFilter, machine: VectorMachine) -> cpu.Function:
    """The kernel, loaded; keep it while it runs."""

    def make() -> Listing:
        from regweave.kernels.photographs import photograph_kernel  # code that is on disk is loaded without

        return photograph_kernel(form, machine)

    return cpu.load_made(make, repr(form), machine)
