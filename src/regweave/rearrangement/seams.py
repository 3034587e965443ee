"""The seams of a chain of products on a warp machine: how each result becomes the next operand.

    >>> [seam.strategy for seam in seam_strategy((64, 128, 64), "tf32", "sm_80")]
    ['fold']
    >>> [seam.strategy for seam in seam_strategy((64, 128, 64), "f16", "sm_80")]
    ['identity']

A chain of n products has n - 1 seams. Its element-wise work writes new registers anyway, so operand
tuples are built in place, and its weights are constants, so their rows may be permuted beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regweave.errors import InputError, nearest_names
from regweave.machines.catalogue import find_machine
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.conditions import Conditions
from regweave.rearrangement.plan import Plan
from regweave.rearrangement.planner import rearrange

# data type of a chain's products -> the instruction that computes them
_INSTRUCTIONS = {"tf32": "mma.m16n8k8.tf32", "f16": "mma.m16n8k16.f16", "bf16": "mma.m16n8k16.bf16"}


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
    if dtype not in _INSTRUCTIONS:
        raise InputError(f"no instruction for {dtype!r}", where="dtype", expected=", ".join(_INSTRUCTIONS),
                         nearest=nearest_names(dtype, _INSTRUCTIONS))  # fmt: skip
    target = find_machine(machine) if isinstance(machine, str) else machine
    name = _INSTRUCTIONS[dtype]
    plan = rearrange(f"{name}:C", f"{name}:A", target, strategy, conditions=Conditions(work_between=True))
    k = target.instruction(name).k
    return tuple(SeamStrategy(width, plan.strategy, _reason(plan, width, k), plan) for width in widths[1:-1])


def _reason(plan: Plan, width: int, k: int) -> str:
    reason = (
        f"{plan.chosen.reason}; {plan.cost} per {plan.destination.shape[0]} x {plan.destination.shape[1]}"
    )
    if width % k:
        reason += f"; width {width} is padded to {-(-width // k) * k}"
    return reason
