"""Pictures in files: PNG, JPEG, TIFF, WebP and what else Pillow reads; grey and colour, 8 and 16 bits, alpha.

    >>> picture = read_image("photo.jpg")
    >>> picture.pixels.shape, picture.pixels.dtype
    ((3000, 4000, 3), dtype('uint8'))
    >>> write_image("photo.png", picture)

Needs the extra `images` (Pillow, and tifffile for TIFFs of 16-bit colour or floats). Numbers are taken as
they are stored, which for most pictures means sRGB values; nothing is converted between colour spaces, and
an embedded profile is handed on to pictures of as many channels. A picture is turned upright as its EXIF data
says. Alpha is kept apart from the colours. Of several pages the first is read. Files appear whole or not at
all. Pillow's limit for the size of a picture does not hold here: the limit is this machine's memory.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from regweave.errors import InputError, UnsupportedError
from regweave.files import nearest_beside, path_of, write_bytes
from regweave.images.deep_png import read_deep_png, write_deep_png
from regweave.images.deep_tiff import count_pages, is_deep, is_tiff, read_deep_tiff, write_pages
from regweave.images.packages import optional_module
from regweave.images.targets import check_holds, check_target, fitting_profile, keeps_alpha
from regweave.memory import check_memory
from regweave.values import frozen

_TYPES = (np.uint8, np.uint16, np.float32)
_JPEG_QUALITY = 95
_ORIENTATION, _PHOTOMETRIC, _SAMPLE_FORMAT = 0x0112, 262, 339
_WHITE_IS_ZERO, _SIGNED = 0, 2
#: Modes of Pillow whose channels are taken as they are; of the others, what they are converted to.
_MODES = {"L", "LA", "RGB", "RGBA", "I;16", "F"}
_CONVERTED = {"1": "L", "CMYK": "RGB", "YCbCr": "RGB", "LAB": "RGB", "HSV": "RGB", "La": "LA", "RGBa": "RGBA"}
_MODE_BYTES = {"I": 4, "F": 4, "I;16": 2}
#: A picture stands in memory as Pillow's, as an array and as what is made of it.
_COPIES = 3
#: What is read of a pipe or a device, which does not say how much there is.
_MOST_STREAMED = 1 << 30
_MAPPED_HINT = "an .npy and an uncompressed TIFF are not read whole by `regweave filter`"


@frozen(eq=False)
class Picture:
    """A picture: `pixels` [height, width, 1 or 3] of u8, u16 or f32, `alpha` [height, width] of the same type
    or None, the colour `profile` (ICC) or None, the `pages` of the file that it is the first of."""

    pixels: np.ndarray
    alpha: np.ndarray | None = None
    profile: bytes | None = None
    pages: int = 1

    def __post_init__(self) -> None:
        shape, kind = np.shape(self.pixels), getattr(self.pixels, "dtype", None)
        if len(shape) != 3 or shape[2] not in (1, 3) or 0 in shape or kind not in _TYPES:
            raise InputError(
                f"pixels of shape {list(shape)} and type {kind}",
                expected="[height, width, 1 or 3 channels] of uint8, uint16 or float32",
            )
        if self.alpha is not None and (
            np.shape(self.alpha) != shape[:2] or getattr(self.alpha, "dtype", None) != kind
        ):
            raise InputError(
                f"alpha of shape {list(np.shape(self.alpha))} for {list(shape[:2])} pixels",
                where="alpha",
                expected=f"an array of {kind}, a number for each pixel",
            )
        if self.profile is not None and not isinstance(self.profile, bytes):
            raise InputError(
                f"a profile of type {type(self.profile).__name__}", where="profile", expected="bytes (ICC)"
            )

    @property
    def most(self) -> float:
        """The number that means full brightness."""
        return 1.0 if self.pixels.dtype.kind == "f" else float(np.iinfo(self.pixels.dtype).max)


def read_image(path: str | Path) -> Picture:
    """The (first) picture in a file.

    InputError for what is none, is damaged, or does not fit this machine's memory; OSError for what cannot
    be opened.
    """
    pillow = optional_module("PIL.Image", "pillow")
    path = path_of(path)
    try:
        data = _content(path)
    except FileNotFoundError:
        raise InputError("there is no such file", where=str(path), nearest=nearest_beside(path)) from None
    try:
        with _any_size(pillow):
            return _read(data, pillow)
    except pillow.UnidentifiedImageError:
        raise InputError(
            "no picture that can be read", where=str(path), expected="PNG, JPEG, TIFF, WebP, BMP or the like"
        ) from None
    except InputError as error:
        raise InputError(error.what, where=str(path), expected=error.expected, fix=error.fix) from None
    except UnsupportedError:
        raise
    except Exception as error:  # of damaged files decoders raise anything
        raise InputError(f"a picture that cannot be read: {error}", where=str(path)) from error


@contextmanager
def _any_size(pillow: Any) -> Iterator[None]:
    """Without Pillow's limit, and what it says about large pictures and odd EXIF data."""
    most, pillow.MAX_IMAGE_PIXELS = pillow.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        pillow.MAX_IMAGE_PIXELS = most


