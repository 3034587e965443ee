"""A product of halves with seven multiplications instead of eight (Strassen, 1969), for chains that allow it.

Rows, columns and the sum over k are each cut in half. With A11 the upper left quarter of A and so on, seven
products of sums give the four quarters of C = A B:

    P1 = (A11 - A22) (B11 - B22)      C11 = P1 + P4 - P5 + P7
    P2 = (A21 - A22)  B11             C21 = P2 + P4
    P3 =  A11        (B12 + B22)      C12 = P3 + P5
    P4 =  A22        (B11 + B21)      C22 = P1 - P2 + P3 + P6
    P5 = (A11 - A12) (-B22)
    P6 = (A21 - A11) (B11 + B12)
    P7 = (A12 - A22) (B21 + B22)

(Strassen's, with the second half of k negated on both sides: activations are seldom negative, and differences
of them are smaller than sums.)

The rows that go together are two tiles, 12 rows: their sums are made once for all columns, those of the
weights when they are packed. Everything between the products is an addition for every 2 K multiplications and
stays in the first-level cache. 192 -> 384 -> 192 channels on 480 pixels: 7 % less time than at 98 % of the
processor's peak.

What it costs: a result depends on the rows beside it. Errors are 0.6 to 1.8 times those of onnxruntime in a
text recogniser (0.9 to 2.4 with sums on the left), relative to the largest results of the pair of tiles; and
an Inf or a NaN would spread to its rows, so a block in which a sum was not finite is done again by eight
multiplications. That is why `y` must share no memory with an extra input here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regweave.kernels.common.geometry import Geometry

if TYPE_CHECKING:
    from regweave.operators import Signature

PRODUCTS = 7

#: The quarters 11, 12, 21, 22 that are added up for the left operand of each product, with their signs.
LEFT = ((1, 0, 0, -1), (0, 0, 1, -1), (1, 0, 0, 0), (0, 0, 0, 1), (1, -1, 0, 0), (-1, 0, 1, 0), (0, 1, 0, -1))
#: The same for the right operand.
RIGHT = ((1, 0, 0, -1), (1, 0, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0), (0, 0, 0, -1), (1, 1, 0, 0), (0, 0, 1, 1))

#: Steps that are summed in one chain: fewer than in other products, since the errors of products add up.
PIECE = 96

#: Half of the least and of the most steps, and half of the fewest columns, for which it was faster: with less
#: the sums weigh too much, with more the right operands of a panel leave the core's own cache.
LEAST_STEPS, MOST_STEPS, LEAST_COLUMNS = 48, 384, 48


def by_seven(signature: Signature, stage: int, geometry: Geometry) -> bool:
    """Whether a stage is multiplied so: its chain allows it, halves are whole vectors and blocks, and not too
    short for what stands between the products. A single product of rows is divided by panels instead."""
    if not signature.seven or (signature.order == "rows" and len(signature.widths) == 2):
        return False
    unit = max(geometry.lanes, signature.block)
    k, n = (width // 2 for width in signature.widths[stage : stage + 2])
    whole = all(width % (2 * unit) == 0 for width in signature.widths[stage : stage + 2])
    return whole and LEAST_STEPS <= k <= MOST_STEPS and n >= LEAST_COLUMNS


def operand_bytes(k: int, geometry: Geometry) -> int:
    """Size of the left operands of one pair of tiles, for `k` steps in all."""
    return PRODUCTS * geometry.scalars * 4 * (k // 2)


def right_operands(weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """The right operands of a weight [K, N], each [K / 2, N / 2]; sums are rounded once."""
    k, n = weight.shape[0] // 2, weight.shape[1] // 2
    quarters = (weight[:k, :n], weight[:k, n:], weight[k:, :n], weight[k:, n:])
    return tuple(
        np.sum([sign * part for sign, part in zip(signs, quarters, strict=True) if sign], axis=0)
        for signs in RIGHT
    )
