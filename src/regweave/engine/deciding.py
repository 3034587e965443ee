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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx

from regweave.devices.cpu import caches
from regweave.devices.onnxruntime import MOST_IMAGES, NativeSession
from regweave.engine.attribution import native_time, replaced_time
from regweave.engine.building import BLOCKED, Build, build, joined
from regweave.engine.natives import Natives
from regweave.engine.optimiser import Workshop
from regweave.engine.profiling import Recording, recordings
from regweave.engine.proposals import Proposal
from regweave.engine.racing import Race, race, timer
from regweave.engine.report import Timing
from regweave.engine.undisturbed import Node, Soloist, note_on, settled
from regweave.engine.uniting import unite
from regweave.engine.verification import Check, captured, check_piece
from regweave.errors import UnsupportedError, VerificationError
from regweave.graphs import Model, Spread, find_regions, spread

Say = Callable[[str], None]

ROUNDS_OF_DROPPING = 2
FEW = 0.1
"""Of the pieces: if no more are dropped, the others' layouts hardly change and are not measured again."""
MOST_RACES = 3
"""As long as the shortest times and the median ratio disagree on which model is faster."""

SECONDS = 6.0
"""After this long nothing is measured a second time, and races are short."""

LEAST_WHOLE = 1.01
"""What a whole model must gain to be changed: two sessions of one and the same differ by nearly as much."""

LEAST_CREDIT = 0.003
"""Of the model's time that pieces must gain in place: what a whole model gains beyond all proportion to that
is luck."""

REGION_MARGIN = 0.05
"""Of a region's time that it must gain beyond what its parts gain: measurements of long pieces differ so."""

LEAST_SPEEDUP = 1.005
"""A piece measured below this in place is no gain."""

