"""Arrays that this machine's memory can hold: a refusal beforehand, where the system would end the process.

>>> room((1 << 20, 1 << 20, 64), np.float32, fix="a larger stride")
InputError: an array of 1048576 x 1048576 x 64 takes 281475 GB ... expected at most 16.8 GB
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from regweave.errors import InputError

_GB = 1e9


def free_memory() -> int:
    """Bytes that a program can have without others losing theirs, as Linux sees it; elsewhere all memory."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_memory(what: str, needed: int, *, fix: str | None = None) -> None:
    """InputError if `needed` bytes are more than this machine's memory."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise InputError(
            f"{what} takes {needed / _GB:.1f} GB",
            expected=f"at most {there / _GB:.1f} GB, the memory of this machine",
            fix=fix,
        )


def room(shape: Sequence[int], dtype: np.dtype | type, *, fix: str | None = None) -> np.ndarray:
    """An array with nothing in it; InputError if it is larger than this machine's memory, or what is left."""
    size, what = math.prod(shape) * np.dtype(dtype).itemsize, f"an array of {' x '.join(map(str, shape))}"
    check_memory(what, size, fix=fix)
    try:
        return np.empty(shape, dtype)
    except MemoryError:
        raise InputError(
            f"{what} takes {size / _GB:.1f} GB", expected="less, for the system gives no more", fix=fix
        ) from None
