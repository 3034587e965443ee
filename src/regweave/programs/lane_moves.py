"""Moves between lanes that are known when the program is written, and what they mean.

Machines have instructions for some that are cheaper than a shuffle, which can do all of them. A *row* is 16
lanes. Each is described as the vendors' manuals do:

- `transpose` (movmatrix.m8n8.trans.b16): lane 4 r + c / 2 holds element (r, c) of an 8 x 8 matrix of 16-bit
  elements, the even columns in the low halves; afterwards it holds element (c, r).
- `lane_swap` n (v_permlane16_swap_b32, v_permlane32_swap_b32): of two words, the lanes of the first with bit
  n set change places with the lanes of the second where it is not set:

      first   a0 a1 a2 a3   ->  a0 b0 a2 b2       (one letter for 16 lanes, n = 16)
      second  b0 b1 b2 b3   ->  a1 b1 a3 b3

- `row_move` control (DPP): the number is the instruction's DPP_CTRL field. Up to 0xff a permutation of every
  four lanes (quad_perm, two bits each), 0x121 to 0x12f a rotation of every row to the right (row_ror), 0x140
  its reversal (row_mirror), 0x141 that of every half of it (row_half_mirror), 0x150 to 0x15f one lane of the
  row for all (row_share), 0x160 to 0x16f lane xor n (row_xmask).
- `row_permute` low, high, cross (v_permlane16_b32, v_permlanex16_b32): lane i of a row takes from the lane of
  the row, or of the neighbouring row if `cross` is 1, that nibble i of high and low says.
- `half_swap` (v_permlane64_b32): lane xor 32.
- `pick` places (vpermt2ps, vpermt2w, vpermt2b): of two vectors side by side, the pieces at these places; as
  many as lanes, or 2 or 4 times as many.

All lanes take part. The words may be of any number of lanes that the pattern divides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROW = 16
QUAD_PERMUTE, ROW_ROTATE, ROW_MIRROR, HALF_MIRROR, ROW_SHARE, ROW_XOR = 0, 0x120, 0x140, 0x141, 0x150, 0x160
CONTROLS = frozenset({*range(0x100), *range(0x121, 0x130), 0x140, 0x141, *range(0x150, 0x170)})


# lanes after which the pattern repeats
_PERIODS = {"transpose": 32, "row_move": ROW, "row_permute": 2 * ROW, "half_swap": 64}


def move_fault(name: str, numbers: tuple[int, ...], lanes: int) -> str | None:
    """What is wrong with the numbers of one of these moves in a warp of `lanes` lanes."""
    period = 2 * numbers[0] if name == "lane_swap" else _PERIODS.get(name, 1)
    if name == "lane_swap" and numbers[0] not in (16, 32):
        return f"swaps lanes by bit {numbers[0]}, not 16 or 32"
    if name == "pick":
        pieces = len(numbers)
        whole = pieces in (lanes, 2 * lanes, 4 * lanes)
        inside = whole and all(0 <= place < 2 * pieces for place in numbers)
        return None if inside else f"picks the places {numbers} of two vectors"
    if lanes % period:
        return f"moves words among {period} lanes, of which there are {lanes}"
    if name == "row_move" and numbers[0] not in CONTROLS:
        return f"has the control {numbers[0]:#x}, which is no pattern of a row"
    if name == "row_permute" and not (max(numbers[:2]) < 1 << 32 and min(numbers) >= 0 and numbers[2] < 2):
        return f"has selectors {numbers}, which are not two words and 0 or 1"
    return None


def transpose(word: NDArray[Any]) -> NDArray[Any]:
    """The 8 x 8 matrices of 16-bit elements that every 32 lanes hold, transposed."""
    halves = np.stack([word & np.uint32(0xFFFF), word >> np.uint32(16)], axis=-1)
    turned = halves.reshape(-1, 8, 8).swapaxes(1, 2).reshape(-1, 2)
    return turned[:, 0] | turned[:, 1] << np.uint32(16)


def lane_swap(first: NDArray[Any], second: NDArray[Any], bit: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both words, the lanes of the first with `bit` set and those of the second without having swapped."""
    lanes = np.arange(first.size)
    high = (lanes & bit) != 0
    return np.where(high, second[lanes ^ bit], first), np.where(high, second, first[lanes ^ bit])


def row_move_peers(control: int, lanes: int) -> NDArray[np.int64]:
    """Which lane each lane takes from under this DPP_CTRL; `control` must be one of CONTROLS."""
    lane = np.arange(lanes)
    row, place = lane // ROW * ROW, lane % ROW
    if control < ROW_ROTATE:
        return lane // 4 * 4 + (control >> 2 * (lane % 4) & 3)
    if control < ROW_MIRROR:
        return row + (place - (control - ROW_ROTATE)) % ROW
    if control == ROW_MIRROR:
        return lane ^ 15
    if control == HALF_MIRROR:
        return lane ^ 7
    return row + control - ROW_SHARE if control < ROW_XOR else lane ^ (control - ROW_XOR)


def row_permute_peers(low: int, high: int, cross: int, lanes: int) -> NDArray[np.int64]:
    """Which lane each lane takes from under these selectors."""
    lane = np.arange(lanes)
    places = np.arange(ROW // 2)
    taken = np.concatenate([low >> 4 * places & 15, high >> 4 * places & 15])[lane % ROW]
    return (lane // ROW ^ cross) * ROW + taken
