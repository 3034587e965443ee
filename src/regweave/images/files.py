"""Pictures in files: PNG, JPEG, TIFF, WebP and what else Pillow reads; grey and colour, 8 and 16 bits, alpha.

    >>> picture = read_image("photo.jpg")
    >>> picture.pixels.shape, picture.pixels.dtype
    ((3000, 4000, 3), dtype('uint8'))
    >>> write_image("photo.png", picture)

Needs the extra `images` (Pillow, and tifffile for TIFFs of 16-bit colour or floats). Numbers are taken as
they are stored, which for most pictures means sRGB values; nothing is converted between colour spaces, and
an embedded profile is handed on. A picture is turned upright as its EXIF data says. Alpha is kept apart from
the colours. Files appear whole or not at all.
"""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.files import write_bytes
from regweave.images.deep_png import read_deep_png, write_deep_png
from regweave.images.deep_tiff import is_deep, is_tiff, read_deep_tiff, write_pages
from regweave.images.packages import optional_module
from regweave.values import frozen

#: What is written, by the file name's ending: Pillow's format, and what may be in it.
_FORMATS = {
    ".png": ("PNG", 16, True),
    ".jpg": ("JPEG", 8, False),
    ".jpeg": ("JPEG", 8, False),
    ".tif": ("TIFF", 16, True),
    ".tiff": ("TIFF", 16, True),
    ".webp": ("WEBP", 8, True),
    ".bmp": ("BMP", 8, False),
}
_JPEG_QUALITY = 95
_ORIENTATION = 0x0112
#: Modes of Pillow whose channels are taken as they are; of the others, what they are converted to.
_MODES = {"L", "LA", "RGB", "RGBA", "I;16", "F"}
_CONVERTED = {"1": "L", "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "HSV": "RGB", "La": "LA", "RGBa": "RGBA"}


@frozen(eq=False)
class Picture:
    """A picture: `pixels` [height, width, 1 or 3] of u8, u16 or f32, `alpha` [height, width] of the same type
    or None, the colour `profile` (ICC) or None."""

    pixels: np.ndarray
    alpha: np.ndarray | None = None
    profile: bytes | None = None

    def __post_init__(self) -> None:
        if self.pixels.ndim != 3 or self.pixels.shape[2] not in (1, 3):
            raise InputError(
                f"pixels of shape {list(self.pixels.shape)}", expected="[height, width, 1 or 3 channels]"
            )
        if self.alpha is not None and self.alpha.shape != self.pixels.shape[:2]:
            raise InputError(f"alpha of shape {list(self.alpha.shape)} for {self.pixels.shape[:2]} pixels")

    @property
    def most(self) -> float:
        """The number that means full brightness."""
        return 1.0 if self.pixels.dtype.kind == "f" else float(np.iinfo(self.pixels.dtype).max)


def read_image(path: str | Path) -> Picture:
    """The (first) picture in a file. InputError for what is none; OSError for what cannot be opened."""
    pillow = optional_module("PIL.Image", "pillow")
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        beside = os.listdir(path.parent) if path.parent.is_dir() else ()
        raise InputError(
            "there is no such file", where=str(path), nearest=nearest_names(path.name, beside)
        ) from None
    try:
        return _read(data, pillow)
    except pillow.UnidentifiedImageError:
        raise InputError(
            "no picture that can be read", where=str(path), expected="PNG, JPEG, TIFF, WebP, BMP or the like"
        ) from None
    except InputError as error:
        raise InputError(error.what, where=str(path), expected=error.expected, fix=error.fix) from None
    except (OSError, SyntaxError, ValueError, EOFError, pillow.DecompressionBombError) as error:
        raise InputError(f"a picture that cannot be read: {error}", where=str(path)) from error


def _read(data: bytes, pillow: Any) -> Picture:
    deep = read_deep_png(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # large pictures, odd EXIF data
        try:
            image = pillow.open(io.BytesIO(data))
        except pillow.UnidentifiedImageError:
            if not is_tiff(data):
                raise
            return _deep_picture(data)
    with image:
        if image.format == "TIFF" and is_deep(image):
            return _deep_picture(data)
        profile = image.info.get("icc_profile")
        if deep is not None:
            return _picture(_upright(deep, image.getexif().get(_ORIENTATION, 1)), profile)
        image.load()
        turned = optional_module("PIL.ImageOps", "pillow").exif_transpose(image)
        return _picture(_channels(turned), profile)


def _deep_picture(data: bytes) -> Picture:
    pixels, orientation, profile = read_deep_tiff(data)
    return _picture(_upright(pixels, orientation), profile)


def _channels(image: Any) -> np.ndarray:
    """The channels of a picture of Pillow: [height, width] or [height, width, 2 to 4]."""
    if image.mode == "P" or "transparency" in image.info:
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    if image.mode == "I":
        values = np.asarray(image)
        if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
            raise InputError("a picture of 32-bit numbers", expected="8 or 16 bits")
        return values.astype(np.uint16)
    if image.mode not in _MODES:
        if image.mode not in _CONVERTED:
            raise InputError(f"a picture of the kind {image.mode}", expected="grey or colour")
        image = image.convert(_CONVERTED[image.mode])
    return np.asarray(image)


def _upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Pixels that were not read by Pillow, turned as EXIF's orientation says."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    rows = orientation in (3, 4, 7, 8)
    columns = orientation in (2, 3, 6, 7)
    return pixels[:: -1 if rows else 1, :: -1 if columns else 1]


def _picture(channels: np.ndarray, profile: bytes | None) -> Picture:
    if channels.ndim == 2:
        return Picture(np.ascontiguousarray(channels)[..., None], None, profile)
    own = channels.shape[2]
    colours = np.ascontiguousarray(channels[..., : own - 1] if own in (2, 4) else channels)
    alpha = np.ascontiguousarray(channels[..., -1]) if own in (2, 4) else None
    return Picture(colours, alpha, profile)


def check_target(path: str | Path, *, most_bits: int = 8) -> str:
    """Pillow's format for a file to be written, before work begins.

    InputError for endings that no format has, formats without so many bits, folders that are not there.
    """
    path = Path(path)
    if path.suffix.lower() not in _FORMATS:
        raise InputError(
            f"unknown format {path.suffix!r}" if path.suffix else "a file name without a format",
            where=str(path),
            expected=", ".join(_FORMATS),
            nearest=nearest_names(path.suffix.lower(), _FORMATS),
        )
    name, bits, _ = _FORMATS[path.suffix.lower()]
    if most_bits > bits:
        raise InputError(
            f"{name} holds {bits} bits per channel, the picture has {most_bits}",
            where=str(path),
            fix="write a .png or .tif",
        )
    check_folder(path)
    return name


def check_folder(path: Path) -> None:
    """InputError if the folder that a file is to be written to is missing."""
    folder = path.parent
    if not folder.is_dir():
        there = folder
        while not there.exists() and there != there.parent:
            there = there.parent
        raise InputError(
            f"the folder {str(folder)!r} does not exist",
            where=str(path),
            nearest=nearest_names(folder.name, os.listdir(there)) if there.is_dir() else (),
            fix="make it first, or name another",
        )


def keeps_alpha(path: str | Path) -> bool:
    """Whether the format of a file to be written holds alpha."""
    return _FORMATS[Path(path).suffix.lower()][2]


def write_image(path: str | Path, picture: Picture) -> None:
    """Write a picture in the format of the file's ending; alpha is dropped where the format has none.

    InputError as of `check_target`; UnsupportedError for f32 pixels in formats other than TIFF.
    """
    path = Path(path)
    pixels = picture.pixels
    name = check_target(path, most_bits=16 if pixels.dtype == np.uint16 else 8)
    if pixels.dtype == np.float32 and name != "TIFF":
        raise UnsupportedError(
            f"{name} holds no floats", where=str(path), fix="write a .tif, or round to 8 or 16 bits"
        )
    channels = pixels
    if picture.alpha is not None and keeps_alpha(path):
        channels = np.concatenate([pixels, picture.alpha[..., None]], axis=2)
    write_bytes(path, _encoded(np.ascontiguousarray(channels), name, picture.profile))


def _encoded(channels: np.ndarray, name: str, profile: bytes | None) -> bytes:
    count = channels.shape[2]
    if channels.dtype == np.uint16 and name == "PNG" and count > 1:
        return write_deep_png(channels, profile)
    if name == "TIFF" and channels.dtype != np.uint8 and count > 1:
        return write_pages([channels], profile)
    pillow = optional_module("PIL.Image", "pillow")
    out = io.BytesIO()
    options: dict[str, Any] = {"quality": _JPEG_QUALITY} if name in ("JPEG", "WEBP") else {}
    if profile:
        options["icc_profile"] = profile
    pillow.fromarray(channels[..., 0] if count == 1 else channels).save(out, name, **options)
    return out.getvalue()
