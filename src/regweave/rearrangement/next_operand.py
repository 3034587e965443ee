"""Where the next product's other operand comes from, if not from weights that were permuted beforehand.

    >>> NextOperand("shared", along="n")

A fold has the other operand take its k in another order. Weights are laid out so beforehand, at no cost
(*offline*, what is assumed where nothing is said). What is only there when the kernel runs is loaded in
that order: neighbours in k that lay side by side may now belong to different registers, or the other way
round. So the load decides with the seam which fold is best, and whether it is any gain.
"""

from __future__ import annotations

from dataclasses import dataclass

from regweave.errors import InputError, nearest_names
from regweave.layouts import Layout
from regweave.machines.notations import is_notation

_OTHER = {"A": "B", "B": "A"}
_TRANSPOSED = "^T"
PLACES = ("global", "shared")
AXES = ("k", "n")


@dataclass(frozen=True)
class NextOperand:
    """The other operand lies in `place`, global or shared memory, neighbours `along` k or n side by side.

    From shared memory it is loaded as it was staged there, by rows of 16 bytes and with a swizzle of our
    choice. `layout` is its tile's fragment, by default the other factor of the instruction whose operand the
    destination names. `result_free`: the next product may compute its n (the columns of its result, or
    where the operand is A its rows) in another order.
    """

    place: str = "global"
    along: str = "k"
    layout: str | Layout | None = None
    result_free: bool = False

    def __post_init__(self) -> None:
        for name, choices in (("place", PLACES), ("along", AXES)):
            value = getattr(self, name)
            if value not in choices:
                raise InputError(
                    f"{name} is {value!r}",
                    where="the next operand",
                    expected=" or ".join(choices),
                    nearest=nearest_names(str(value), choices),
                )
        if self.layout is not None and not isinstance(self.layout, (str, Layout)):
            raise InputError(f"{self.layout!r} is no layout", where="the next operand",
                             expected="a layout, or the name of a fragment")  # fmt: skip
        if not isinstance(self.result_free, bool):
            raise InputError(f"result_free is {self.result_free!r}", where="the next operand",
                             expected="True or False")  # fmt: skip


def other_factor(operand: str | Layout) -> str | None:
    """The name of the same instruction's other factor, or None if this is the name of neither."""
    if not isinstance(operand, str) or is_notation(operand):
        return None
    head, _, tail = operand.rpartition(":")
    letter = tail.removesuffix(_TRANSPOSED).partition("@")[0]
    return f"{head}:{_OTHER[letter]}{tail[len(letter) :]}" if letter in _OTHER else None
