"""Memory that is used again while a large tile is planned.

    >>> keep_freed_memory()         # before tables of half a million slots are made

The C library hands tables of more than 128 KiB back to the system as soon as they are freed, and the system
clears every page of the next one anew: a tenth of the time of a large plan. What glibc takes for large grows
with the largest table that it has handed back, up to 32 MiB. So one table that is freed at once, of which no
page is ever touched, is enough for all smaller ones to stay: the process keeps at most twice as much. Other C
libraries, and thresholds that were set from outside (`MALLOC_MMAP_THRESHOLD_`), do as they did before.
"""

from __future__ import annotations

from functools import cache

import numpy as np

_KEPT = 31 << 20  # a little less than what glibc takes for large at most


@cache
def keep_freed_memory() -> None:
    """Let the C library keep freed tables for those that follow; once for a process."""
    np.empty(_KEPT, dtype=np.uint8)
