"""The seams of a chain of products whose widths are known: `chain_layouts` for one type, in a report's words.

    >>> [seam.strategy for seam in seam_strategy((64, 128, 64), "tf32", "sm_80")]
    ['fold']
    >>> [seam.strategy for seam in seam_strategy((64, 128, 64), "f16", "sm_80")]
    ['identity']

A chain of n products has n - 1 seams. Its element-wise work writes new registers anyway, so operand tuples
are built in place, and its weights are constants, so their rows may be permuted beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regweave.errors import InputError
from regweave.machines.catalogue import find_machine
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.chains import ChainSeam, chain_layouts
from regweave.rearrangement.plan import Plan
from regweave.rearrangement.products import product_instruction


@dataclass(frozen=True)
class SeamStrategy:
    """The strategy at one seam, in words and as a plan. `width` is the number of columns that cross it."""

    width: int
    strategy: str
    reason: str
    plan: Plan


def seam_strategy(
    widths: Sequence[int], dtype: str, machine: str | WarpMachine = "sm_80", strategy: str = "auto"
) -> tuple[SeamStrategy, ...]:
    """The strategy at each seam of a chain K0 -> N0 -> N1 ... (`widths`) in `dtype` on `machine`.

    Raises InputError for fewer than two products, an unknown type or machine, UnsupportedError if the
    machine lacks the instruction or the strategy does not apply.
    """
    if len(widths) < 3:
        raise InputError(f"a chain of widths {tuple(widths)} has no seam", expected="at least two products")
    if not all(hasattr(width, "__index__") and width >= 1 for width in widths):
        raise InputError(f"a chain of widths {tuple(widths)}", expected="whole widths of at least 1")
    target = machine if isinstance(machine, WarpMachine) else find_machine(machine)
    instruction = product_instruction(dtype, target)
    chain = chain_layouts([instruction.name] * (len(widths) - 1), target, strategy=strategy)
    pairs = zip(widths[1:-1], chain.seams, strict=True)
    return tuple(
        SeamStrategy(width, seam.strategy, _reason(seam, width, instruction.k), seam.plan)
        for width, seam in pairs
    )


def _reason(seam: ChainSeam, width: int, k: int) -> str:
    rows, columns = seam.plan.destination.shape
    cost = seam.plan.cost
    work = f"{cost} per {rows} x {columns}" if cost.instructions else "no instruction"
    reason = f"{seam.reason}; {work}"
    if width % k:
        reason += f"; width {width} is padded to {-(-width // k) * k}"
    return reason
