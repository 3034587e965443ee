"""Images of bytes, 16-bit numbers and f32 filtered with any weights, as they lie in memory.

    filter_weighted(photo, chosen, "edge", threads, out, None)      True: out is filled; False: no such kernel

A kernel that is a column of weights times a row of weights is done as two.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.cascades.device import choose_machine
from regweave.convolution.separable import factors
from regweave.devices import cpu
from regweave.images.bands import is_dense, run_bands
from regweave.images.beyond import inside
from regweave.images.finishing import Progress
from regweave.kernels.photographs import ROWS, SEGMENT, WeightedArguments, WeightedFilter
from regweave.machines.x86 import VectorMachine

if TYPE_CHECKING:
    from regweave.assembly import Listing
    from regweave.images.filters import ImageFilter
    from regweave.kernels.photographs.weighted import Kind

_KINDS: dict[type, Kind] = {np.uint8: "u8", np.uint16: "u16", np.float32: "f32"}


def filter_weighted(
    image: np.ndarray,
    chosen: ImageFilter,
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
    length, channels = image.shape[1] * image.shape[2], image.shape[2]
    if machine is None or length < SEGMENT or not (is_dense(image) and is_dense(out)):
        return False
    count, high, wide = chosen.kernels.shape
    found = factors(chosen.kernels[:, None])
    weights = np.ascontiguousarray(chosen.kernels if found is None else found)
    form = WeightedFilter(
        _KINDS[image.dtype.type],
        channels,
        high,
        wide,
        responses=count,
        separable=found is not None,
        magnitude=chosen.magnitude and count == 1,
    )
    if not form.fits():
        return False
    beside = np.concatenate([np.arange(-form.left, 0), np.arange(form.right) + length])
    pixel, channel = np.divmod(beside, channels)
    borders = inside(pixel, image.shape[1], border) * channels + channel
    keep = 0 if border == "zero" else -1

    def arguments(rows: int, outs: int, last: int) -> WeightedArguments:
        return WeightedArguments(rows, outs, length, last, borders.ctypes.data, keep, weights.ctypes.data)

    run_bands(
        _loaded(form, machine).address,
        arguments,
        image,
        out,
        height=high,
        band=ROWS,
        border=border,
        threads=threads,
        stride=stride,
        progress=progress,
    )
    return True


@lru_cache(maxsize=64)
def _loaded(form: WeightedFilter, machine: VectorMachine) -> cpu.Function:
    """The kernel, loaded; keep it while it runs."""

    def make() -> Listing:
        from regweave.kernels.photographs import weighted_kernel  # code that is on disk is loaded without

        return weighted_kernel(form, machine)

    return cpu.load_made(make, repr(form), machine)