CLOSE_SPEEDUP = 0.97
"""But from here on it is measured a second time before it goes."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """A proposal with its fate: in or out, why, what was measured and how far off its results are."""

    proposal: Proposal
    fused: bool
    reason: str
    timing: Timing | None = None
    check: Check | None = None


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


@dataclass(eq=False)
class Court:
    """Everything that decisions about one model need.

    `model` is the one that pieces were found in: `original` with all `parts` that could be spread.
    """

    model: Model
    original: Model
    parts: Sequence[Spread]
    natives: Natives
    shop: Workshop
    feeds: Mapping[str, Any]
    optimised: onnx.ModelProto
    baseline: NativeSession
    say: Say
    patient: bool = False
    started: float = 0.0
    recorded: list[Recording] = field(default_factory=list)
    _known_alone: dict[Node, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.started = timer(self.threads)()

    @property
    def in_time(self) -> bool:
        """Whether there is time for a measurement that may be done without. The processor's time counts:
        where others work too, measurements are needed all the more."""
        return self.patient or timer(self.threads)() - self.started < SECONDS

    @property
    def threads(self) -> int:
        """Threads of both models."""
        return self.natives.threads

    def decide(self, proposals: Sequence[Proposal], spare: Sequence[Proposal] = ()) -> Decision:
        """Judge all proposals. `spare` are only tried as parts of regions."""
        wanted = [p for p in proposals if p.hopeful or p.piece.forced or self.patient]
        fates = {p.piece.name: Judgement(p, False, p.reason) for p in (*proposals, *spare)}
        spare = [*spare, *(p for p in proposals if p not in wanted)]
        able = self._buildable(wanted, fates)
        built = self._drop_slow(able, fates)
        built = self._verify(built, fates)
        built, regions, others = self._grow(built, able, spare, fates)
        winner, session, result = self._race(built, fates)
        if winner is not None:
            self.say("racing it as few native operators")
            winner, session = unite(
                winner,
                session,
                lambda made, products: joined(made, self.natives, self.shop.path, products=products),
                lambda made: made.open(self.shop, self.threads),
                self.feeds,
                self.threads,
                seconds=10.0 if self.patient else 1.5,
            )
        inside = {member.nodes for p in regions if p.piece.region for member in p.piece.region.members}
        told = [p for p in proposals if p.piece.nodes not in inside]
        return Decision(
            tuple(_told(fates[p.piece.name]) for p in (*told, *regions, *others)),
            winner,
            session,
            result,
            note_on(self.recorded),
        )

    def _build(self, proposals: Sequence[Proposal]) -> Build:
        """The model with these pieces; only what a piece needs is spread, the rest stays as it was."""
        taken = {name for p in proposals for name in p.piece.nodes}
        parts = [part for part in self.parts if taken.intersection(part.nodes)]
        model = spread(self.original, parts)
        return build(model, [p.piece for p in proposals], self.natives, self.shop)

    def _buildable(self, wanted: list[Proposal], fates: dict[str, Judgement]) -> list[Proposal]:
        """Those for which there is a kernel."""
        kept = []
        for number, proposal in enumerate(wanted):
            name = proposal.piece.name
            self.say(f"building {number + 1} of {len(wanted)}: {name}")
            try:
                self.natives.build(proposal.piece, name, blocked=self.natives.can_block(proposal.piece))
            except UnsupportedError as error:
                if proposal.piece.forced:
                    raise
                fates[name] = replace(fates[name], reason=str(error))
            else:
                kept.append(proposal)
                fates[name] = replace(fates[name], fused=True)
        return kept

    def _drop_slow(self, wanted: list[Proposal], fates: dict[str, Judgement]) -> list[Proposal]:
        """Measure in place and drop what is no gain; what is close to one is looked at twice."""
        close: set[str] = set()
        for number in range(ROUNDS_OF_DROPPING):
            if not wanted or (number and not close and not self.in_time):
                break
            self.say(f"measuring {len(wanted)} pieces in place" + (" again" if number else ""))
            for name, timing in self._timings(wanted).items():
                fates[name] = replace(fates[name], timing=timing)
            slow = {p.piece.name for p in wanted if not p.piece.forced and _is_slow(fates[p.piece.name])}
            close = {name for name in slow if number == 0 and _is_close(fates[name])}
            slow -= close
            for name in slow:
                fates[name] = replace(fates[name], fused=False, reason=_slow_reason(fates[name]))
            wanted = [p for p in wanted if p.piece.name not in slow]
            if not close and len(slow) <= FEW * len(wanted):
                break
        return wanted

    def _timings(self, wanted: Sequence[Proposal]) -> dict[str, Timing]:
        built = self._build(wanted)
        shop, threads = self.shop, self.threads
        found = recordings(
            {
                "before": lambda prefix: shop.open(self.optimised, threads=threads, profile=prefix),
                "after": lambda prefix: built.open(shop, threads, prefix),
            },
            self.feeds,
            threads=threads,
            runs=40 if self.patient else 12,
            seconds=20.0 if self.patient else 2.0,
        )
        alone = {
            "before": Soloist(
                self.optimised,
                found["before"].shapes,
                lambda proto: shop.open(proto, threads=threads),
                self._known_alone,
            ),
            "after": Soloist(
                built.proto,
                found["after"].shapes,
                lambda proto: shop.open(proto, built.operators, threads=threads),
                self._known_alone,
            ),
        }
        self.recorded += found.values()
        profile = settled(found, alone)
        pieces = [p.piece for p in wanted]
        before = replaced_time(self.model, self.optimised.graph, profile["before"], pieces)
        op_types = {**built.pieces, **{name + BLOCKED: piece for name, piece in built.pieces.items()}}
        after = native_time(built.proto.graph, profile["after"], op_types)
        return {
            name: Timing(before[name] * 1e3, after[name] * 1e3, before[name] / max(after[name], 1e-9))
            for name in before.keys() & after.keys()
        }

    def _verify(self, wanted: list[Proposal], fates: dict[str, Judgement]) -> list[Proposal]:
        """Drop what is not as accurate as it must be; VerificationError where that was asked for by name."""
        kept = []
        for proposal, check in zip(wanted, self._checks(wanted), strict=True):
            name, words = proposal.piece.name, _errors(check)
            if not check.passed and proposal.piece.forced:
                raise VerificationError(words, where=name, expected="at most twice onnxruntime's")
            fates[name] = replace(fates[name], check=check, fused=check.passed)
            if check.passed:
                kept.append(proposal)
            else:
                fates[name] = replace(fates[name], reason=words)
        return kept

    def _checks(self, proposals: Sequence[Proposal]) -> list[Check]:
        """Errors of pieces, on the tensors that reach them."""
        if not proposals:
            return []
        self.say(f"verifying {len(proposals)} pieces against float64")
        built = self._build(proposals)
        pieces = [p.piece for p in proposals]
        tensors = captured(self.model, pieces, self.feeds, self.shop, self.threads)
        blocked, enlarged = built.blocked, built.enlarged
        return [
            check_piece(p, self.natives, tensors, blocked=p.name in blocked, enlarged=enlarged.get(p.name))
            for p in pieces
        ]

    def _grow(
        self,
        wanted: list[Proposal],
        able: Sequence[Proposal],
        spare: Sequence[Proposal],
        fates: dict[str, Judgement],
    ) -> tuple[list[Proposal], list[Proposal], list[Proposal]]:
        """Regions in the place of what they hold, where they gain more than that; which these are, and the
        others.

        What does not gain alone may do so here: it lost the way of its images to another layout and back. So
        all of `able` are tried, if they are accurate.
        """
        accurate = [p for p in able if not _failed(fates[p.piece.name])]
        found = self._regions(accurate, spare)
        fates |= {p.piece.name: Judgement(p, False, p.reason) for p in found}
        regions = self._buildable(list(found), fates)
        if not regions:
            return wanted, [], list(found)

        def without_parts(kept: Sequence[Proposal]) -> list[Proposal]:
            inside = {p.piece.name for region in kept for p in found[region]}
            return [*(p for p in wanted if p.piece.name not in inside), *kept]

        self.say(f"measuring {len(regions)} regions in place")
        timings, kept = self._timings(without_parts(regions)), []
        for region in regions:
            name = region.piece.name
            timing = timings.get(name)
            fates[name] = replace(fates[name], timing=timing)
            gain = _gain(fates[name])
            parts = sum(_gain(fates[p.piece.name]) for p in found[region] if p in wanted)
            after = timing.fused_ms if timing else region.after * 1e3
            if gain - parts > REGION_MARGIN * after:
                kept.append(region)
            else:
                reason = f"no clear gain: {gain:.2g} ms, what it is made of gains {parts:.2g} ms"
                fates[name] = replace(fates[name], fused=False, reason=reason)
        kept = self._verify(kept, fates)
        return without_parts(kept), kept, [p for p in found if p not in kept]

    def _regions(
        self, wanted: Sequence[Proposal], spare: Sequence[Proposal]
    ) -> dict[Proposal, list[Proposal]]:
        """Regions of these proposals and spare ones, and which of both each holds."""
        known = {p.piece.nodes: p for p in (*wanted, *spare)}
        pieces, others = [p.piece for p in wanted], [p.piece for p in spare]
        found = {}
        for piece in find_regions(self.model, pieces, others, MOST_IMAGES, caches().l2):
            assert piece.region is not None, "what is found is a region"
            parts = [known[m.nodes] for m in piece.region.members if m.nodes in known]
            before, after = sum(p.before for p in parts), sum(p.after for p in parts)
            others_in = len(piece.region.members) - len(parts)
            reason = f"{len(parts)} pieces"
            reason += f" and {others_in} nodes between them" if others_in else ""
            reason += ", no image converted or copied"
            found[Proposal(piece, before, after, before, reason)] = parts
        return found

    def _race(
        self, wanted: list[Proposal], fates: dict[str, Judgement]
    ) -> tuple[Build | None, NativeSession, Race]:
        """Race the whole models; drop the less useful half of the pieces as long as ours does not win."""
        result = None
        while wanted or result is None:
            built = self._build(wanted)
            self.say(f"racing the whole model with {len(wanted)} native pieces")
            session = built.open(self.shop, self.threads)
            decided = bool(wanted) and all(p.piece.forced for p in wanted)
            result = self._raced(session, 1 if decided else MOST_RACES)
            credit = sum(_gain(fates[p.piece.name]) for p in wanted) / (result.medians["before"] * 1e3)
            enough = credit >= LEAST_CREDIT
            if decided or (enough and result.is_faster("before", "after", LEAST_WHOLE)):
                return built, session, result
            ranked = sorted(
                (p for p in wanted if not p.piece.forced), key=lambda p: _gain(fates[p.piece.name])
            )
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
        return None, self.baseline, Race({"before": before, "after": before})

    def _raced(self, session: NativeSession, most: int) -> Race:
        """onnxruntime's model ("before") against ours, until it is clear which is faster."""

        def once() -> Race:
            return race(
                {
                    "before": lambda: self.baseline.run(None, self.feeds),
                    "after": lambda: session.run(None, self.feeds),
                },
                threads=self.threads,
                seconds=10.0 if self.patient else 2.5 if self.in_time else 1.0,
                enough=lambda race: race.is_clear("before", "after", LEAST_WHOLE),
            )

        result = once()
        for _ in range(most - 1):
            if not self.in_time or result.is_faster("before", "after", LEAST_WHOLE) is not None:
                break
            result = result.joined(once())
        return result


