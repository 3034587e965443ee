"""8-bit images filtered by a kernel in whole numbers, where there is one.

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
    BAND,
    ByteFilter,
    PhotographArguments,
    least_length,
    spare_registers,
)
from regweave.machines.x86 import VectorMachine

if TYPE_CHECKING:
    from regweave.assembly import Listing

#: Rows that are done between two reports of progress.
_BYTES = 1 << 25


def filter_bytes(
    image: np.ndarray,
    form: ByteFilter,
    border: str,
    threads: int,
    out: np.ndarray,
    progress: Progress | None,
) -> bool:
    """Filter an image of bytes into `out`, both [height, width, channels]; False where no kernel can."""
    machine = choose_machine()
    height, width, channels = image.shape
    if machine is None or not (is_dense(image) and is_dense(out)):
        return False
    if spare_registers(form, machine) < 0 or width * channels < least_length(form, machine):
        return False
    kernel = _loaded(form, machine)
    above, spare = form.height // 2, max(0, BAND - height)
    places = np.arange(-above, height + spare + form.height - 1 - above)
    starts = image.ctypes.data + inside(places, height, border) * image.strides[0]
    outs = out.ctypes.data + np.arange(height + spare) * out.strides[0]
    kept = [np.zeros(width * channels, np.uint8)]
    if border == "zero":
        starts[(places < 0) | (places >= height)] = kept[0].ctypes.data
    if spare:
        kept.append(np.empty(width * channels, np.uint8))
        outs[height:] = kept[1].ctypes.data
    beside = np.concatenate([np.arange(-form.left, 0), np.arange(form.right) + width * channels])
    pixel, channel = np.divmod(beside, channels)
    borders = inside(pixel, width, border) * channels + channel
    last = max(0, height - BAND)
    bands = -(-height // BAND)
    step = bands if progress is None else max(1, _BYTES // (BAND * width * channels))
    for first in range(0, bands, step):
        parts = min(step, bands - first)
        skipped = first * BAND
        arguments = PhotographArguments(
            starts[skipped:].ctypes.data,
            outs[skipped:].ctypes.data,
            width * channels,
            last - skipped,
            borders.ctypes.data,
            0 if border == "zero" else -1,
        )
        run(kernel.address, ctypes.addressof(arguments), parts, threads)
        if progress is not None:
            progress(min((first + parts) * BAND, height), height)
    return True


def is_dense(image: np.ndarray) -> bool:
    """Whether a row's pixels follow one another."""
    return image.strides[1:] == (image.shape[2], 1) or (image.strides[2] == 1 and image.shape[1] == 1)


@lru_cache(maxsize=64)
def _loaded(form: ByteFilter, machine: VectorMachine) -> cpu.Function:
    """The kernel, loaded; keep it while it runs."""

    def make() -> Listing:
        from regweave.kernels.photographs import photograph_kernel  # code that is on disk is loaded without

        return photograph_kernel(form, machine)

    return cpu.load_made(make, repr(form), machine)
