"""What a file to be written can hold, said before work begins.

>>> check_target("photo.jpg")
'JPEG'
>>> check_holds("photo.jpg", np.dtype(np.uint16), 3)
InputError: JPEG holds 8 bits per channel, the picture has 16 ... write a .png or .tif
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.files import missing_folder
from regweave.values import frozen


@frozen
class Format:
    """A format of pictures: its name (Pillow's), the bits of a channel, whether it has alpha."""

    name: str
    bits: int
    alpha: bool


_TIFF = Format("TIFF", 16, True)
_JPEG = Format("JPEG", 8, False)
#: By the file name's ending.
FORMATS = {
    ".png": Format("PNG", 16, True),
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    ".tif": _TIFF,
    ".tiff": _TIFF,
    ".webp": Format("WEBP", 8, True),
    ".bmp": Format("BMP", 8, False),
}
#: The ending of a file that holds the numbers of an array.
ARRAY = ".npy"
#: Where an ICC profile says which colours it is for, and channels by what it says.
_SPACE = slice(16, 20)
_CHANNELS = {b"RGB ": 3, b"GRAY": 1, b"CMYK": 4, b"Lab ": 0, b"XYZ ": 0}


def check_target(path: str | Path) -> str:
    """The format's name of a picture or array to be written, before anything is read.

    InputError for endings that no format has, and folders that are not there.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in FORMATS and ending != ARRAY:
        raise InputError(
            f"unknown format {path.suffix!r}" if path.suffix else "a file name without a format",
            where=str(path),
            expected=", ".join((*FORMATS, ARRAY)),
            nearest=nearest_names(ending, (*FORMATS, ARRAY)),
        )
    folder = path.parent
    if path.is_dir():
        raise InputError("a folder, not a file", where=str(path), fix="name a file in it")
    if folder.is_dir() and not os.access(folder, os.W_OK):
        raise InputError(f"the folder {str(folder)!r} cannot be written to", where=str(path))
    if not folder.is_dir():
        raise missing_folder(path)
    return "NPY" if ending == ARRAY else FORMATS[ending].name


def check_holds(path: str | Path, dtype: np.dtype, channels: int) -> None:
    """Whether a file can hold pixels of a type (u8, u16, f32) and so many channels.

    InputError for formats without so many bits or channels, UnsupportedError for floats in other formats
    than TIFF; both say which format has them.
    """
    path = Path(path)
    if path.suffix.lower() == ARRAY:
        return
    own = FORMATS[path.suffix.lower()]
    if own is _TIFF:
        return
    if dtype.kind == "f":
        raise UnsupportedError(
            f"{own.name} holds no floats", where=str(path), fix="write a .tif, or round to 8 or 16 bits"
        )
    if 8 * dtype.itemsize > own.bits:
        raise InputError(
            f"{own.name} holds {own.bits} bits per channel, the picture has {8 * dtype.itemsize}",
            where=str(path),
            fix="write a .png or .tif",
        )
    if channels not in (1, 3):
        raise InputError(
            f"{own.name} holds 1 or 3 channels, the image has {channels}",
            where=str(path),
            fix=f"write a {ARRAY} or .tif",
        )


def keeps_alpha(path: str | Path) -> bool:
    """Whether the format of a file to be written holds alpha."""
    ending = Path(path).suffix.lower()
    return ending in FORMATS and FORMATS[ending].alpha


def fitting_profile(profile: bytes | None, channels: int) -> bytes | None:
    """A colour profile, unless it says that it is for pixels of other channels (of print, of grey)."""
    if profile is None or _CHANNELS.get(bytes(profile[_SPACE]), channels) != channels:
        return None
    return profile
