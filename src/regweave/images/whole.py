"""Which filters can be calculated in whole numbers, and how: from an `ImageFilter` to a `ByteFilter`.

    filter                   whole numbers
    gaussian3 to gaussian9   weights / 16 to / 65536; from gaussian7 on sums of 32 bits
    sobel, laplacian         weights / 4, of which the root of the sum of squares is taken, and / 1
    unsharp                  512 in the middle less gaussian5's weights, / 256: more than 16 bits hold, but
                             twice the pixel is whole, so that gaussian5 can be rounded before it is
                             subtracted
    box3 to box15            ones, divided by an odd number

The same goes for kernels from files. What is calculated in whole numbers is exact before it is rounded.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from regweave.kernels.photographs import ByteFilter

if TYPE_CHECKING:
    from regweave.images.filters import ImageFilter

#: Weights are divided by no higher power of two, and no larger as whole numbers.
_MOST_SHIFT, _MOST = 16, 1 << 16
#: Responses that a filter may have.
_MOST_RESPONSES = 2


def whole_numbers(chosen: ImageFilter, channels: int, *, deep: bool = False) -> ByteFilter | None:
    """The filter in whole numbers for images of so many channels of bytes, or `deep`, of 16 bits; None where
    that is not exact."""
    kernels = chosen.kernels
    if len(kernels) > _MOST_RESPONSES or not np.isfinite(kernels).all() or not kernels.any(axis=(1, 2)).all():
        return None
    finish = "magnitude" if chosen.magnitude or len(kernels) > 1 else "round"
    shift = _power(kernels)
    if shift is None:
        return _mean(kernels, channels, finish, deep)
    whole = np.rint(kernels.astype(np.float64) * 2**shift).astype(np.int64)
    plain = _described(whole, channels, shift=shift, finish=finish, deep=deep)
    found = [plain, replace(plain, wide=True)]
    if len(kernels) == 1 and finish == "round":
        _, height, width = kernels.shape
        middle = np.zeros_like(whole)
        middle[0, height // 2, width // 2] = 2 << shift
        if (middle - whole).any():
            found.insert(1, _described(middle - whole, channels, shift=shift, finish="sharpen", deep=deep))
    return next((form for form in found if form.fits()), None)


def _power(kernels: np.ndarray) -> int | None:
    """The least n for which all weights times 2 ** n are whole."""
    if np.abs(kernels).max() >= _MOST:
        return None
    denominators = [weight.as_integer_ratio()[1] for weight in set(kernels.ravel().tolist())]
    shift = max(denominators).bit_length() - 1
    return shift if shift <= _MOST_SHIFT else None


def _mean(kernels: np.ndarray, channels: int, finish: str, deep: bool) -> ByteFilter | None:
    """A mean of an odd number of pixels, all of the same weight."""
    _, height, width = kernels.shape
    count = height * width
    if finish != "round" or count % 2 == 0 or not (kernels == np.float32(1 / count)).all():
        return None
    plain = _described(np.ones_like(kernels, np.int64), channels, divisor=count, deep=deep)
    return next((form for form in (plain, replace(plain, wide=True)) if form.fits()), None)


def _described(whole: np.ndarray, channels: int, **more: object) -> ByteFilter:
    """Rows that are multiples of one another become one."""
    rows: dict[tuple[int, ...], int] = {}
    uses = []
    for kernel in whole:
        uses.append(tuple(_use(row.tolist(), rows) for row in kernel))
    return ByteFilter(channels=channels, rows=tuple(rows), uses=tuple(uses), **more)  # type: ignore[arg-type]


def _use(row: list[int], rows: dict[tuple[int, ...], int]) -> tuple[int, int] | None:
    """Which row it is, and how many times."""
    factor = gcd(*row)
    if not factor:
        return None
    reduced = tuple(weight // factor for weight in row)
    turned = tuple(-weight for weight in reduced)
    if turned in rows:
        return rows[turned], -factor
    return rows.setdefault(reduced, len(rows)), factor
