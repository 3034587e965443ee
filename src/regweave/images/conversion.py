"""Between interleaved channels of an image's own type and planes of f32, row by row, in native code.

    to_planes(image, rows, planes)         planes[:, i, :width] = image[rows[i]], as f32
    to_image(planes, out)                  out = planes, rounded to even and clamped

NumPy takes ten times as long, most of it for turning the axes. What fills no vector, other layouts and other
processors are left to NumPy.
"""

from __future__ import annotations

import numpy as np

from regweave.cascades.device import choose_machine
from regweave.cascades.threads import run_each
from regweave.images.finishing import finish
from regweave.images.native import TYPE_NAMES, loaded_colours
from regweave.kernels.colours.structure import MOST_CHANNELS, ColourArguments, Colours

_FIELDS = np.dtype([(name, np.int64) for name, _, *_ in ColourArguments._fields_])


def to_planes(image: np.ndarray, rows: np.ndarray, planes: np.ndarray, threads: int) -> None:
    """Rows of an image [height, width, channels] as planes [channels, rows, width or more] of f32."""
    width, channels = image.shape[1:]
    whole = 0
    if planes.strides[2] == planes.itemsize and _dense(image):
        colours = Colours(
            channels, channels, TYPE_NAMES[image.dtype], "f32", target_planes=True, matrix=False
        )
        starts = image.ctypes.data + rows * image.strides[0]
        targets = planes.ctypes.data + np.arange(len(rows)) * planes.strides[1]
        whole = _run(colours, starts, targets, (0, planes.strides[0]), width, threads)
    if whole < width:
        planes[:, :, whole:width] = image[rows, whole:].transpose(2, 0, 1)


def to_image(planes: np.ndarray, out: np.ndarray, threads: int) -> None:
    """Planes [channels, rows, width] of f32 as an image [rows, width, channels] of its type."""
    width, channels = out.shape[1:]
    whole = 0
    if planes.strides[2] == planes.itemsize and _dense(out):
        colours = Colours(channels, channels, "f32", TYPE_NAMES[out.dtype], source_planes=True, matrix=False)
        starts = planes.ctypes.data + np.arange(len(out)) * planes.strides[1]
        targets = out.ctypes.data + np.arange(len(out)) * out.strides[0]
        whole = _run(colours, starts, targets, (planes.strides[0], 0), width, threads)
    if whole < width:
        out[:, whole:] = finish(planes[:, :, whole:], out.dtype).transpose(1, 2, 0)


def _dense(image: np.ndarray) -> bool:
    """Whether the kernel can run along the image's rows."""
    channels, size = image.shape[2], image.itemsize
    return channels <= MOST_CHANNELS and image.strides[1:] == (channels * size, size)


def _run(
    colours: Colours,
    starts: np.ndarray,
    targets: np.ndarray,
    steps: tuple[int, int],
    width: int,
    threads: int,
) -> int:
    """Run the kernel on rows from `starts` to `targets`; how many of `width` pixels it did."""
    machine = choose_machine()
    if machine is None or width < machine.lanes or not len(starts):
        return 0
    kernel = loaded_colours(colours, machine)
    jobs = np.zeros(len(starts), _FIELDS)
    jobs["source"], jobs["target"], jobs["tiles"] = starts, targets, width // machine.lanes
    jobs["source_step"], jobs["target_step"] = steps
    run_each(kernel.address, (ColourArguments * len(jobs)).from_buffer(jobs.data), threads)
    return width // machine.lanes * machine.lanes
