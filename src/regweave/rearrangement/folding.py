"""The strategy *fold*: registers stay, and products before or after take k in another order.

- right, without a form of its own: the next product's other operand is permuted along k.
- `left`: the product before computes its columns in another order.
- `both`, where the other operand is loaded at run time: the product before computes its columns in such an
  order that what a lane loads of the other operand lies side by side.

    >>> fold_candidates(request, relation, Conditions())[0].reason
    'the next operand takes its k in the order 0,2,4,6,1,3,5,7 of every 8'

Of the folds that there are the lexicographically smallest is taken, unless the other operand is loaded at run
time and another one makes that load cheaper: then a fold costs what it changes there, and the fewest
instructions win, seam and load together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from regweave.rearrangement.candidates import Candidate, order_text, renaming
from regweave.rearrangement.conditions import Conditions
from regweave.rearrangement.folds import Fold, contraction_axis, find_folds
from regweave.rearrangement.operand_loads import OtherOperand
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.request import Request

FORMS = (None, "left", "both")
_MOST = 16  # folds to compare


def fold_candidates(
    request: Request, relation: Relation, conditions: Conditions, other: OtherOperand | None = None
) -> tuple[Candidate, ...]:
    """The right fold, the `left` one, and the one on `both` sides where `other` is loaded at run time."""
    if contraction_axis(request.destination) is None:
        return _none(f"{request.destination.name} has no contraction index k to permute", other)
    folds = tuple(islice(find_folds(relation), 1 if other is None else _MOST))
    if not folds:
        return _none("no permutation of k makes every lane's own words the operand", other)
    made = _Folding(request, relation, conditions, other)
    found = (made.right(folds), made.left(folds[0]))
    return found if other is None else (*found, made.both(folds, other))


def _none(reason: str, other: OtherOperand | None) -> tuple[Candidate, ...]:
    return tuple(Candidate("fold", form, reason) for form in FORMS[: 2 if other is None else 3])


class _Folding:
    """Writes the candidates of one request."""

    def __init__(
        self, request: Request, relation: Relation, conditions: Conditions, other: OtherOperand | None
    ) -> None:
        self.request, self.relation, self.conditions, self.other = request, relation, conditions, other

    def right(self, folds: Sequence[Fold]) -> Candidate:
        """The cheapest into the next operand; among equals the first."""
        if folds[0].trivial:
            return Candidate("fold", None, "there is nothing to permute: the identity does it")
        return self._cheapest(None, folds, lambda order: f"the next operand takes its k in the order {order}")

    def left(self, fold: Fold) -> Candidate:
        """Into the product before, so that k comes in its true order."""
        axis = self._axis(fold)
        if fold.trivial:
            return Candidate("fold", "left", "there is nothing to permute: the identity does it")
        if not self.conditions.producer_free:
            return Candidate("fold", "left", _fixed(axis))
        fold = fold.with_k_order(range(len(fold.permutation)))
        return renaming("fold", "left", _before(fold, axis), self.request, self.relation, fold)

    def both(self, folds: Sequence[Fold], other: OtherOperand) -> Candidate:
        """Into the product before, so that the other operand is loaded by wide accesses."""
        axis, order = self._axis(folds[0]), other.gathered
        if not self.conditions.producer_free:
            return Candidate("fold", "both", _fixed(axis))
        if order == tuple(range(len(order))):
            return Candidate(
                "fold", "both", "what a lane loads of the other operand lies side by side anyway"
            )
        some = [fold.with_k_order(order) for fold in folds]
        before = _before(some[0], axis)
        return self._cheapest("both", some, lambda order: f"{before}; the next operand takes its k in the "
                              f"order {order}")  # fmt: skip

    def _axis(self, fold: Fold) -> str:
        return "columns" if fold.axis else "rows"

    def _cheapest(self, form: str | None, folds: Sequence[Fold], reason: Callable[[str], str]) -> Candidate:
        forbidden = [self.conditions.forbids(fold) for fold in folds]
        if None not in forbidden:
            return Candidate("fold", form, f"illegal: {forbidden[0]}")
        legal = (fold for fold, why in zip(folds, forbidden, strict=True) if why is None)
        return min(
            (self._made(form, fold, reason) for fold in legal), key=lambda made: made.cost.instructions
        )

    def _made(self, form: str | None, fold: Fold, reason: Callable[[str], str]) -> Candidate:
        text = reason(order_text(fold.k_order))
        return with_load(renaming("fold", form, text, self.request, self.relation, fold), self.other)


def with_load(
    candidate: Candidate, other: OtherOperand | None, usual: OtherOperand | None = None
) -> Candidate:
    """The candidate with the load of the other operand that its fold asks for, and what that changes.

    The change is against the load in the true order of k, of the operand `usual` if that is another one.
    """
    if other is None or candidate.fold is None or not candidate.applies:
        return candidate
    load = other.load(candidate.fold.k_order)
    change = load.instructions - (usual or other).true.instructions
    return replace(candidate, cost=replace(candidate.cost, load_change=change), load=load)


def _fixed(axis: str) -> str:
    return f"the product before computes its {axis} in a fixed order (producer_free would say otherwise)"


def _before(fold: Fold, axis: str) -> str:
    assert fold.producer_order is not None
    order = order_text(fold.producer_order)
    return f"the product before computes its {axis} in the order {order}, bias, mask and residual with them"
