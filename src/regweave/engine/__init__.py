"""A whole model: find its cascades, decide, build, run inside onnxruntime, verify, report."""

from regweave.engine.fused import Fused
from regweave.engine.fusing import fuse
from regweave.engine.report import Accuracy, PieceReport, Report, Shape, Timing

__all__ = ["Accuracy", "Fused", "PieceReport", "Report", "Shape", "Timing", "fuse"]
