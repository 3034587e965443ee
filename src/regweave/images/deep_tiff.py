"""TIFF files of more than 8 bits per channel in colour, or with alpha, and of several pages: by tifffile.

Pillow takes 16-bit colour for 8 bits and knows no 16-bit grey with alpha.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from regweave.errors import InputError
from regweave.images.packages import optional_module
from regweave.memory import check_memory

_HEADS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_BITS_TAG, _ORIENTATION_TAG = 258, 274
_MOST_CHANNELS = 4
#: An extra sample that colours were multiplied by.
_MULTIPLIED = 1


def is_tiff(data: bytes) -> bool:
    """Whether a file's content begins as a TIFF."""
    return data[:4] in _HEADS


def is_deep(image: Any) -> bool:
    """Whether a TIFF that Pillow has opened is one that it would make 8 bits of."""
    bits = image.tag_v2.get(_BITS_TAG, (1,))
    return len(bits) > 1 and max(bits) > 8


def own_pages(file: Any) -> int:
    """Pages of an opened TIFF (tifffile's); smaller versions of a page do not count."""
    return len(file.pages) if len(file.pages) < 2 else sum(not page.is_reduced for page in file.pages)


def count_pages(data: bytes) -> int:
    """The pages of a TIFF; 1 where what follows the first cannot be read."""
    try:
        with optional_module("tifffile", "tifffile").TiffFile(io.BytesIO(data)) as file:
            return own_pages(file)
    except Exception:  # of damaged files tifffile raises anything
        return 1


def read_deep_tiff(data: bytes) -> tuple[np.ndarray, int, bytes | None]:
    """The first page: pixels [height, width(, channels)], the EXIF orientation, the colour profile.

    InputError for types and numbers of channels that no picture has here, and unknown compressions.
    """
    tifffile = optional_module("tifffile", "tifffile")
    try:
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            page = file.pages[0]
            check_memory(f"a TIFF of {' x '.join(map(str, page.shape))}", 2 * page.nbytes)
            pixels = page.asarray()
            tag, profile = page.tags.get(_ORIENTATION_TAG), page.iccprofile
            orientation = 1 if tag is None else int(tag.value)
            multiplied = page.extrasamples[-1:] == (_MULTIPLIED,)
    except ImportError:  # a compression that needs a further package
        raise InputError(
            "a TIFF whose compression cannot be read", fix="write it uncompressed, or pip install imagecodecs"
        ) from None
    except InputError:
        raise
    except Exception as error:  # of damaged files tifffile raises anything
        raise InputError(f"a damaged TIFF: {error}") from error
    if pixels.ndim == 3 and pixels.shape[2] > _MOST_CHANNELS >= pixels.shape[0]:
        pixels = pixels.transpose(1, 2, 0)  # planes apart
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    known = pixels.dtype in (np.uint8, np.uint16, np.float32)
    if not known or pixels.ndim not in (2, 3) or channels > _MOST_CHANNELS or 0 in pixels.shape:
        raise InputError(
            f"a TIFF of {pixels.dtype} pixels of shape {list(pixels.shape)}",
            expected="grey or colour of 8 or 16 bits, or of f32",
        )
    return _divided(pixels) if multiplied and channels in (2, 4) else pixels, orientation, profile


def _divided(pixels: np.ndarray) -> np.ndarray:
    """Pixels whose colours were multiplied by their alpha, without that; black where nothing is seen."""
    whole = pixels.dtype.kind == "u"
    most = float(np.iinfo(pixels.dtype).max) if whole else 1.0
    alpha = pixels[..., -1:].astype(np.float64)
    colours = pixels[..., :-1] * np.divide(most, alpha, out=np.zeros_like(alpha), where=alpha > 0)
    if whole:
        colours = np.minimum(np.rint(colours), most)
    return np.concatenate([colours.astype(pixels.dtype), pixels[..., -1:]], axis=-1)


def write_pages(pages: Sequence[np.ndarray], profile: bytes | None = None) -> bytes:
    """A TIFF with a page for each array [height, width] or [height, width, channels], deflated."""
    tifffile = optional_module("tifffile", "tifffile")
    out = io.BytesIO()
    with tifffile.TiffWriter(out) as writer:
        for page in pages:
            channels = page.shape[2] if page.ndim == 3 else 1
            writer.write(
                page,
                photometric="rgb" if channels >= 3 else "minisblack",
                planarconfig="contig" if page.ndim == 3 else None,
                extrasamples=["unassalpha"] if channels in (2, 4) else None,
                compression="zlib",
                iccprofile=profile,
                metadata=None,
                contiguous=False,
            )
    return out.getvalue()
