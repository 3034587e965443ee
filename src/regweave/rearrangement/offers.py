"""What could carry a request out, each written as a program only when somebody needs it.

A program of many registers takes longer to write than to rule out: a tf32 seam of 16 x 32 elements takes 16
exchanges and 16 selects at least, and 27 instructions through shared memory. So every offer has bounds, costs
that none of its candidates can undercut, and who looks for the cheapest writes those that can still win:

    >>> [(offer.strategy, [bound(100).instructions for bound in offer.bounds]) for offer in offers.all]
    [('identity', []), ('fold', [0]), ..., ('exchange', [32, 32, 16, 48, 0]), ..., ('shared', [10, 27]), ...]

What every way must do at least: convert every element once; bring a lane what it lacks, a word at a time;
choose, for each register that lanes fill from different ones, which it is, and put together what comes from
several registers; and in shared memory store and load everything, 16 bytes at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from regweave.rearrangement.bounds import least_merges, one_hop_minimum
from regweave.rearrangement.candidates import Candidate, identity_candidate
from regweave.rearrangement.conditions import Conditions
from regweave.rearrangement.cost import Cost
from regweave.rearrangement.exchange.forms import Way, find_ways
from regweave.rearrangement.folding import FORMS as FOLDS
from regweave.rearrangement.folding import fold_candidates
from regweave.rearrangement.operand_loads import OtherOperand
from regweave.rearrangement.picks.picking import pick_candidate
from regweave.rearrangement.problem import Problem, find_problem, within_one_warp
from regweave.rearrangement.relation import Relation
from regweave.rearrangement.request import Request
from regweave.rearrangement.shared.forms import FORMS, SharedWay
from regweave.rearrangement.spreading import bits_together, spreading_steps
from regweave.rearrangement.steps.stepwise import StepSearch, StepWay, distinct, step_searches
from regweave.rearrangement.swap import FORMS as SWAPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ACCESS_BITS, _WORD_BITS = 128, 32
_LANE_SWAPS = {"permlane16_swap", "permlane32_swap"}
# instructions of what does not apply
_ENDLESS = 1 << 40
# barriers of shared memory's forms, at least
_BARRIERS: dict[str, int] = dict(zip(FORMS, (1, 3, 0), strict=True))


@dataclass(frozen=True, eq=False)
class Offer:
    """Candidates of one strategy, of one form or of several written together.

    Each of `bounds` computes what none of them undercuts, with more work than the one before, as far as that
    is at most so many instructions: one that says more may have more to say. Who has begun goes `to_the_end`
    where the first bound says little, and the others are best compared with what comes of it.
    `listed` gives those that a person is shown, where these are not all.
    """

    strategy: str
    forms: tuple[str | None, ...]
    write: Callable[[], tuple[Candidate, ...]]
    bounds: tuple[Callable[[int], Cost], ...] = ()
    listed: Callable[[], tuple[Candidate, ...]] | None = None
    to_the_end: bool = False

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates, each with its program."""
        return self.write()

    @property
    def shown(self) -> tuple[Candidate, ...]:
        """Those of the candidates that are listed."""
        return self.candidates if self.listed is None else self.listed()


