"""What is left of proposals: those with a kernel, those that are a gain in place, those that are accurate.

Each step takes proposals and returns those that stay; why the others go is left in `fates`, by the names of
their pieces. What a person asked for by name stays, or raises.
"""

from __future__ import annotations

from dataclasses import replace

from regweave.engine.deciding.evidence import Evidence
from regweave.engine.deciding.judgement import Judgement, errors_of
from regweave.engine.deciding.predictions import Proposal
from regweave.errors import UnsupportedError, VerificationError

ROUNDS_OF_DROPPING = 2
FEW = 0.1
"""Of the pieces: if no more are dropped, the others' layouts hardly change and are not measured again."""


def buildable(evidence: Evidence, wanted: list[Proposal], fates: dict[str, Judgement]) -> list[Proposal]:
    """Those for which there is a kernel."""
    kept = []
    for number, proposal in enumerate(wanted):
        name = proposal.piece.name
        evidence.say(f"building {number + 1} of {len(wanted)}: {name}")
        try:
            evidence.natives.build(proposal.piece, name, blocked=evidence.natives.can_block(proposal.piece))
        except UnsupportedError as error:
            if proposal.piece.forced:
                raise
            fates[name] = replace(fates[name], reason=str(error))
        else:
            kept.append(proposal)
            fates[name] = replace(fates[name], fused=True)
    return kept


def drop_slow(evidence: Evidence, wanted: list[Proposal], fates: dict[str, Judgement]) -> list[Proposal]:
    """Measure in place and drop what is no gain; what is close to one is looked at twice."""
    close: set[str] = set()
    for number in range(ROUNDS_OF_DROPPING):
        if not wanted or (number and not close and not evidence.in_time):
            break
        evidence.say(f"measuring {len(wanted)} pieces in place" + (" again" if number else ""))
        for name, timing in evidence.timings(wanted).items():
            fates[name] = replace(fates[name], timing=timing)
        slow = {p.piece.name for p in wanted if not p.piece.forced and fates[p.piece.name].is_slow}
        close = {name for name in slow if number == 0 and fates[name].is_close}
        slow -= close
        for name in slow:
            fates[name] = fates[name].slow()
        wanted = [p for p in wanted if p.piece.name not in slow]
        if not close and len(slow) <= FEW * len(wanted):
            break
    return wanted


def verified(evidence: Evidence, wanted: list[Proposal], fates: dict[str, Judgement]) -> list[Proposal]:
    """Drop what is not as accurate as it must be; VerificationError where that was asked for by name."""
    kept = []
    for proposal, check in zip(wanted, evidence.checks(wanted), strict=True):
        name = proposal.piece.name
        if not check.passed and proposal.piece.forced:
            raise VerificationError(errors_of(check), where=name, expected="at most twice onnxruntime's")
        fates[name] = fates[name].checked(check)
        if check.passed:
            kept.append(proposal)
    return kept
