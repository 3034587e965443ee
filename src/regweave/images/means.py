"""8-bit and 16-bit images: the mean of many pixels, by sums that go down and along the image.

    filter_means(photo, kernel, "edge", threads, out, None)      True: out is filled; False: no such kernel

A mean takes as long for 63 x 63 pixels as for 19 x 19.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.cascades.arrays import aligned_bytes
from regweave.cascades.device import choose_machine
from regweave.cascades.threads import run
from regweave.devices import cpu
from regweave.images.bands import is_dense
from regweave.images.beyond import inside
from regweave.images.finishing import Progress
from regweave.kernels.photographs import MeanArguments, MeanFilter
from regweave.machines.x86 import AVX2, VectorMachine

if TYPE_CHECKING:
    from regweave.assembly import Listing

#: Channels and weights that the kernel takes.
_MOST_CHANNELS, _MOST_WEIGHTS = 8, 1 << 14
#: Columns of a mean from which on AVX2's kernel is faster than sums of all pixels of a row: of bytes, and of
#: numbers of 16 bits.
_LEAST_WIDTHS = {False: 19, True: 11}
#: Parts for each thread; bytes between two reports of progress.
_PARTS, _BYTES = 4, 1 << 26


def filter_means(
    image: np.ndarray,
    kernels: np.ndarray,
    border: str,
    threads: int,
    out: np.ndarray,
    progress: Progress | None,
) -> bool:
    """Filter an image of bytes or 16-bit numbers into `out`, both [height, width, channels].

    False where the kernels [n, height, width] are no mean of an odd number of pixels, where there is no
    native kernel, and where another one is faster.
    """
    machine = choose_machine()
    height, width, channels = image.shape
    count, high, wide = kernels.shape
    weights, length = high * wide, width * channels
    if count > 1 or weights % 2 == 0 or weights >= _MOST_WEIGHTS:
        return False
    if not (kernels == np.float32(1 / weights)).all():
        return False
    if machine is None or not (is_dense(image) and is_dense(out)):
        return False
    form = MeanFilter(channels, high, wide, deep=image.dtype == np.uint16)
    if length < form.least or channels > _MOST_CHANNELS:
        return False
    if form.deep:
        machine = AVX2  # which every such processor has
    if machine is AVX2 and wide < _LEAST_WIDTHS[form.deep]:
        return False
    kernel = _loaded(form, machine)
    places = np.arange(-(high // 2), height + high - 1 - high // 2)
    starts = image.ctypes.data + inside(places, height, border) * image.strides[0]
    outs = out.ctypes.data + np.arange(height) * out.strides[0]
    nought = np.zeros(length, image.dtype)
    if border == "zero":
        starts[(places < 0) | (places >= height)] = nought.ctypes.data
    beside = np.concatenate([np.arange(-form.left, 0), np.arange(form.right) + length])
    pixel, channel = np.divmod(beside, channels)
    borders = inside(pixel, width, border) * channels + channel
    most = height if progress is None else max(_PARTS * threads * high, _BYTES // (length * form.element))
    step = form.scratch_bytes(length)
    parts = max(1, min(_PARTS * threads if threads > 1 else 1, height // high))
    scratch = aligned_bytes(parts * step)
    for first in range(0, height, most):
        rows = min(most, height - first)
        arguments = MeanArguments(
            starts[first:].ctypes.data,
            outs[first:].ctypes.data,
            nought.ctypes.data,
            length,
            rows,
            parts,
            borders.ctypes.data,
            0 if border == "zero" else -1,
            scratch.ctypes.data,
            step,
            form.sums(length),
        )
        run(kernel.address, ctypes.addressof(arguments), parts, threads)
        if progress is not None:
            progress(first + rows, height)
    return True


@lru_cache(maxsize=32)
def _loaded(form: MeanFilter, machine: VectorMachine) -> cpu.Function:
    """The kernel, loaded; keep it while it runs."""

    def make() -> Listing:
        from regweave.kernels.photographs import mean_filter_kernel  # code that is on disk is loaded without

        return mean_filter_kernel(form, machine)

    return cpu.load_made(make, repr(form), machine)