class Offers:
    """All offers for one request, the simplest first; `swaps` writes those of the strategy swap.

    `other` is the next product's other operand, where it is loaded at run time. Exchanges in steps that take
    more than one in rounds are left out, unless `all_steps` are wanted.
    """

    def __init__(
        self,
        request: Request,
        relation: Relation,
        conditions: Conditions,
        swaps: Callable[[], tuple[Candidate, ...]],
        *,
        other: OtherOperand | None = None,
        all_steps: bool = False,
    ) -> None:
        self._request, self._relation, self.other = request, relation, other
        self._conditions, self._swaps, self._all_steps = conditions, swaps, all_steps

    @cached_property
    def all(self) -> tuple[Offer, ...]:
        """The offers, in the order in which candidates are listed."""
        request, relation = self._request, self._relation
        refuse = Candidate("refuse", None, "kept apart: the result goes through memory")
        return (
            Offer("identity", (None,), lambda: (identity_candidate(request, relation),)),
            Offer(
                "fold",
                FOLDS,
                lambda: fold_candidates(request, relation, self._conditions, self.other),
                # the other operand's load may become cheaper
                () if self.other is not None else (lambda most: Cost(converts=_converts(relation)),),
            ),
            Offer("swap", SWAPS, self._swaps),
            self._in_rounds("direct", 0),
            self._in_rounds("lean", 1),
            self._in_steps(0, self._listed_steps),
            self._in_steps(1, tuple),
            Offer("exchange", ("picks",), lambda: (pick_candidate(request, relation),)),
            *(self._shared(form) for form in FORMS),
            Offer("refuse", (None,), lambda: (refuse,)),
        )

    @cached_property
    def problem(self) -> Problem | str:
        """What an exchange has to do, or why none can."""
        return find_problem(self._relation, self._request.machine.lanes)

    @cached_property
    def _inside(self) -> Relation | str:
        """The relation of one warp's words, which all warps repeat; or why there is none."""
        return within_one_warp(self._relation.in_words, self._request.machine.lanes)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All of them, written."""
        return tuple(candidate for offer in self.all for candidate in offer.shown)

    def shown(self, chosen: Candidate) -> Candidate:
        """The exchange in rounds that is shown beside the chosen candidate."""
        lean = (chosen.strategy, chosen.form) in (("exchange", "lean"), ("exchange", "steps"))
        return self._rounds[1 if lean else 0].candidate

    @cached_property
    def _rounds(self) -> tuple[Way, Way]:
        return find_ways(self._request, self.problem)

    def _in_rounds(self, form: str, number: int) -> Offer:
        def converted(cost: Cost) -> Cost:
            return replace(cost, converts=_converts(self._relation))

        hops = cache(lambda: self._least_hops(direct=form == "direct"))
        return Offer(
            "exchange",
            (form,),
            lambda: (self._rounds[number].candidate,),
            (
                lambda most: hops(),
                lambda most: self._with_merges(hops(), any_packing=False),
                lambda most: converted(self._rounds[number].least()),
                lambda most: converted(self._rounds[number].nearer()),
                lambda most: self._rounds[number].last(),
            ),
        )

    @cached_property
    def _searches(self) -> tuple[StepSearch, ...]:
        inside = self._inside
        return () if isinstance(inside, str) else step_searches(self._request, inside)

    @cached_property
    def _steps(self) -> tuple[StepWay, ...]:
        ways = (search.cheapest for search in self._searches)
        return tuple(way for way in ways if way is not None)

    def _written_steps(self, number: int) -> tuple[Candidate, ...]:
        way = self._searches[number].cheapest if number < len(self._searches) else None
        return () if way is None else way.candidates

    def _in_steps(self, number: int, listed: Callable[[], tuple[Candidate, ...]]) -> Offer:
        def merged() -> Cost:
            least = self._least_steps
            # a swap of lanes puts words together too
            if number == 0 and not _LANE_SWAPS.isdisjoint(self._request.machine.exchanges):
                return least
            return self._with_merges(least, any_packing=True)

        return Offer(
            "exchange",
            ("steps",),
            lambda: self._written_steps(number),
            (
                lambda most: self._least_steps,
                lambda most: merged(),
                lambda most: self._least_way(number, most),
            ),
            listed,
        )

    def _least_way(self, number: int, most: int) -> Cost:
        """Of one of the ways in steps."""
        if number >= len(self._searches):
            return Cost(logic=_ENDLESS)
        way = self._searches[number].way(most)
        return Cost(logic=most + 1 if way is None else way.instructions)

    def _listed_steps(self) -> tuple[Candidate, ...]:
        lean = None if self._all_steps or not self._steps else self._rounds[1].candidate
        limited = lean is not None and lean.applies
        most = lean.cost.instructions if lean is not None else 0
        ways = [way for way in self._steps if not limited or way.instructions <= most]
        return distinct([candidate for way in ways for candidate in way.candidates])

    def _shared(self, form: str) -> Offer:
        way = SharedWay(self._request, self._relation.in_words, form)

        def passage(most: int) -> Cost:
            least = way.least()
            converts = _converts(self._relation)
            return Cost(logic=_ENDLESS) if least is None else replace(least, converts=converts)

        return Offer(
            "shared",
            (form,),
            lambda: (way.candidate(),),
            (
                lambda most: replace(self._least_accesses, barriers=_BARRIERS[form], logic=1 + way.spreading),
                passage,
            ),
            to_the_end=True,
        )

    @cached_property
    def _least_accesses(self) -> Cost:
        """Of a passage through shared memory, without barriers."""
        relation = self._relation.in_words
        source, destination = relation.source, relation.destination
        bits = destination.element_type.bits
        stores = -(-source.elements * bits // (_ACCESS_BITS * relation.lanes))
        needed = destination.items if destination.bijective else _most_different(destination.table)
        loads = -(-needed * bits // _ACCESS_BITS)
        return Cost(logic=1, shared_stores=stores, shared_loads=loads, converts=_converts(relation),
                    shared_words=stores + loads)  # fmt: skip

    def _least_hops(self, *, direct: bool) -> Cost:
        """Of an exchange in rounds."""
        inside = self._inside
        if isinstance(inside, str) or self._relation.in_words.replicated is not None:
            return self._least_steps
        hops, spread = one_hop_minimum(inside, local=direct), spreading_steps(inside, bits_together(inside))
        return replace(self._least_steps, exchanges=hops, selects=_choices(inside), logic=spread)

    def _with_merges(self, cost: Cost, *, any_packing: bool) -> Cost:
        """The same, with all that puts words together."""
        inside = self._inside
        if isinstance(inside, str):
            return cost
        return replace(cost, selects=max(cost.selects, least_merges(inside, any_packing=any_packing)))

    @cached_property
    def _least_steps(self) -> Cost:
        """Of any exchange; fused instructions choose too."""
        relation = self._inside
        if isinstance(relation, str):
            return Cost(logic=_ENDLESS)
        bits = min(layout.element_type.bits for layout in (relation.source, relation.destination))
        remote = relation.remote
        if relation.destination.bijective:
            lacking = int(remote.sum(axis=1).max())
        else:
            table = relation.destination.table[: relation.lanes]
            lacking = _most_different(np.where(remote, table, -1)) - 1
        return Cost(exchanges=max(-(-lacking * bits // _WORD_BITS), 0), converts=_converts(self._relation))


def _converts(relation: Relation) -> int:
    """Conversions of two elements each, at least."""
    return 0 if relation.packing is None else -(-relation.source.elements // (2 * relation.lanes))


def _most_different(table: NDArray[np.int64]) -> int:
    """The most different numbers in a row."""
    ordered = np.sort(table, axis=1)
    return int((ordered[:, 1:] != ordered[:, :-1]).sum(axis=1).max()) + 1


def _choices(relation: Relation) -> int:
    """Selects or byte permutes of a bijection, at least.

    A register that lanes fill from different places of registers is chosen in the end, and what is chosen
    for one, a word in every lane, is nothing of another's.
    """
    size = relation.destination.element_type.per_register
    differ = (relation.items != relation.items[0]).any(axis=0)
    return int(np.logical_or.reduceat(differ, np.arange(0, len(differ), size)).sum())
