"""Numbers of fewer bits: matrices and pixels as f16 or int8, and what the sums then mean.

    f16     both rounded to the nearest f16
    i8      pixels 0 .. 255 as -128 .. 127; each row of the matrix in steps of its largest element / 127

    sum over k of w[n, k] * x[k] = scale[n] * (sum of q[n, k] * (x[k] - 128) + 128 * sum of q[n, k])

The sums of i8 are whole numbers and exact; what they differ by from f32 is at most half a step per element.
"""

from __future__ import annotations

import numpy as np

from regweave.values import frozen

_MIDDLE = 128


@frozen(eq=False)
class Quantised:
    """A matrix in int8: `steps` [N, K], the `scale` [N] of a step, and 128 times the sum of a row's steps."""

    steps: np.ndarray
    scale: np.ndarray
    shift: np.ndarray

    def finish(self, sums: np.ndarray) -> np.ndarray:
        """Sums [..., N] of steps * (pixel - 128) as f32."""
        whole = sums.astype(np.int64) + self.shift
        return (whole * self.scale).astype(np.float32)


def quantise(factors: np.ndarray) -> Quantised:
    """The matrix in int8; a matrix of whole numbers up to 127 keeps them."""
    largest = np.abs(factors).max(axis=1)
    whole = (factors == np.rint(factors)).all(axis=1) & (largest <= 127)
    scale = np.where(whole | (largest == 0), 1.0, largest.astype(np.float64) / 127)
    steps = np.rint(factors / scale[:, None]).astype(np.int8)
    return Quantised(steps, scale, _MIDDLE * steps.astype(np.int64).sum(axis=1))


def centred(pixels: np.ndarray) -> np.ndarray:
    """Pixels 0 .. 255 as int8 around the middle."""
    return (pixels ^ np.uint8(_MIDDLE)).view(np.int8)
