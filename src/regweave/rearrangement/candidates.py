"""What a strategy would do for one request, and what it would cost: the planner's candidates.

Every strategy answers, also with why it does not apply, so that a plan can say why the others lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from regweave.layouts import Layout
from regweave.programs import Program
from regweave.rearrangement.conditions import Conditions
from regweave.rearrangement.cost import NO_COST, Cost, cost_of
from regweave.rearrangement.exchange import lower_fold, words_of
from regweave.rearrangement.folds import Fold, contraction_axis, find_fold, find_identity
from regweave.rearrangement.matrix import CoordinationMatrix
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.request import Request


@dataclass(frozen=True)
class Candidate:
    """One way to carry a request out. Where it does not apply, `program` is None and `reason` says why."""

    strategy: str
    form: str | None
    reason: str
    program: Program | None = None
    cost: Cost = NO_COST
    matrix: CoordinationMatrix | None = None
    fold: Fold | None = None

    @property
    def name(self) -> str:
        """The strategy's name, with its form."""
        return self.strategy if self.form is None else f"{self.strategy} ({self.form})"

    @property
    def applies(self) -> bool:
        """Whether this can be carried out."""
        return self.program is not None


def identity_candidate(request: Request, relation: Relation) -> Candidate:
    """Nothing moves between lanes and nothing is permuted: registers are read under other names."""
    fold = find_identity(relation)
    if fold is None:
        return Candidate("identity", None, _why_no_identity(relation))
    return _renaming("identity", "the layouts agree", request, relation, fold, Conditions(work_between=False))


def fold_candidate(request: Request, relation: Relation, conditions: Conditions) -> Candidate:
    """The next product sums over k in another order."""
    if contraction_axis(request.destination) is None:
        return Candidate("fold", None, f"{request.destination.name} has no contraction index k to permute")
    fold = find_fold(relation)
    if fold is None:
        return Candidate("fold", None, "no permutation of k makes every lane's own words the operand")
    if fold.permutation == tuple(range(len(fold.permutation))):
        return Candidate("fold", None, "there is nothing to permute: the identity does it")
    forbidden = conditions.forbids(fold)
    if forbidden is not None:
        return Candidate("fold", None, f"illegal: {forbidden}")
    period = _period(fold.permutation)
    order = ",".join(str(k) for k in fold.permutation[:period])
    reason = f"the next operand takes its k in the order {order} of every {period}"
    return _renaming("fold", reason, request, relation, fold, conditions)


def _renaming(
    strategy: str, reason: str, request: Request, relation: Relation, fold: Fold, conditions: Conditions
) -> Candidate:
    """A candidate that only reads registers under other names."""
    name = function_name(request.source, request.destination, strategy)
    program = lower_fold(name, relation, fold, request.machine)
    if isinstance(program, str):
        return Candidate(strategy, None, program)
    moves = _tuple_moves(request, relation, fold, conditions)
    return Candidate(strategy, None, reason, program, cost_of(program, moves), fold=fold)


def _tuple_moves(request: Request, relation: Relation, fold: Fold, conditions: Conditions) -> int:
    """Copies that build aligned operand tuples; packing or other work in between writes them in place."""
    if relation.packing is not None or conditions.work_between:
        return 0
    per_register = request.destination.element_type.per_register
    registers = [item // per_register for item in words_of(fold.items, relation)[::per_register]]
    size = request.tuple_registers
    tuples = [registers[first : first + size] for first in range(0, len(registers), size)]
    in_place = (held == list(range(held[0], held[0] + len(held))) and held[0] % size == 0 for held in tuples)
    return sum(len(held) for held, kept in zip(tuples, in_place, strict=True) if not kept)


def _period(permutation: tuple[int, ...]) -> int:
    """The length of the shortest block that repeats, each block being a permutation of its own positions."""
    size = len(permutation)
    for period in (number for number in range(1, size) if size % number == 0):
        shifted = all(permutation[k] == permutation[k - period] + period for k in range(period, size))
        if shifted and sorted(permutation[:period]) == list(range(period)):
            return period
    return size


def _why_no_identity(relation: Relation) -> str:
    lanes = np.arange(relation.lanes)
    elsewhere = np.argwhere(relation.peers != lanes[:, None])
    layout = relation.destination
    if elsewhere.size:
        lane, item = (int(number) for number in elsewhere[0])
        slot = layout.slot_of(lane, item)
        element, peer = layout.element(*slot), relation.peers[lane, item]
        return f"lane {lane} register {slot.register} needs element {element} of lane {peer}"
    lane, item = (int(number) for number in np.argwhere(relation.items != relation.items[0])[0])
    register = layout.slot_of(lane, item).register
    return f"register {register} is filled from different registers in lanes 0 and {lane}"


def function_name(source: Layout, destination: Layout, strategy: str) -> str:
    """A C identifier that says what the function does."""
    words = (re.sub(r"\W+", "_", layout.name, flags=re.ASCII).strip("_") for layout in (source, destination))
    return "regweave_{}_to_{}_{}".format(*words, strategy)
