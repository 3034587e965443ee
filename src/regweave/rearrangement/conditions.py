"""What surrounds a seam, and what that allows.

A fold changes the order in which the next product sums, and the rows of its other operand. Whether it may
is not a matter of layouts: weights can be permuted beforehand, but a second activation that arrives in a
fixed order cannot, and neither may cross the blocks of 4 of a 2:4 sparse operand or those that share a
scale.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any

from regweave.errors import InputError
from regweave.rearrangement.folds import Fold
from regweave.rearrangement.next_operand import NextOperand


@dataclass(frozen=True)
class Conditions:
    """`other_operand_fixed`: the next product's other operand cannot be reordered along k.

    `order_promised`: the order of summation over k was promised. `block`: k may only be permuted inside
    blocks of this many (scale blocks; 4 for 2:4 sparsity). `work_between`: element-wise work between the
    products writes new registers, so that operand tuples can be built in place. `producer_free`: the product
    before can compute its result in another order, its other operand, bias, mask and residual permuted
    alike. `next_operand`: where the next product's other operand is loaded from when the kernel runs; None
    for weights that are laid out beforehand. `swap_allowed`: either product may be computed transposed, which
    turns around what it takes and gives; a strategy asked for by name needs no such leave.
    """

    other_operand_fixed: bool = False
    order_promised: bool = False
    block: int | None = None
    work_between: bool = False
    producer_free: bool = False
    swap_allowed: bool = False
    next_operand: NextOperand | None = None

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.type == "bool" and not isinstance(value, bool):
                raise InputError(f"{entry.name} is {value!r}", where="conditions", expected="True or False")
        if self.next_operand is not None and not isinstance(self.next_operand, NextOperand):
            raise InputError(f"next_operand is {self.next_operand!r}", where="conditions",
                             expected="regweave.rearrangement.NextOperand(...)")  # fmt: skip
        block = self.block
        if block is not None and (isinstance(block, bool) or not isinstance(block, Integral) or block < 1):
            raise InputError(f"blocks of {block!r} along k", expected="a whole number of at least 1")

    def forbids(self, fold: Fold) -> str | None:
        """Why a right `fold`, into the next product's other operand, is not legal here, or None."""
        if self.order_promised:
            return "the order of summation over k is promised"
        if self.other_operand_fixed:
            return "the other operand of the next product cannot be reordered along k"
        if self.block is not None:
            for position, true in enumerate(fold.k_order):
                if position // self.block != true // self.block:
                    there, here = true // self.block, position // self.block
                    return f"k {true} would move from block {there} of {self.block} to block {here}"
        return None


def check_conditions(conditions: Any) -> Conditions:
    """`conditions`, or those of a seam without any; InputError for anything else."""
    if conditions is None:
        return Conditions()
    if isinstance(conditions, Conditions):
        return conditions
    raise InputError(f"{conditions!r} are no conditions", expected="regweave.rearrangement.Conditions(...)")
