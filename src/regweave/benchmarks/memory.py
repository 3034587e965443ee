"""Keep freed memory in the process, so that no library is timed while the kernel hands out fresh pages.

Libraries that allocate their result in every call (torch compiled, for one) spend most of a 64 MB call in
page faults with glibc's defaults. That is not what is being compared, so large blocks are served from the
heap, and the heap never shrinks. On other C libraries nothing happens.
"""

from __future__ import annotations

import ctypes
import sys

# from malloc.h
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc's allocator to keep what is freed; False where there is no such allocator."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, LARGEST), mallopt(M_TOP_PAD, 64 << 20)])
