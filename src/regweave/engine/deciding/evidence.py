"""What decisions about a model rest on: models built with some pieces, measured, verified and raced.

    evidence.timings(proposals)     both models' profiles, run by run in turns: milliseconds of each piece
    evidence.checks(proposals)      errors of each piece against float64, on the tensors that reach it
    evidence.raced(session, 3)      the whole models, interleaved

A person who waits is not kept for long: after some seconds nothing is measured that may be done without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from regweave.devices.onnxruntime import NativeSession
from regweave.engine.building.building import BLOCKED, Build, build
from regweave.engine.building.optimiser import Workshop
from regweave.engine.deciding.predictions import Proposal
from regweave.engine.measuring.attribution import native_time, replaced_time
from regweave.engine.measuring.profiling import Recording, recordings
from regweave.engine.measuring.racing import Race, race, timer
from regweave.engine.measuring.undisturbed import Node, Soloist, settled
from regweave.engine.natives.natives import Natives
from regweave.engine.report import Timing
from regweave.engine.verifying.verification import Check, captured, check_piece
from regweave.graphs import Model, Spread, spread

Say = Callable[[str], None]

SECONDS = 6.0
"""After this long nothing is measured a second time, and races are short."""

LEAST_WHOLE = 1.01
"""What a whole model must gain to be changed: two sessions of one and the same differ by nearly as much."""


@dataclass(eq=False)
class Evidence:
    """Everything that decisions about one model need, and what is measured for them.

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

    def build(self, proposals: Sequence[Proposal]) -> Build:
        """The model with these pieces; only what a piece needs is spread, the rest stays as it was."""
        taken = {name for p in proposals for name in p.piece.nodes}
        parts = [part for part in self.parts if part.is_named(taken)]
        model = spread(self.original, parts)
        return build(model, [p.piece for p in proposals], self.natives, self.shop)

    def timings(self, wanted: Sequence[Proposal]) -> dict[str, Timing]:
        """Milliseconds of pieces and of what they replace, in place; those that both profiles tell of."""
        built = self.build(wanted)
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

    def checks(self, proposals: Sequence[Proposal]) -> list[Check]:
        """Errors of pieces, on the tensors that reach them."""
        if not proposals:
            return []
        self.say(f"verifying {len(proposals)} pieces against float64")
        built = self.build(proposals)
        pieces = [p.piece for p in proposals]
        tensors = captured(self.model, pieces, self.feeds, self.shop, self.threads)
        blocked, enlarged = built.blocked, built.enlarged
        return [
            check_piece(p, self.natives, tensors, blocked=p.name in blocked, enlarged=enlarged.get(p.name))
            for p in pieces
        ]

    def raced(self, session: NativeSession, most: int) -> Race:
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
