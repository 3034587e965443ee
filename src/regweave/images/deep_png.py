"""PNG files of 16 bits per colour channel, which Pillow reads and writes as 8.

    pixels = read_deep_png(data, pillow)      [height, width, 2 to 4] of u16, None for any other PNG
    data = write_deep_png(pixels)

Pillow's decoder takes the upper byte of every number. Told that the lower byte stands first it takes the
other one, so that two readings give all 16 bits. Grey with alpha has four bytes per pixel, as many as 8-bit
colour with alpha: such a file is read as if it said that it is one.

Facts: the PNG specification, third edition (chunks, 9.2 filter types, colour types 2, 4 and 6).
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Channels by colour type; a palette has 8 bits at most, and grey alone Pillow reads itself.
_CHANNELS = {2: 3, 4: 2, 6: 4}
_TYPES = {channels: number for number, channels in _CHANNELS.items()}
_GREY_ALPHA, _COLOUR_ALPHA = 4, 6
_HEADER = slice(8, 33)
_UP = 2
#: Beyond this compressing takes three times as long for a twelfth of the size.
_LEVEL = 4


def read_deep_png(data: bytes, pillow: Any) -> np.ndarray | None:
    """The pixels of a PNG of 16-bit colour, or of grey with alpha; None if it is something else.

    Errors are Pillow's: OSError, SyntaxError and ValueError for damaged files.
    """
    if not data.startswith(_SIGNATURE) or len(data) < _HEADER.stop:
        return None
    depth, colour = data[24:26]
    if depth != 16 or colour not in _CHANNELS:
        return None
    if colour == _GREY_ALPHA:
        header = data[16:24] + bytes((8, _COLOUR_ALPHA)) + data[26:29]
        pairs = _decoded(data[:8] + _chunk(b"IHDR", header) + data[33:], None, pillow)
    else:
        mode = "RGBA" if colour == _COLOUR_ALPHA else "RGB"
        # in the file the upper byte stands first
        upper, lower = (_decoded(data, f"{mode};16{order}", pillow) for order in "BL")
        pairs = np.stack([upper, lower], axis=-1)
    return pairs.view(">u2").reshape(*pairs.shape[:2], -1).astype(np.uint16)


def _decoded(data: bytes, raw: str | None, pillow: Any) -> np.ndarray:
    """A PNG's bytes as Pillow decodes them when told that they are of the kind `raw`."""
    with pillow.open(io.BytesIO(data)) as image:
        if raw is not None:
            image.tile = [(*tile[:3], raw) for tile in image.tile]
        return np.asarray(image)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def write_deep_png(pixels: np.ndarray, profile: bytes | None = None) -> bytes:
    """A PNG of u16 pixels [height, width, 2 to 4], with a colour profile if there is one."""
    height, width, channels = pixels.shape
    lines = np.ascontiguousarray(pixels, ">u2").view(np.uint8).reshape(height, -1)
    stored = np.empty((height, lines.shape[1] + 1), np.uint8)
    stored[:, 0] = _UP
    stored[0, 1:] = lines[0]
    np.subtract(lines[1:], lines[:-1], out=stored[1:, 1:])
    chunks = [_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, _TYPES[channels], 0, 0, 0))]
    if profile:
        chunks.append(_chunk(b"iCCP", b"icc\0\0" + zlib.compress(profile)))
    chunks += [_chunk(b"IDAT", zlib.compress(stored.data, _LEVEL)), _chunk(b"IEND", b"")]
    return _SIGNATURE + b"".join(chunks)
