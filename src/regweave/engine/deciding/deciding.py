"""Which pieces run natively: what the cost model hopes for, judged in place, checked on the whole model.

    1. propose       every chain, product and run for which a gain is possible (all of them with `tune`)
    2. measure       onnxruntime's nodes against ours, in the profiles of both models, run by run in turns
    3. drop          what is not faster; then again, because what is dropped changes its neighbours' layouts
    4. verify        each piece against float64
    5. grow          pieces on images into regions, measured and verified in the same way
    6. race          the whole models, interleaved; as long as ours is slower, the least useful pieces go
    7. unite         native operators become as few as takes no longer (see uniting.py)

What a person asked for by name stays in through 3 and 6, but not through 4. A person who waits is not kept
for long: what is still in doubt after some seconds stays out, unless `tune` says that there is time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regweave.devices.onnxruntime import NativeSession
from regweave.engine.building.building import Build, joined
from regweave.engine.deciding.evidence import LEAST_WHOLE, Evidence
from regweave.engine.deciding.growing import grow
from regweave.engine.deciding.judgement import Judgement
from regweave.engine.deciding.predictions import Proposal
from regweave.engine.deciding.sieving import buildable, drop_slow, verified
from regweave.engine.deciding.uniting import unite
from regweave.engine.measuring.racing import Race
from regweave.engine.measuring.undisturbed import note_on

MOST_RACES = 3
"""As long as the shortest times and the median ratio disagree on which model is faster."""

LEAST_CREDIT = 0.003
"""Of the model's time that pieces must gain in place: what a whole model gains beyond all proportion to that
is luck."""


@dataclass(frozen=True, eq=False)
class Decision:
    """The judgements of all proposals, the model that came of them, and the race of the two models.

    `session` is the one that won: where its memory lies is part of how fast it is. `build` is None where that
    is onnxruntime's. `notes` say how reliable what was measured is.
    """

    judgements: tuple[Judgement, ...]
    build: Build | None
    session: NativeSession
    result: Race
    notes: tuple[str, ...] = ()


def decide(evidence: Evidence, proposals: Sequence[Proposal], spare: Sequence[Proposal] = ()) -> Decision:
    """Judge all proposals. `spare` are only tried as parts of regions."""
    wanted = [p for p in proposals if p.hopeful or p.piece.forced or evidence.patient]
    fates = {p.piece.name: Judgement(p, False, p.reason) for p in (*proposals, *spare)}
    spare = [*spare, *(p for p in proposals if p not in wanted)]
    able = buildable(evidence, wanted, fates)
    built = drop_slow(evidence, able, fates)
    built = verified(evidence, built, fates)
    built, regions, others = grow(evidence, built, able, spare, fates)
    winner, session, result = _race(evidence, built, fates)
    if winner is not None:
        evidence.say("racing it as few native operators")
        winner, session = unite(
            winner,
            session,
            lambda made, products: joined(made, evidence.natives, evidence.shop.path, products=products),
            lambda made: made.open(evidence.shop, evidence.threads),
            evidence.feeds,
            evidence.threads,
            seconds=10.0 if evidence.patient else 1.5,
        )
    inside = {member.nodes for p in regions if p.piece.region for member in p.piece.region.members}
    told = [p for p in proposals if p.piece.nodes not in inside]
    return Decision(
        tuple(fates[p.piece.name].told() for p in (*told, *regions, *others)),
        winner,
        session,
        result,
        note_on(evidence.recorded),
    )


def _race(
    evidence: Evidence, wanted: list[Proposal], fates: dict[str, Judgement]
) -> tuple[Build | None, NativeSession, Race]:
    """Race the whole models; drop the less useful half of the pieces as long as ours does not win."""
    result = None
    while wanted or result is None:
        built = evidence.build(wanted)
        evidence.say(f"racing the whole model with {len(wanted)} native pieces")
        session = built.open(evidence.shop, evidence.threads)
        decided = bool(wanted) and all(p.piece.forced for p in wanted)
        result = evidence.raced(session, 1 if decided else MOST_RACES)
        credit = sum(fates[p.piece.name].gain for p in wanted) / (result.medians["before"] * 1e3)
        enough = credit >= LEAST_CREDIT
        if decided or (enough and result.is_faster("before", "after", LEAST_WHOLE)):
            return built, session, result
        ranked = sorted((p for p in wanted if not p.piece.forced), key=lambda p: fates[p.piece.name].gain)
        reason = (
            "the whole model was no faster with it than without"
            if enough
            else f"all pieces together gain {credit:.2%} of the model's time: too little to change it for"
        )
        for proposal in ranked[: -(-len(ranked) // 2)] if enough else ranked:
            name = proposal.piece.name
            fates[name] = replace(fates[name], fused=False, reason=reason)
        wanted = [p for p in wanted if fates[p.piece.name].fused]
    before = result.times["before"]
    return None, evidence.baseline, Race({"before": before, "after": before})