def _told(fate: Judgement) -> Judgement:
    """With the measurement in the reason, for what is fused."""
    if not fate.fused or fate.timing is None:
        return fate
    return replace(fate, reason=f"{fate.reason}, measured {fate.timing.speedup:.2f}x in place")


def _is_slow(fate: Judgement) -> bool:
    if fate.timing is None:
        return not fate.proposal.after < fate.proposal.before
    return fate.timing.speedup < LEAST_SPEEDUP


def _is_close(fate: Judgement) -> bool:
    return fate.timing is not None and fate.timing.speedup >= CLOSE_SPEEDUP


def _slow_reason(fate: Judgement) -> str:
    if fate.timing is None:
        return fate.reason
    return (
        f"no gain in place: {fate.timing.fused_ms:.3g} ms natively, {fate.timing.baseline_ms:.3g} ms in "
        "onnxruntime"
    )


def _errors(check: Check) -> str:
    return (
        f"its error against float64 is {check.ours.max_abs_error:.2g}, onnxruntime's "
        f"{check.theirs.max_abs_error:.2g}"
    )


def _failed(fate: Judgement) -> bool:
    return fate.check is not None and not fate.check.passed


def _gain(fate: Judgement) -> float:
    if fate.timing is None:
        return (fate.proposal.before - fate.proposal.after) * 1e3
    return fate.timing.baseline_ms - fate.timing.fused_ms
