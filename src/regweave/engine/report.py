"""What was decided for a model, measured and verified, as values that turn into JSON.

    report.to_dict() == {"model", "threads", "cascades": [{"nodes", "shape", ...}], "whole": {...}, ...}

docs/report.md describes every field. What was not measured is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Timing:
    """Milliseconds in onnxruntime and natively, and the ratio of the two (where raced, of the round whose
    ratio is the median)."""

    baseline_ms: float
    fused_ms: float
    speedup: float


@dataclass(frozen=True)
class Accuracy:
    """The largest errors. Relative ones are of an element, but of at least a thousandth of the largest."""

    max_abs_error: float
    max_rel_error: float


@dataclass(frozen=True)
class Shape:
    """Rows (or pixels of all images) for the sizes given, None where unknown; and K, N0, N1, ..."""

    m: int | None
    widths: tuple[int, ...]


@dataclass(frozen=True)
class SeamReport:
    """What a seam would be on the GPU that was asked about."""

    strategy: str
    reason: str


@dataclass(frozen=True)
class PieceReport:
    """One candidate. `activations[s]` is the element-wise work behind product s.

    `onnxruntime_error` is onnxruntime's own error against the same float64 reference.
    """

    kind: Literal["chain", "single", "convolution", "elementwise", "region"]
    nodes: tuple[str, ...]
    shape: Shape
    activations: tuple[tuple[str, ...], ...]
    decision: Literal["fused", "refused"]
    reason: str
    predicted: dict[str, int] | None = None
    measured: Timing | None = None
    accuracy: Accuracy | None = None
    onnxruntime_error: float | None = None
    seams: tuple[SeamReport, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document's entry."""
        values = asdict(self)
        accuracy = values.pop("accuracy") or {"max_abs_error": None, "max_rel_error": None}
        timing = values["measured"] or {"baseline_ms": None, "fused_ms": None, "speedup": None}
        predicted = self.predicted or {"bytes_unfused": None, "bytes_fused": None}
        return {**values, "predicted": predicted, "measured": timing, **accuracy}


@dataclass(frozen=True)
class NativeShare:
    """How much of a model runs natively: nodes of how many, in how many pieces and regions among them, these
    in how many operators, and the share of the model's time, as measured in place. `left` are the nodes that
    onnxruntime still runs after its optimiser, counted by op type."""

    nodes: int
    of_nodes: int
    pieces: int
    regions: int
    operators: int
    time: float
    left: Mapping[str, int]


@dataclass(frozen=True)
class Report:
    """The whole answer: `cascades` are the candidates of two or more products, `others` what else runs
    natively, `native` how much that is together."""

    model: str
    threads: int
    cascades: tuple[PieceReport, ...]
    others: tuple[PieceReport, ...]
    whole: Timing | None
    accuracy: Accuracy | None
    notes: tuple[str, ...] = ()
    native: NativeShare | None = None

    @property
    def fused(self) -> tuple[PieceReport, ...]:
        """Everything that runs natively."""
        return tuple(p for p in (*self.cascades, *self.others) if p.decision == "fused")

    def to_dict(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        whole = asdict(self.whole) if self.whole else {"baseline_ms": None, "fused_ms": None, "speedup": None}
        errors = asdict(self.accuracy) if self.accuracy else {"max_abs_error": None, "max_rel_error": None}
        return {
            "model": self.model,
            "threads": self.threads,
            "cascades": [piece.to_dict() for piece in self.cascades],
            "others": [piece.to_dict() for piece in self.others],
            "whole": {**whole, **errors},
            "native": asdict(self.native) if self.native else None,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """The table that `regweave fuse` prints, 110 characters wide."""
        from regweave.views import plain, report_table

        return plain(report_table(self.to_dict()), width=110)

    def _repr_html_(self) -> str:
        """The page that `--out` writes, for a notebook."""
        from regweave.views import report_page

        return report_page(self.to_dict())
