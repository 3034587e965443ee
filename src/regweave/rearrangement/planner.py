"""The planner: relation, group, candidates, choice, proof.

    >>> rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A").strategy
    'fold'
    >>> rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="exchange").cost.exchanges
    4

Whatever is chosen, by cost or by name, is run on every slot before it is handed out: a wrong plan cannot
leave.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import partial

from regweave.errors import UnsupportedError, unknown_name
from regweave.layouts import Layout
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.bounds import one_hop_minimum
from regweave.rearrangement.candidates import Candidate
from regweave.rearrangement.conditions import Conditions, check_conditions
from regweave.rearrangement.cost import Cost
from regweave.rearrangement.folding import FORMS as FOLDS
from regweave.rearrangement.kept_memory import keep_freed_memory
from regweave.rearrangement.offers import Offers
from regweave.rearrangement.operand_loads import OtherOperand
from regweave.rearrangement.plan import Plan
from regweave.rearrangement.proof import prove_candidate
from regweave.rearrangement.relation import Relation, relate
from regweave.rearrangement.request import read_request
from regweave.rearrangement.shared.forms import FORMS
from regweave.rearrangement.swap import FORMS as SWAP_FORMS
from regweave.rearrangement.swap import swap_candidates
from regweave.rearrangement.uncollected import uncollected

_FUSED = ("transpose", "lane_swap")
# what a person may ask for -> the (strategy, form) pairs that answer it
STRATEGIES: dict[str, tuple[tuple[str, str | None], ...]] = {
    "identity": (("identity", None),),
    "fold": tuple(("fold", form) for form in FOLDS),
    "swap": tuple(("swap", form) for form in SWAP_FORMS),
    **{form: (("swap", form),) for form in SWAP_FORMS},
    "exchange": (("exchange", "direct"), ("exchange", "lean"), ("exchange", "steps"), ("exchange", "picks")),
    "direct": (("exchange", "direct"),),
    "lean": (("exchange", "lean"), ("exchange", "steps")),
    "steps": (("exchange", "steps"),),
    "picks": (("exchange", "picks"),),
    "shared": tuple(("shared", form) for form in FORMS),
    **{form: (("shared", form),) for form in FORMS},
    "refuse": (("refuse", None),),
}

SWAPS = ("swap", *SWAP_FORMS)
# instructions, whether through memory, issue slots
_Price = tuple[int, bool, int]
_NOTHING: _Price = (0, False, 0)
# instructions up to which the first bounds are looked for
_FEW = 32
# instructions of a program that takes longer to write than the bounds of others to find
_LONG = 512
# elements of tiles whose tables are worth keeping memory for
_LARGE = 1 << 17
# instructions beyond which no bound is asked for more than it says
_MOST = 1 << 16


@uncollected()
def rearrange(
    source: str | Layout,
    destination: str | Layout,
    machine: str | WarpMachine | None = None,
    strategy: str = "auto",
    *,
    tile: tuple[int, int] | str | None = None,
    conditions: Conditions | None = None,
) -> Plan:
    """Plan how the elements of a tile get from one layout to another inside a warp.

    `source` and `destination` are layouts or names of fragments (`mma.m16n8k8.tf32:C`); named fragments
    are repeated to `tile`, by default to the smallest tile that both fill. Without `machine`, the first
    that has both layouts natively is taken. `strategy` is `auto` for the cheapest, or a name out of
    STRATEGIES. The plan is proved on every slot.

    Raises InputError for unknown names and layouts that do not belong together, UnsupportedError if the
    machine lacks an instruction or the strategy asked for does not apply.
    """
    names = ("auto", *STRATEGIES)
    if not isinstance(strategy, str) or strategy not in names:
        raise unknown_name("strategy", strategy, names, where="strategy")
    surroundings = check_conditions(conditions)
    request = read_request(source, destination, machine, tile)
    if surroundings.work_between:
        request = replace(request, source_registers=1)  # what is written anew is written where it is wanted
    if request.source.elements >= _LARGE:
        keep_freed_memory()
    relation = relate(request.source, request.destination)
    if relation.packing is not None and relation.packing not in request.machine.packings:
        raise UnsupportedError(
            f"{request.machine.name} cannot convert {request.source.dtype} to {request.destination.dtype}",
            where=f"{request.source.name} -> {request.destination.name}",
            fix="name another machine",
        )
    coming = surroundings.next_operand
    other = None if coming is None else OtherOperand(coming, destination, request)
    swaps = partial(swap_candidates, source, destination, request, surroundings, asked=strategy in SWAPS)
    offers = Offers(request, relation, surroundings, swaps, other=other, all_steps=strategy == "steps")
    chosen = _choose(offers, strategy, relation, request.machine)
    prove_candidate(chosen, relation)
    asked = None if strategy == "auto" else strategy
    return Plan(chosen.relation or relation, request.machine, surroundings, chosen, offers, asked)


def _choose(offers: Offers, strategy: str, relation: Relation, machine: WarpMachine) -> Candidate:
    """The cheapest of those that apply and were asked for, the simpler first; to refuse comes last.

    Who asks for an exchange gets one that meets the one-hop minimum of exchanges, if there is one; fused
    transposes and lane swaps do not count.
    """
    if strategy == "auto":
        return _cheapest(offers, machine)
    wanted = STRATEGIES[strategy]
    asked = [
        candidate
        for offer in offers.all
        if any((offer.strategy, form) in wanted for form in offer.forms)
        for candidate in offer.shown
        if (candidate.strategy, candidate.form) in wanted
    ]
    if strategy == "refuse":
        return asked[0]
    applicable = [candidate for candidate in asked if candidate.applies]
    if applicable:
        most = one_hop_minimum(relation.in_words) if strategy == "exchange" else None
        few = [found for found in applicable if most is None or _hops(found) <= most]
        return min(few or applicable, key=lambda found: _price(found.strategy, found.cost, machine))
    reason = asked[0].reason if asked else "no sequence of moves of whole warps does it"
    raise UnsupportedError(f"strategy {strategy!r} does not apply: {reason}", where="strategy",
                           fix="ask for another strategy, or for auto")  # fmt: skip


def _cheapest(offers: Offers, machine: WarpMachine) -> Candidate:
    """The cheapest that applies; what cannot be it is not written.

    Of all offers that with the lowest known bound is looked at more closely, and written at last. An exchange
    that exchanges nothing renames registers as the identity does, and gives way to it: only there are the
    copies counted that aligned operand tuples force.
    """
    best: tuple[_Price, int, Candidate] | None = None
    same = any(
        found.applies for offer in offers.all if offer.strategy == "identity" for found in offer.candidates
    )
    # when an offer's turn comes, what none of its candidates undercuts, its place, how many bounds are known
    waiting = [
        (_NOTHING, _NOTHING, place, 0) for place, offer in enumerate(offers.all) if offer.strategy != "refuse"
    ]
    while waiting:
        turn, least, place, known = heapq.heappop(waiting)
        if best is not None and (least, place) > best[:2]:
            continue
        offer = offers.all[place]
        if known < len(offer.bounds):
            most = best[0][0] if best is not None else max(_FEW, 2 * least[0])
            found = max(least, _price(offer.strategy, offer.bounds[known](most), machine))
            turn = turn if known and offer.to_the_end and found[0] < _LONG else found
            settled = found[0] <= most or most > _MOST
            heapq.heappush(waiting, (turn, found, place, known + settled))
            continue
        for candidate in offer.candidates:
            if same and candidate.strategy == "exchange" and not candidate.cost.exchanges:
                continue
            price = _price(candidate.strategy, candidate.cost, machine)
            if candidate.applies and (best is None or (price, place) < best[:2]):
                best = price, place, candidate
    if best is None:
        # the whole warp through shared memory could do the most
        last = next(candidate for candidate in offers.candidates if candidate.strategy == "shared")
        return Candidate("refuse", None, f"no strategy applies: {last.reason}")
    return best[2]


def _hops(candidate: Candidate) -> int:
    """Exchanges but for those that do more than move a word."""
    assert candidate.program is not None
    fused = sum(times for step, times in candidate.program.walk() if step.opcode in _FUSED)
    return candidate.cost.exchanges - fused


def _price(strategy: str, cost: Cost, machine: WarpMachine) -> _Price:
    """Instructions, then those without memory first, then issue slots."""
    return cost.instructions, strategy == "shared", cost.slots(machine.costs)
