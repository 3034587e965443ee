"""The planner: relation, group, candidates, choice, proof.

    >>> rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A").strategy
    'fold'
    >>> rearrange("mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A", strategy="exchange").cost.exchanges
    4

Whatever is chosen, by cost or by name, is run on every slot before it is handed out: a wrong plan cannot
leave.
"""

from __future__ import annotations

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.layouts import Layout
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement.bounds import one_hop_minimum
from regweave.rearrangement.candidates import Candidate, fold_candidates, identity_candidate
from regweave.rearrangement.conditions import Conditions, check_conditions
from regweave.rearrangement.exchanges import exchange_candidates
from regweave.rearrangement.matrix import preliminary_matrix
from regweave.rearrangement.picking import pick_candidate
from regweave.rearrangement.plan import Plan
from regweave.rearrangement.problem import find_problem
from regweave.rearrangement.proof import prove_candidate
from regweave.rearrangement.relation import Relation, relate
from regweave.rearrangement.request import read_request
from regweave.rearrangement.shared import FORMS, shared_candidates
from regweave.rearrangement.stepwise import stepwise_candidates
from regweave.rearrangement.swap import FORMS as SWAP_FORMS
from regweave.rearrangement.swap import swap_candidates

_FUSED = ("transpose", "lane_swap")
# what a person may ask for -> the (strategy, form) pairs that answer it
STRATEGIES: dict[str, tuple[tuple[str, str | None], ...]] = {
    "identity": (("identity", None),),
    "fold": (("fold", None), ("fold", "left")),
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
    if strategy != "auto" and not (isinstance(strategy, str) and strategy in STRATEGIES):
        names = ("auto", *STRATEGIES)
        raise InputError(f"unknown strategy {strategy!r}", where="strategy", expected=", ".join(names),
                         nearest=nearest_names(strategy, names))  # fmt: skip
    surroundings = check_conditions(conditions)
    request = read_request(source, destination, machine, tile)
    relation = relate(request.source, request.destination)
    if relation.packing is not None and relation.packing not in request.machine.packings:
        raise UnsupportedError(
            f"{request.machine.name} cannot convert {request.source.dtype} to {request.destination.dtype}",
            where=f"{request.source.name} -> {request.destination.name}",
            fix="name another machine",
        )
    problem = find_problem(relation, request.machine.lanes)
    direct, lean = exchange_candidates(request, problem)
    most = lean.cost.instructions if lean.applies else None
    in_steps = () if isinstance(problem, str) else stepwise_candidates(request, problem.relation, most)
    candidates = (
        identity_candidate(request, relation),
        *fold_candidates(request, relation, surroundings),
        *swap_candidates(source, destination, request, surroundings, asked=strategy in SWAPS),
        direct,
        lean,
        *in_steps,
        pick_candidate(request, relation),
        *shared_candidates(request, relation.in_words),
        Candidate("refuse", None, "kept apart: the result goes through memory"),
    )
    chosen = _choose(candidates, strategy, relation, request.machine)
    carried_out = chosen.relation or relation
    prove_candidate(chosen, relation)
    shown = lean if chosen is lean or chosen in in_steps else direct
    return Plan(
        carried_out,
        request.machine,
        surroundings,
        None if isinstance(problem, str) else problem.group,
        None
        if isinstance(problem, str) or problem.words is None
        else preliminary_matrix(problem.words, problem.group),
        chosen,
        candidates,
        shown.matrix,
        strategy != "auto",
    )


def _choose(
    candidates: tuple[Candidate, ...], strategy: str, relation: Relation, machine: WarpMachine
) -> Candidate:
    """The cheapest of those that apply and were asked for, the simpler first; to refuse comes last.

    Who asks for an exchange gets one that meets the one-hop minimum of exchanges, if there is one; fused
    transposes and lane swaps do not count.
    """
    if strategy == "auto":
        asked = [candidate for candidate in candidates if candidate.strategy != "refuse"]
    else:
        asked = [
            candidate
            for candidate in candidates
            if (candidate.strategy, candidate.form) in STRATEGIES[strategy]
        ]
    applicable = [candidate for candidate in asked if candidate.applies]
    if applicable:
        most = one_hop_minimum(relation.in_words) if strategy == "exchange" else None
        few = [found for found in applicable if most is None or _hops(found) <= most]
        return min(few or applicable, key=lambda candidate: _price(candidate, machine))
    if strategy == "refuse":
        return asked[0]
    if strategy == "auto":
        return Candidate("refuse", None, f"no strategy applies: {asked[-1].reason}")
    raise UnsupportedError(f"strategy {strategy!r} does not apply: {asked[0].reason}", where="strategy",
                           fix="ask for another strategy, or for auto")  # fmt: skip


def _hops(candidate: Candidate) -> int:
    """Exchanges but for those that do more than move a word."""
    assert candidate.program is not None
    fused = sum(times for step, times in candidate.program.walk() if step.opcode in _FUSED)
    return candidate.cost.exchanges - fused


def _price(candidate: Candidate, machine: WarpMachine) -> tuple[int, bool, int]:
    """Instructions, then those without memory first, then issue slots."""
    cost = candidate.cost
    return cost.instructions, candidate.strategy == "shared", cost.slots(machine.costs)
