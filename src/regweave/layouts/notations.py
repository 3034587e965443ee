"""Layouts written in the notations of Triton and CuTe (which `machines.notations` reads).

    >>> to_cute(c)
    '((4,8),(2,2)):((32,1),(16,8))'

Triton writes what is linear over bits, CuTe what is a sum of strides; a swizzled layout is the first and
not the second, a tile of 6 x 5 the second and not the first. What cannot be said raises, naming the slot
that does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regweave.errors import InputError, UnsupportedError
from regweave.layouts.layout import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

# lanes of a warp where nobody says: up to a wavefront they are one warp, beyond that warps of 32
_WAVE, _WARP = 64, 32


def to_triton(layout: Layout, warp_lanes: int | None = None) -> str:
    """`#ttg.linear<{...}>`; lanes beyond `warp_lanes` are further warps.

    `warp_lanes` is by default all lanes up to 64, and 32 beyond. Raises UnsupportedError if the layout is not
    linear over bits, InputError if `warp_lanes` is no power of two.
    """
    basis = layout.basis
    if basis is None:
        raise UnsupportedError(f"{layout.name} is no linear layout of Triton's: {_why_not_linear(layout)}",
                               fix="write it as CuTe layout, CSV or Markdown")  # fmt: skip
    if warp_lanes is None:
        warp_lanes = layout.lanes if layout.lanes <= _WAVE else _WARP
    if warp_lanes < 1 or warp_lanes & (warp_lanes - 1):
        raise InputError(f"warps of {warp_lanes} lanes", expected="a power of two")
    bits = warp_lanes.bit_length() - 1
    lists = {"register": basis.item, "lane": basis.lane[:bits], "warp": basis.lane[bits:], "block": ()}
    words = (f"{key} = {[list(vector) for vector in vectors]}" for key, vectors in lists.items())
    return f"#ttg.linear<{{{', '.join(words)}}}>"


def to_cute(layout: Layout) -> str:
    """`((threads...),(values...)):((...),(...))`, elements counted down the columns of the tile.

    Raises UnsupportedError if the elements are no sum of a thread's and a value's strides.
    """
    row, column = np.divmod(layout.table, layout.shape[1])
    numbers = column * layout.shape[0] + row
    threads, values = _modes(numbers[:, 0]), _modes(numbers[0])
    wrong = np.argwhere(numbers != numbers[:, :1] + numbers[:1])
    if threads is None or values is None or wrong.size or numbers[0, 0]:
        if numbers[0, 0]:
            fault = f"lane 0 item 0 holds element {layout.element(0, 0)}, not (0, 0)"
        elif wrong.size:
            lane, item = (int(number) for number in wrong[0])
            fault = f"lane {lane} item {item} is not where its lane's and its item's strides lead"
        else:
            fault = f"the {'lanes' if threads is None else 'items'} are not evenly apart"
        raise UnsupportedError(
            f"{layout.name} is no layout of CuTe's: {fault}",
            fix="write it as a Triton linear layout, CSV or Markdown",
        )
    parts = [
        [_tuple([size for size, _ in modes]), _tuple([step for _, step in modes])]
        for modes in (threads, values)
    ]
    return f"({parts[0][0]},{parts[1][0]}):({parts[0][1]},{parts[1][1]})"


def _why_not_linear(layout: Layout) -> str:
    for what, size in (("lanes", layout.lanes), ("items", layout.items)):
        if size & (size - 1):
            return f"{size} {what} are no power of two"
    if layout.table[0, 0]:
        return f"lane 0 item 0 holds {layout.element(0, 0)}, not (0, 0)"
    return "its bits do not add up"


def _modes(numbers: NDArray[np.int64]) -> list[tuple[int, int]] | None:
    """(size, stride) from fastest to slowest, or None if there are none."""
    modes: list[tuple[int, int]] = []
    done = 1
    while done < numbers.size:
        step = int(numbers[done])
        blocks = numbers.reshape(-1, done)
        even = np.all(blocks == numbers[:done] + step * np.arange(len(blocks))[:, None], axis=1)
        run = len(blocks) if even.all() else int(even.argmin())
        size = max((size for size in range(2, run + 1) if len(blocks) % size == 0), default=1)
        if size == 1 or step < 0:
            return None
        modes.append((size, step))
        done *= size
    return modes or [(1, 0)]


def _tuple(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"({','.join(map(str, numbers))})"