def _content(path: Path) -> bytes:
    """The bytes of a file that memory can hold; of a device or a pipe no more than a GiB."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            check_memory(f"the file {path.name}", status.st_size, fix=_MAPPED_HINT)
            return file.read()
        data = file.read(_MOST_STREAMED + 1)
    if len(data) > _MOST_STREAMED:
        raise InputError("an endless picture", where=str(path), expected=f"at most {_MOST_STREAMED} bytes")
    return data


def _frames(image: Any) -> int:
    """Frames of a moving picture; the previews in a camera's files do not count."""
    try:
        return getattr(image, "n_frames", 1) if image.format != "MPO" else 1
    except Exception:  # what follows the first is damaged
        return 1


def _read(data: bytes, pillow: Any) -> Picture:
    try:
        image = pillow.open(io.BytesIO(data))
    except pillow.UnidentifiedImageError:
        if not is_tiff(data):
            raise
        return _deep_picture(data)
    with image:
        if image.format == "TIFF" and is_deep(image):
            return _deep_picture(data)
        wide, high = image.size
        size = wide * high * len(image.getbands()) * _MODE_BYTES.get(image.mode[:4], 1)
        check_memory(f"a picture of {wide} x {high} pixels", _COPIES * size, fix=_MAPPED_HINT)
        profile = image.info.get("icc_profile")
        deep = read_deep_png(data, pillow)
        if deep is not None:
            return _picture(_upright(deep, image.getexif().get(_ORIENTATION, 1)), profile, _frames(image))
        image.load()
        turned = optional_module("PIL.ImageOps", "pillow").exif_transpose(image)
        channels = _channels(turned)
        if image.format == "TIFF":
            if _SIGNED in image.tag_v2.get(_SAMPLE_FORMAT, ()) and image.mode == "L":
                raise InputError("a TIFF of signed numbers", expected="unsigned ones of 8 or 16 bits, or f32")
            if image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_ZERO and channels.dtype == np.uint16:
                channels = ~channels  # Pillow turns 8 bits only
        return _picture(channels, profile, count_pages(data) if image.format == "TIFF" else _frames(image))


def _deep_picture(data: bytes) -> Picture:
    pixels, orientation, profile = read_deep_tiff(data)
    return _picture(_upright(pixels, orientation), profile, count_pages(data))


def _channels(image: Any) -> np.ndarray:
    """The channels of a picture of Pillow: [height, width] or [height, width, 2 to 4]."""
    if image.mode == "P" or "transparency" in image.info:
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    if image.mode == "I":
        values = np.asarray(image)
        if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
            raise InputError("numbers below 0 or beyond 65535", expected="8 or 16 bits")
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


def _picture(channels: np.ndarray, profile: bytes | None, pages: int) -> Picture:
    if channels.ndim == 2:
        return Picture(np.ascontiguousarray(channels)[..., None], None, profile, pages)
    own = channels.shape[2]
    colours = np.ascontiguousarray(channels[..., : own - 1] if own in (2, 4) else channels)
    alpha = np.ascontiguousarray(channels[..., -1]) if own in (2, 4) else None
    return Picture(colours, alpha, profile, pages)


def write_image(path: str | Path, picture: Picture) -> None:
    """Write a picture in the format of the file's ending; alpha is dropped where the format has none.

    An .npy holds [height, width(, 3)]. InputError and UnsupportedError as of `targets.check_target` and
    `targets.check_holds`.
    """
    path = path_of(path)
    if not isinstance(picture, Picture):
        raise InputError(
            f"{type(picture).__name__} is no picture",
            where="picture",
            expected="a Picture",
            fix="write_image(path, Picture(pixels))",
        )
    pixels = picture.pixels
    name = check_target(path)
    check_holds(path, pixels.dtype, pixels.shape[2])
    channels = pixels
    if picture.alpha is not None and keeps_alpha(path):
        channels = np.concatenate([pixels, picture.alpha[..., None]], axis=2)
    profile = fitting_profile(picture.profile, pixels.shape[2])
    write_bytes(path, _encoded(np.ascontiguousarray(channels), name, profile))


def _encoded(channels: np.ndarray, name: str, profile: bytes | None) -> bytes:
    count = channels.shape[2]
    if channels.dtype == np.uint16 and name == "PNG" and count > 1:
        return write_deep_png(channels, profile)
    if name == "TIFF" and channels.dtype != np.uint8 and count > 1:
        return write_pages([channels], profile)
    plain = channels[..., 0] if count == 1 else channels
    out = io.BytesIO()
    if name == "NPY":
        np.save(out, plain)
        return out.getvalue()
    pillow = optional_module("PIL.Image", "pillow")
    options: dict[str, Any] = {"quality": _JPEG_QUALITY} if name in ("JPEG", "WEBP") else {}
    if profile:
        options["icc_profile"] = profile
    pillow.fromarray(plain).save(out, name, **options)
    return out.getvalue()
