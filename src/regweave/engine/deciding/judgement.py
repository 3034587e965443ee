"""What became of a proposal: in or out, why, what was measured and how far off its results are.

    Judgement(proposal, True, "predicted 1.3x").told().reason     'predicted 1.3x, measured 1.21x in place'

Where nothing could be measured in place, what the cost model hopes for counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from regweave.engine.deciding.predictions import Proposal
from regweave.engine.report import Timing
from regweave.engine.verifying.verification import Check

LEAST_SPEEDUP = 1.005
"""A piece measured below this in place is no gain."""

CLOSE_SPEEDUP = 0.97
"""But from here on it is measured a second time before it goes."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """A proposal with its fate; see the module's head."""

    proposal: Proposal
    fused: bool
    reason: str
    timing: Timing | None = None
    check: Check | None = None

    @property
    def gain(self) -> float:
        """Milliseconds that it spares."""
        if self.timing is None:
            return (self.proposal.before - self.proposal.after) * 1e3
        return self.timing.baseline_ms - self.timing.fused_ms

    @property
    def is_slow(self) -> bool:
        """Whether it is no gain."""
        if self.timing is None:
            return not self.proposal.after < self.proposal.before
        return self.timing.speedup < LEAST_SPEEDUP

    @property
    def is_close(self) -> bool:
        """Whether it was measured to be a gain, or nearly so."""
        return self.timing is not None and self.timing.speedup >= CLOSE_SPEEDUP

    @property
    def failed(self) -> bool:
        """Whether it was found to be inaccurate."""
        return self.check is not None and not self.check.passed

    def slow(self) -> Judgement:
        """The same, out because it is slow."""
        reason = self.reason
        if self.timing is not None:
            reason = f"no gain in place: {self.timing.fused_ms:.3g} ms natively, "
            reason += f"{self.timing.baseline_ms:.3g} ms in onnxruntime"
        return replace(self, fused=False, reason=reason)

    def checked(self, check: Check) -> Judgement:
        """The same after that check: out if it did not pass."""
        if check.passed:
            return replace(self, check=check, fused=True)
        return replace(self, check=check, fused=False, reason=errors_of(check))

    def told(self) -> Judgement:
        """With the measurement in the reason, for what is fused."""
        if not self.fused or self.timing is None:
            return self
        return replace(self, reason=f"{self.reason}, measured {self.timing.speedup:.2f}x in place")


def errors_of(check: Check) -> str:
    """What a check found, for people."""
    ours, theirs = check.ours.max_abs_error, check.theirs.max_abs_error
    return f"its error against float64 is {ours:.2g}, onnxruntime's {theirs:.2g}"
