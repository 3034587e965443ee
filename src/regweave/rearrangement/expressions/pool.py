"""What index expressions are built on: the lane's number shifted, masked, both, or with a constant added.

    >>> found = shifted(4)
    >>> [str(found[number]) for number in range(3)], found.values[1].tolist()
    (['lane', 'lane & 1', 'lane & 2'], [0, 1, 0, 1])

There are hundreds for 32 lanes and a thousand for 128, of which a table needs one or two. So all values are
computed at once, and an expression is written when somebody asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.rearrangement.alike import first_alike
from regweave.rearrangement.expressions.nodes import LANE, Binary, Constant, Expression, evaluate

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Pool:
    """Expressions and their `values`, `[expressions, lanes]`: those `known`, then others by what they do.

    `forms[number]` is (opcode, amount, mask) of the lane's number; the opcode is empty where it stays, the
    mask 0 where all bits are kept. `bases` are the places of those that no mask ends.
    """

    known: tuple[Expression, ...]
    forms: tuple[tuple[str, int, int], ...]
    values: NDArray[Any]
    bases: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, number: int) -> Expression:
        if number < len(self.known):
            return self.known[number]
        opcode, amount, mask = self.forms[number - len(self.known)]
        moved = Binary(opcode, LANE, Constant(amount)) if opcode else LANE
        return Binary("and", moved, Constant(mask)) if mask else moved


@lru_cache(maxsize=1024)
def pool_of(known: tuple[Expression, ...], lanes: int) -> Pool:
    """The pool for tables of so many lanes, the expressions in `known` first."""
    others = shifted(lanes)
    if not known:
        return others
    values = np.concatenate([np.stack([evaluate(entry, lanes) for entry in known]), others.values])
    plain = [number for number, entry in enumerate(known) if not _is_masked(entry)]
    return Pool(known, others.forms, values, np.concatenate([plain, others.bases + len(known)]).astype(int))


def _is_masked(entry: Expression) -> bool:
    return isinstance(entry, Binary) and entry.opcode == "and"


@lru_cache(maxsize=8)
def shifted(lanes: int) -> Pool:
    """The pool without anything known: of equal values the shortest expression, the shortest first."""
    bits = max((lanes - 1).bit_length(), 1)
    lane = np.arange(lanes, dtype=np.uint32)
    moves = [("", 0)]
    moves += [(opcode, by) for by in range(1, bits) for opcode in ("shift_left", "shift_right")]
    masks = _runs(2 * bits - 1)
    amounts = np.array([by for _, by in moves], dtype=np.uint32)[:, None]
    left = np.array([opcode == "shift_left" for opcode, _ in moves])[:, None]
    moved = np.where(left, lane << amounts, lane >> amounts)
    masked = moved[:, None] & np.array(masks, dtype=np.uint32)[:, None]
    added = lane + np.arange(1, lanes, dtype=np.uint32)[:, None]
    values = np.concatenate([moved, masked.reshape(-1, lanes), added])
    forms = [(opcode, by, 0) for opcode, by in moves]
    forms += [(opcode, by, mask) for opcode, by in moves for mask in masks]
    forms += [("add", by, 0) for by in range(1, lanes)]
    # what is written: `lane`, ` << 3` behind it, and then ` & 12` behind `(lane << 3)`
    shifts = np.array([len(" << ") + _digits(by) if by else 0 for _, by in moves])
    further = shifts[:, None] + 2 * (shifts[:, None] > 0) + [len(" & ") + _digits(mask) for mask in masks]
    sums = [len(" + ") + _digits(by) for by in range(1, lanes)]
    letters = np.concatenate([shifts, further.ravel(), sums])
    parts = np.array([bool(opcode) + bool(mask) for opcode, _, mask in forms])
    order = np.lexsort((letters, parts))
    kept = order[first_alike(values[order].astype(np.int64)) == np.arange(len(order))]
    chosen = [forms[at] for at in kept.tolist()]
    bases = np.array([at for at, (_, _, mask) in enumerate(chosen) if not mask])
    return Pool((), tuple(chosen), values[kept], bases)


def _runs(bits: int) -> list[int]:
    """All masks of neighbouring ones within `bits` bits."""
    return [((1 << length) - 1) << low for length in range(1, bits + 1) for low in range(bits - length + 1)]


def _digits(number: int) -> int:
    return len(str(Constant(number)))
