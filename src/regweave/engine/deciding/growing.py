"""Regions in the place of the pieces that they hold, where they gain more than those.

    chain | add | chain      0.8 ms and 0.5 ms gained, images converted and copied between
    region of all three      kept if it gains 1.3 ms and a margin: measurements of long pieces differ

What does not gain alone may do so in a region: it lost the way of its images to another layout and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regweave.devices.cpu import caches
from regweave.devices.onnxruntime import MOST_IMAGES
from regweave.engine.deciding.evidence import Evidence
from regweave.engine.deciding.judgement import Judgement
from regweave.engine.deciding.predictions import Proposal
from regweave.engine.deciding.sieving import buildable, verified
from regweave.graphs import find_regions

REGION_MARGIN = 0.05
"""Of a region's time that it must gain beyond what its parts gain: measurements of long pieces differ so."""


def grow(
    evidence: Evidence,
    wanted: list[Proposal],
    able: Sequence[Proposal],
    spare: Sequence[Proposal],
    fates: dict[str, Judgement],
) -> tuple[list[Proposal], list[Proposal], list[Proposal]]:
    """Regions in the place of what they hold, where they gain more than that; which these are, and the
    others.

    All of `able` are tried, if they are accurate.
    """
    accurate = [p for p in able if not fates[p.piece.name].failed]
    found = _regions(evidence, accurate, spare)
    fates |= {p.piece.name: Judgement(p, False, p.reason) for p in found}
    regions = buildable(evidence, list(found), fates)
    if not regions:
        return wanted, [], list(found)

    def without_parts(kept: Sequence[Proposal]) -> list[Proposal]:
        inside = {p.piece.name for region in kept for p in found[region]}
        return [*(p for p in wanted if p.piece.name not in inside), *kept]

    evidence.say(f"measuring {len(regions)} regions in place")
    timings, kept = evidence.timings(without_parts(regions)), []
    for region in regions:
        name = region.piece.name
        timing = timings.get(name)
        fates[name] = replace(fates[name], timing=timing)
        gain = fates[name].gain
        parts = sum(fates[p.piece.name].gain for p in found[region] if p in wanted)
        after = timing.fused_ms if timing else region.after * 1e3
        if gain - parts > REGION_MARGIN * after:
            kept.append(region)
        else:
            reason = f"no clear gain: {gain:.2g} ms, what it is made of gains {parts:.2g} ms"
            fates[name] = replace(fates[name], fused=False, reason=reason)
    kept = verified(evidence, kept, fates)
    return without_parts(kept), kept, [p for p in found if p not in kept]


def _regions(
    evidence: Evidence, wanted: Sequence[Proposal], spare: Sequence[Proposal]
) -> dict[Proposal, list[Proposal]]:
    """Regions of these proposals and spare ones, and which of both each holds."""
    known = {p.piece.nodes: p for p in (*wanted, *spare)}
    pieces, others = [p.piece for p in wanted], [p.piece for p in spare]
    found = {}
    for piece in find_regions(evidence.model, pieces, others, MOST_IMAGES, caches().l2):
        assert piece.region is not None, "what is found is a region"
        parts = [known[m.nodes] for m in piece.region.members if m.nodes in known]
        before, after = sum(p.before for p in parts), sum(p.after for p in parts)
        others_in = len(piece.region.members) - len(parts)
        reason = f"{len(parts)} pieces"
        reason += f" and {others_in} nodes between them" if others_in else ""
        reason += ", no image converted or copied"
        found[Proposal(piece, before, after, before, reason)] = parts
    return found
