"""Reading MessagePack, the form of the metadata in AMD's code objects.

    >>> unpack(bytes([0x81, 0xA1, 0x61, 0x07]))
    {'a': 7}

Only what such metadata holds: maps, lists, texts, booleans, nothing, whole numbers.
"""

from __future__ import annotations

import struct
from typing import Any

from regweave.errors import InputError

_NUMBERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_LENGTHS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def unpack(data: bytes) -> Any:
    """The document in `data`. InputError if it is cut off or holds something else."""
    try:
        return _read(data, 0)[0]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise InputError(f"the metadata cannot be read: {error}") from None


def _read(data: bytes, at: int) -> tuple[Any, int]:
    """The value at a place, and the place behind it."""
    sign = data[at]
    at += 1
    if sign < 0x80 or sign >= 0xE0:
        return sign - 256 * (sign >= 0xE0), at
    if sign in _CONSTANTS:
        return _CONSTANTS[sign], at
    if sign in _NUMBERS:
        return struct.unpack_from(_NUMBERS[sign], data, at)[0], at + struct.calcsize(_NUMBERS[sign])
    if sign in _LENGTHS:
        length = struct.unpack_from(_LENGTHS[sign], data, at)[0]
        at += struct.calcsize(_LENGTHS[sign])
    elif sign < 0xC0:
        length = sign & (31 if sign >= 0xA0 else 15)
    else:
        raise InputError(f"the metadata holds a value of the kind {sign:#x}", expected="maps, lists, texts")
    if 0xA0 <= sign < 0xC0 or sign in (0xD9, 0xDA, 0xDB):
        if at + length > len(data):
            raise InputError("the metadata is cut off")
        return data[at : at + length].decode(), at + length
    if sign < 0x90 or sign in (0xDE, 0xDF):
        pairs = {}
        for _ in range(length):
            key, at = _read(data, at)
            pairs[key], at = _read(data, at)
        return pairs, at
    values = []
    for _ in range(length):
        value, at = _read(data, at)
        values.append(value)
    return values, at
