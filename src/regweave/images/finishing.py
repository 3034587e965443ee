"""How images are finished: sums become the image's own type, and somebody is told how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regweave.errors import InputError

#: Called with the rows (pixels, patches) that are done, and all rows.
Progress = Callable[[int, int], None]


def check_progress(progress: Any) -> None:
    """InputError for what cannot be called."""
    if progress is not None and not callable(progress):
        raise InputError(
            f"progress is {progress!r}", where="progress", expected="a function of two numbers: done, all"
        )


def finish(sums: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """Sums in f32 as the wanted type: rounded to even and clamped where that is whole numbers, NaN as 0."""
    if wanted == np.float32:
        return sums.astype(np.float32, copy=False)
    limits = np.iinfo(wanted)
    # fmax and fmin prefer the limit to a NaN
    return np.rint(np.fmin(np.fmax(sums, limits.min), limits.max)).astype(wanted)
