"""How an image goes on beyond its edges.

>>> inside(np.array([-2, -1, 0, 4, 5]), 5, "mirror")
array([2, 1, 0, 4, 3])
"""

from __future__ import annotations

import numpy as np

#: Its last pixels again and again; mirrored, the last ones not repeated; zeros.
BORDERS = ("edge", "mirror", "zero")


def inside(places: np.ndarray, size: int, border: str) -> np.ndarray:
    """Where the elements at `places` are taken from: the edge, or folded back without repeating it."""
    if border != "mirror" or size == 1:
        return np.clip(places, 0, size - 1)
    folded = places % (2 * size - 2)
    return np.minimum(folded, 2 * size - 2 - folded)
