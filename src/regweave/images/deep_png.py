"""PNG files of 16 bits per colour channel, which Pillow reads and writes as 8.

    pixels = read_deep_png(data)              [height, width, 2 to 4] of u16, None for any other PNG
    data = write_deep_png(pixels)

A row of bytes is stored as differences to a prediction: from the left, from above, their mean, or Paeth's
choice among left, above and above left. Taking that back goes from left to right and from top to bottom, one
byte after another; here all rows go at once, each a pixel behind the row above it:

    step 5:  row 0 at pixel 5, row 1 at pixel 4, row 2 at pixel 3, ...

Facts: the PNG specification, third edition (chunks, 9.2 filter types, colour types 2, 4 and 6).
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from regweave.errors import InputError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Channels by colour type; a palette has 8 bits at most, and grey alone Pillow reads itself.
_CHANNELS = {2: 3, 4: 2, 6: 4}
_TYPES = {channels: number for number, channels in _CHANNELS.items()}
_UP = 2


def read_deep_png(data: bytes) -> np.ndarray | None:
    """The pixels of a PNG of 16-bit colour, or of grey with alpha; None if it is something else.

    InputError for damaged files, and for interlaced ones.
    """
    if not data.startswith(_SIGNATURE) or len(data) < 33:
        return None
    width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", data[16:29])
    if depth != 16 or colour not in _CHANNELS:
        return None
    if interlace:
        raise InputError("an interlaced PNG of 16 bits", fix="write it anew without interlacing")
    channels = _CHANNELS[colour]
    packed = zlib.decompressobj()
    size = height * (2 * channels * width + 1)
    try:
        rows = packed.decompress(b"".join(_chunks(data, b"IDAT")), size)
    except zlib.error as error:
        raise InputError(f"a damaged PNG: {error}") from None
    if len(rows) != size:
        raise InputError(f"a damaged PNG: {len(rows)} bytes of pixels", expected=str(size))
    lines = np.frombuffer(rows, np.uint8).reshape(height, -1)
    if lines[:, 0].max(initial=0) > 4:
        raise InputError("a damaged PNG: an unknown filter type")
    restored = _restore(lines[:, 0], lines[:, 1:].reshape(height, width, 2 * channels))
    return restored.view(">u2").astype(np.uint16)


def _chunks(data: bytes, name: bytes) -> list[bytes]:
    found, at = [], len(_SIGNATURE)
    while at + 8 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == name:
            found.append(data[at + 8 : at + 8 + length])
        at += length + 12
    return found


def _restore(filters: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Bytes [height, width, bytes of a pixel] from what is stored, by the rows' filter types."""
    height, width, size = stored.shape
    # entry [c + r, r] is pixel c of row r; what is done begins two steps and a row later, behind zeros
    skewed = np.zeros((width + height, height, size), np.uint8)
    done = np.zeros((width + height + 2, height + 1, size), np.int16)
    for r in range(height):
        skewed[r : r + width, r] = stored[r]
    kinds = filters[:, None]
    for step in range(width + height - 1):
        rows = slice(max(0, step - width + 1), min(height, step + 1))
        below = slice(rows.start + 1, rows.stop + 1)
        left, above, corner = done[step + 1, below], done[step + 1, rows], done[step, rows]
        kind = kinds[rows]
        guess = np.where(kind == 4, _paeth(left, above, corner), 0)
        np.copyto(guess, left, where=kind == 1)
        np.copyto(guess, above, where=kind == _UP)
        np.copyto(guess, (left + above) >> 1, where=kind == 3)
        guess += skewed[step, rows]
        guess &= 255
        done[step + 2, below] = guess
    found = np.empty((height, width, size), np.uint8)
    for r in range(height):
        found[r] = done[r + 2 : r + 2 + width, r + 1]
    return found


def _paeth(left: np.ndarray, above: np.ndarray, corner: np.ndarray) -> np.ndarray:
    to_left, to_above = np.abs(above - corner), np.abs(left - corner)
    to_corner = np.abs(left + above - 2 * corner)
    nearest = np.where(to_above <= to_corner, above, corner)
    return np.where((to_left <= to_above) & (to_left <= to_corner), left, nearest)


def write_deep_png(pixels: np.ndarray, profile: bytes | None = None) -> bytes:
    """A PNG of u16 pixels [height, width, 2 to 4], with a colour profile if there is one."""
    height, width, channels = pixels.shape
    lines = np.ascontiguousarray(pixels, ">u2").view(np.uint8).reshape(height, -1)
    stored = np.empty((height, lines.shape[1] + 1), np.uint8)
    stored[:, 0] = _UP
    stored[0, 1:] = lines[0]
    np.subtract(lines[1:], lines[:-1], out=stored[1:, 1:])
    header = struct.pack(">IIBBBBB", width, height, 16, _TYPES[channels], 0, 0, 0)
    chunks = [(b"IHDR", header)]
    if profile:
        chunks.append((b"iCCP", b"icc\0\0" + zlib.compress(profile)))
    chunks += [(b"IDAT", zlib.compress(stored.tobytes(), 6)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
