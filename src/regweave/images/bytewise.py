"""8-bit and 16-bit images filtered by a kernel in whole numbers, where there is one.

filter_bytes(photo, form, "edge", threads, out, None)      True: out is filled; False: not for this kernel
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.cascades.device import choose_machine
from regweave.devices import cpu
from regweave.images.bands import is_dense, run_bands
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
    _, width, channels = image.shape
    if machine is None or not (is_dense(image) and is_dense(out)):
        return False
    pixel_bytes = channels * form.element
    length, band = width * pixel_bytes, band_rows(form, machine)
    if not band or length < least_length(form, machine):
        return False
    kernel = _loaded(form, machine)
    beside = np.concatenate([np.arange(-form.left, 0), np.arange(form.right) + length])
    pixel, byte = np.divmod(beside, pixel_bytes)
    borders = inside(pixel, width, border) * pixel_bytes + byte
    keep = 0 if border == "zero" else -1

    def arguments(rows: int, outs: int, last: int) -> PhotographArguments:
        return PhotographArguments(rows, outs, length, last, borders.ctypes.data, keep)

    run_bands(
        kernel.address,
        arguments,
        image,
        out,
        height=form.height,
        band=band,
        border=border,
        threads=threads,
        stride=stride,
        progress=progress,
    )
    return True


def stays_in_registers(form: ByteFilter) -> bool:
    """Whether the kernel needs nothing but registers for what it knows of the rows above."""
    machine = choose_machine()
    return machine is not None and not in_memory(form, machine)


@lru_cache(maxsize=64)
def _loaded(form: ByteFilter, machine: VectorMachine) -> cpu.Function:
    """The kernel, loaded; keep it while it runs."""

    def make() -> Listing:
        from regweave.kernels.photographs import photograph_kernel  # code that is on disk is loaded without

        return photograph_kernel(form, machine)

    return cpu.load_made(make, repr(form), machine)
