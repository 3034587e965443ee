"""The cheapest instruction for a move between lanes that is known beforehand.

A shuffle needs an index and, on AMD, a trip through the LDS hardware. Patterns within four, eight or sixteen
lanes are a modifier of an ordinary move there (DPP), and gfx10 and later permute rows of sixteen lanes by a
constant:

    lane ^ 1       row_move  control 0xb1 (quad_perm:[1,0,3,2])
    lane ^ 8       row_move  control 0x128 (row_ror:8)
    lane ^ 16      row_permute low 0x76543210 high 0xfedcba98 cross 1 (gfx11)
    lane ^ 32      half_swap (waves of 64 on gfx11)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.machines.gpu import WarpMachine
from regweave.programs import ProgramBuilder, Value
from regweave.programs.lane_moves import (
    CONTROLS,
    HALF_MIRROR,
    QUAD_PERMUTE,
    ROW,
    ROW_MIRROR,
    ROW_ROTATE,
    ROW_SHARE,
    ROW_XOR,
    row_move_peers,
)
from regweave.rearrangement.expressions.nodes import lower_expression
from regweave.rearrangement.expressions.synthesis import synthesise

if TYPE_CHECKING:
    from numpy.typing import NDArray

# an opcode and its numbers
Move = tuple[str, tuple[int, ...]]

_FAMILIES = {
    "dpp_quad_perm": range(QUAD_PERMUTE, 0x100),
    "dpp_row_ror": range(ROW_ROTATE + 1, ROW_ROTATE + ROW),
    "dpp_row_mirror": range(ROW_MIRROR, ROW_MIRROR + 1),
    "dpp_row_half_mirror": range(HALF_MIRROR, HALF_MIRROR + 1),
    "dpp_row_share": range(ROW_SHARE, ROW_SHARE + ROW),
    "dpp_row_newbcast": range(ROW_SHARE, ROW_SHARE + ROW),
    "dpp_row_xmask": range(ROW_XOR, ROW_XOR + ROW),
}


def fixed_move(peers: Sequence[int | None], exchanges: frozenset[str]) -> Move | None:
    """(opcode, numbers) of the instruction by which lane i takes from `peers[i]`; None if there is none.

    `peers` has one entry per lane of the warp, None where a lane may take anything; `exchanges` are the ways
    that the machine has.
    """
    return _find(tuple(peers), exchanges)


@lru_cache(maxsize=4096)
def _find(peers: tuple[int | None, ...], exchanges: frozenset[str]) -> Move | None:
    cares = np.array([peer is not None for peer in peers])
    wanted = np.array([0 if peer is None else peer for peer in peers])
    controls, tables = _row_moves(len(peers), exchanges)
    if controls:
        found = np.flatnonzero(((tables == wanted) | ~cares).all(axis=1))
        if found.size:
            return "row_move", (controls[int(found[0])],)
    lanes = np.arange(len(peers))
    if "permlane64" in exchanges and bool((wanted == lanes ^ 32)[cares].all()):
        return "half_swap", ()
    for name, cross in (("permlane16", 0), ("permlanex16", 1)):
        if name in exchanges and bool((wanted // ROW == lanes // ROW ^ cross)[cares].all()):
            places = [{int(p) % ROW for p in wanted[at::ROW][cares[at::ROW]]} or {0} for at in range(ROW)]
            if all(len(place) == 1 for place in places):
                numbers = sum(place.pop() << 4 * at for at, place in enumerate(places))
                return "row_permute", (numbers & 0xFFFFFFFF, numbers >> 32, cross)
    return None


@lru_cache(maxsize=64)
def _row_moves(lanes: int, exchanges: frozenset[str]) -> tuple[tuple[int, ...], NDArray[np.int64]]:
    controls = sorted(c for name, family in _FAMILIES.items() if name in exchanges for c in family)
    assert set(controls) <= CONTROLS
    if not controls or lanes % ROW:
        return (), np.zeros((0, lanes), dtype=np.int64)
    return tuple(controls), np.stack([row_move_peers(control, lanes) for control in controls])


def move_words(builder: ProgramBuilder, machine: WarpMachine, word: Value, peers: NDArray[np.int64]) -> Value:
    """Write the move of one word by which lane i takes from `peers[i]`: a fixed one, or a shuffle."""
    fixed = fixed_move(peers.tolist(), machine.exchanges)
    if fixed is not None:
        return builder.step(fixed[0], (word,), fixed[1])
    lanes = len(peers)
    segments = [
        width for width in (*machine.shuffle_widths, lanes)
        if np.array_equal(peers // width, np.arange(lanes) // width)
    ]  # fmt: skip
    width = min(segments)
    index = synthesise((peers % width).tolist(), width - 1, machine.costs)
    return builder.step("shuffle", (word, lower_expression(index, builder)), (width,))
