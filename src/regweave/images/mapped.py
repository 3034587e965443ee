"""Images that do not fit into memory: mapped from .npy files and uncompressed TIFFs, and written that way.

    with mapped_output(Path("soft.tif"), (65536, 65536, 3), np.uint8) as out:
        filter_image(map_image(Path("sky.tif")), image_filter("gaussian5"), out=out)

The file of a result appears whole when the block ends without an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from regweave.errors import InputError
from regweave.images.packages import optional_module

_TIFF = (".tif", ".tiff")
MAPPED = (".npy", *_TIFF)


def map_image(path: Path) -> np.ndarray | None:
    """The image [height, width, channels] in a file, mapped; None where the file's form needs reading.

    InputError for an .npy that holds no image.
    """
    ending = path.suffix.lower()
    if ending == ".npy":
        try:
            pixels = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"no image: {error}", where=str(path)) from None
        if (
            pixels.dtype not in (np.uint8, np.uint16, np.float32)
            or pixels.ndim not in (2, 3)
            or 0 in pixels.shape
        ):
            raise InputError(
                f"no image: {pixels.dtype}, shape {list(pixels.shape)}",
                where=str(path),
                expected="[height, width(, channels)] of uint8, uint16 or float32",
            )
        return pixels if pixels.ndim == 3 else pixels[..., None]
    if ending not in _TIFF:
        return None
    tifffile = optional_module("tifffile", "tifffile")
    try:
        with tifffile.TiffFile(path) as file:
            page = file.pages[0]
            plain = page.photometric in (1, 2) and page.planarconfig == 1 and not page.extrasamples
            upright = 274 not in page.tags or page.tags[274].value == 1
            if not (plain and upright and page.is_memmappable):
                return None
        pixels = tifffile.memmap(path, page=0, mode="r")
    except (tifffile.TiffFileError, ValueError, IndexError, KeyError):
        return None  # reading it says better what is wrong
    if pixels.dtype not in (np.uint8, np.uint16, np.float32):
        return None
    return pixels if pixels.ndim == 3 else pixels[..., None]


@contextmanager
def mapped_output(path: Path, shape: Sequence[int], dtype: np.dtype) -> Iterator[np.ndarray]:
    """An array of that shape [height, width, channels] that becomes the .npy or TIFF at `path`."""
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}{path.suffix}")
    plane = tuple(shape[:2]) if shape[2] == 1 else tuple(shape)
    try:
        if path.suffix.lower() == ".npy":
            out = np.lib.format.open_memmap(beside, "w+", dtype, plane)
        else:
            tifffile = optional_module("tifffile", "tifffile")
            kind = "rgb" if len(plane) == 3 else "minisblack"
            out = tifffile.memmap(beside, shape=plane, dtype=dtype, photometric=kind, bigtiff=True)
        yield out.reshape(shape)
        out.flush()
        del out
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
