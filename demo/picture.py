"""Read a picture without an imaging library: 8-bit grey PNG, not interlaced, which is all the demo needs.

A PNG is a list of chunks; the joined IDAT chunks decompress to the rows, each behind one byte that names
its filter. A filter says what was subtracted before compression: the neighbour to the left, the one above,
their mean, or whichever of left, above and above-left is closest to left + above - above-left (Paeth).
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np


def read_grey_png(path: Path) -> np.ndarray:
    """The picture as uint8 [height, width]; ValueError for any other kind of file."""
    data = path.read_bytes()
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        raise ValueError(f"{path} is not a PNG file")
    chunks = list(_chunks(data))
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[0][1])
    if kind != [8, 0, 0, 0, 0]:
        raise ValueError(f"{path} is not an 8-bit grey PNG without interlacing")
    packed = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    picture = np.zeros((height, width), np.uint8)
    above = bytes(width)
    for row in range(height):
        start = row * (width + 1)
        above = _unfiltered(packed[start], packed[start + 1 : start + 1 + width], above)
        picture[row] = np.frombuffer(above, np.uint8)
    return picture


def _chunks(data: bytes):
    position = 8
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        yield data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        position += length + 12


def _unfiltered(kind: int, line: bytes, above: bytes) -> bytes:
    out, left, corner = bytearray(len(line)), 0, 0
    for i, (value, up) in enumerate(zip(line, above, strict=True)):
        guess = (0, left, up, (left + up) // 2, _paeth(left, up, corner))[kind]
        left, corner = (value + guess) & 255, up
        out[i] = left
    return bytes(out)


def _paeth(left: int, up: int, corner: int) -> int:
    estimate = left + up - corner
    return min((left, up, corner), key=lambda neighbour: abs(estimate - neighbour))
