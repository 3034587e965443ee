"""Memory that starts at a cache line, as packed weights and scratch space want it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regweave.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


def aligned_empty(
    shape: int | Sequence[int], dtype: DTypeLike = np.float32, *, align: int = 64
) -> NDArray[np.generic]:
    """An uninitialised C-contiguous array whose first element's address is a multiple of `align` bytes.

    InputError for a negative length, or an alignment that is no power of two.
    """
    if align < 1 or align & (align - 1):
        raise InputError(f"alignment {align} is not a power of two", where="align")
    kind = np.dtype(dtype)
    lengths = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if any(length < 0 for length in lengths):
        raise InputError(f"an array of shape {lengths}", where="shape", expected="lengths of at least 0")
    size = math.prod(lengths) * kind.itemsize
    raw = np.empty(size + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + size].view(kind).reshape(lengths)


def is_aligned(array: NDArray[np.generic], align: int = 64) -> bool:
    """Whether the first element's address is a multiple of `align` bytes; yes if there is no element."""
    return array.size == 0 or array.ctypes.data % align == 0
