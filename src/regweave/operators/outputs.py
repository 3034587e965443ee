"""How the shape of an output follows from that of the input, where sizes are known only at run time.

(Same(0), 48, Same(2), Same(3))     an image of 48 channels, whatever its size
(Rest(), 48)                        all its pixels as rows: [2, 7, 7, 96] gives [98, 48]
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from regweave.values import frozen


@frozen
class Same:
    """A dimension of the output that is the input's `axis`."""

    axis: int


@frozen
class Rest:
    """The one dimension of the output that follows from the number of elements, as -1 does in a Reshape."""


OutputDim = int | Same | Rest


def followed(dims: Sequence[OutputDim], shape: Sequence[int], elements: int) -> tuple[int, ...] | None:
    """The output's shape for an input of `shape`; None where none of so many elements follows."""
    if any(isinstance(dim, Same) and dim.axis >= len(shape) for dim in dims):
        return None
    found = [shape[dim.axis] if isinstance(dim, Same) else dim for dim in dims]
    known = prod(dim for dim in found if isinstance(dim, int))
    rest = elements // known if known else 0
    result = tuple(rest if isinstance(dim, Rest) else dim for dim in found)
    return result if prod(result) == elements else None
