"""Images that do not fit into memory: mapped from .npy files and uncompressed TIFFs, and written that way.

    with mapped_output(Path("soft.tif"), (65536, 65536, 3), np.uint8) as out:
        filter_image(map_image(Path("sky.tif")).pixels, image_filter("gaussian5"), out=out)

The file of a result appears whole when the block ends without an error. Its place on the disk is taken at
once: a full disk would otherwise end the process when a page is written back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from regweave.errors import InputError
from regweave.files import hidden_beside, take_away
from regweave.images.deep_tiff import own_pages
from regweave.images.packages import optional_module
from regweave.values import frozen

_TIFF = (".tif", ".tiff")
MAPPED = (".npy", *_TIFF)
_TYPES = (np.uint8, np.uint16, np.float32)


@frozen(eq=False)
class MappedImage:
    """Pixels [height, width, channels] that lie in a file, its colour profile if it has one, its pages."""

    pixels: np.ndarray
    profile: bytes | None = None
    pages: int = 1


def map_image(path: Path) -> MappedImage | None:
    """The image in a file, mapped; None where the file's form needs reading, or is no file.

    An .npy in the other byte order is read. InputError for an .npy that holds no image.
    """
    ending = path.suffix.lower()
    if not path.is_file():
        return None
    if ending == ".npy":
        try:
            pixels = np.load(path, mmap_mode="r", allow_pickle=False)
        except OSError:
            raise
        except Exception as error:  # of damaged files NumPy raises anything
            raise InputError(f"no image: {error}", where=str(path)) from None
        if not pixels.dtype.isnative and pixels.dtype.newbyteorder("=") in _TYPES:
            pixels = pixels.astype(pixels.dtype.newbyteorder("="))
        if pixels.dtype not in _TYPES or pixels.ndim not in (2, 3) or 0 in pixels.shape:
            raise InputError(
                f"no image: {pixels.dtype}, shape {list(pixels.shape)}",
                where=str(path),
                expected="[height, width(, channels)] of uint8, uint16 or float32",
                fix="save it as one of these: np.save(path, image.astype(np.float32))",
            )
        return MappedImage(pixels if pixels.ndim == 3 else pixels[..., None])
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
            profile, pages = page.iccprofile, own_pages(file)
        pixels = tifffile.memmap(path, page=0, mode="r")
    except Exception:  # of damaged files tifffile raises anything
        return None  # reading it says better what is wrong
    if pixels.dtype not in _TYPES or pixels.ndim not in (2, 3) or 0 in pixels.shape:
        return None
    return MappedImage(pixels if pixels.ndim == 3 else pixels[..., None], profile, pages)


@contextmanager
def mapped_output(
    path: Path, shape: Sequence[int], dtype: np.dtype, profile: bytes | None = None
) -> Iterator[np.ndarray]:
    """An array of that shape [height, width, channels] that becomes the .npy or TIFF at `path`.

    OSError naming `path` if it cannot be written.
    """
    given, path = path, Path(os.path.realpath(path))
    beside = hidden_beside(path)
    plane = tuple(shape[:2]) if shape[2] == 1 else tuple(shape)
    try:
        try:
            out = _made(beside, plane, dtype, profile)
            if hasattr(os, "posix_fallocate"):
                with open(beside, "rb+") as file:
                    os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(given)) from None
        yield out.reshape(shape)
        out.flush()
        del out
        os.replace(beside, path)
    except BaseException:
        take_away(beside)
        raise


def _made(path: Path, shape: tuple[int, ...], dtype: np.dtype, profile: bytes | None) -> np.memmap:
    """A new .npy or TIFF of that shape, mapped."""
    if path.suffix.lower() == ".npy":
        return np.lib.format.open_memmap(path, "w+", dtype, shape)
    tifffile = optional_module("tifffile", "tifffile")
    coloured = len(shape) == 3 and shape[2] in (3, 4)
    return tifffile.memmap(
        path,
        shape=shape,
        dtype=dtype,
        photometric="rgb" if coloured else "minisblack",
        planarconfig="contig" if len(shape) == 3 else None,
        bigtiff=True,
        iccprofile=profile,
    )
