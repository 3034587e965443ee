"""Where results lie in memory: away from where the image starts in a page, so that loads need not wait.

    image at    ...000          its rows are a multiple of 4096 bytes long
    result at   ...800          half a page away: no load looks as if it read what was just stored

A processor compares a load's address with those of the stores before it by their lower 12 bits only.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from regweave.cascades.arrays import address_of, aligned_bytes
from regweave.errors import InputError

#: Bytes after which addresses differ in their upper bits only, as far as loads and stores compare them.
_PAGE, _LINE = 4096, 64
#: Bytes that the result, apart from whole pages, may begin before and behind the image for that to matter.
_BEFORE, _BEHIND = 192, 256
#: Bytes that a result whose channels lie side by side begins before the image, apart from whole pages.
_PIXEL = 256


def new_result(image: np.ndarray, shape: Sequence[int], order: str) -> np.ndarray:
    """An uninitialised result that starts at a cache line, away from where the image starts in a page.

    A load just behind a store then never looks as if it read what was stored. Rows of both may be a multiple
    of a page long: half a page is far from all of them. So may pixels whose channels lie side by side, or two
    or four of them: what lies a little before the image was stored in good time.
    """
    size = image.itemsize * prod(shape)
    try:
        memory = aligned_bytes(size + _PAGE)
        apart = _PAGE // 2 if order == "nchw" else -_PIXEL
        start = (address_of(image) + apart - address_of(memory)) % _PAGE & -_LINE
        return memory[start : start + size].view(image.dtype).reshape(shape)
    except (MemoryError, ValueError):  # more than there is, or than can be counted
        taken = f"takes {size / 1e9:.4g} GB" if size else "is empty, with sides beyond what can be counted"
        raise InputError(
            f"a result of shape {list(shape)} {taken}",
            where="x",
            expected="a result that fits the memory",
            fix="pad less, or convolve parts of the image",
        ) from None


def paged(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether rows of image and result start a multiple of a page apart: it then matters where both begin."""
    return not (x.strides[2] % _PAGE or y.strides[2] % _PAGE)


def stored_close(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether loads from x may look as if they read what was just stored to y, wherever in both they are."""
    return paged(x, y) and (y.ctypes.data - x.ctypes.data + _BEFORE) % _PAGE < _BEFORE + _BEHIND
