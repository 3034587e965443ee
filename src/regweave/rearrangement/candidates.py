"""What a strategy would do for one request, and what it would cost: the planner's candidates.

Every strategy answers, also with why it does not apply, so that a plan can say why the others lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from regweave.layouts import Layout
from regweave.programs import Program
from regweave.rearrangement.cost import NO_COST, Cost, cost_of
from regweave.rearrangement.exchange.lowering import lower_fold
from regweave.rearrangement.folds import Fold, find_identity
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.request import Request
from regweave.rearrangement.schedule.matrix import CoordinationMatrix
from regweave.rearrangement.slots import first_where
from regweave.rearrangement.tuples import tuple_moves

if TYPE_CHECKING:
    from regweave.rearrangement.operand_loads import OperandLoad

_LONGEST_WORD = 80


@dataclass(frozen=True)
class Candidate:
    """One way to carry a request out. Where it does not apply, `program` is None and `reason` says why.

    `relation` is what it carries out, where that is not the request's: a swap computes another layout. `load`
    is that of the next product's other operand, where k comes in another order than the true one.
    """

    strategy: str
    form: str | None
    reason: str
    program: Program | None = None
    cost: Cost = NO_COST
    matrix: CoordinationMatrix | None = None
    fold: Fold | None = None
    relation: Relation | None = None
    load: OperandLoad | None = None

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
    return renaming("identity", None, "the layouts agree", request, relation, fold)


def order_text(permutation: tuple[int, ...]) -> str:
    """A permutation by the block that repeats: `0,2,4,6,1,3,5,7 of every 8`."""
    period = _period(permutation)
    return ",".join(str(k) for k in permutation[:period]) + f" of every {period}"


def renaming(
    strategy: str,
    form: str | None,
    reason: str,
    request: Request,
    relation: Relation,
    fold: Fold,
) -> Candidate:
    """A candidate that only reads registers, or parts of them, under other names."""
    suffix = strategy if form is None else f"{strategy}_{form}"
    name = function_name(request.source, request.destination, suffix)
    program = lower_fold(name, relation, fold, request.machine)
    if isinstance(program, str):
        return Candidate(strategy, form, program)
    cost = cost_of(program, tuple_moves(program, request))
    return Candidate(strategy, form, reason, program, cost, fold=fold)


def _period(permutation: tuple[int, ...]) -> int:
    """The length of the shortest block that repeats, each block being a permutation of its own positions."""
    size = len(permutation)
    for period in (number for number in range(1, size) if size % number == 0):
        shifted = all(permutation[k] == permutation[k - period] + period for k in range(period, size))
        if shifted and sorted(permutation[:period]) == list(range(period)):
            return period
    return size


def _why_no_identity(relation: Relation) -> str:
    elsewhere = first_where(relation.remote)
    layout = relation.destination
    if elsewhere is not None:
        lane, item = elsewhere
        slot = layout.slot_of(lane, item)
        element, peer = layout.element(*slot), relation.peers[lane, item]
        return f"lane {lane} register {slot.register} needs element {element} of lane {peer}"
    different = first_where(relation.items != relation.items[0])
    assert different is not None, "else it is the identity"
    lane, item = different
    register = layout.slot_of(lane, item).register
    return f"register {register} is filled from different registers in lanes 0 and {lane}"


def function_name(source: Layout, destination: Layout, strategy: str) -> str:
    """A C identifier that says what the function does."""
    return f"regweave_{_identifier(source.name)}_to_{_identifier(destination.name)}_{strategy}"


def _identifier(name: str) -> str:
    """The letters and digits of a layout's name, as many as the name of a file has room for."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}_{crc32(name.encode()):08x}"
