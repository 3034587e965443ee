"""A whole model: find its cascades, decide, build, run inside onnxruntime, verify, report.

`fusing` is the call, from `inputs` that are checked to `fused`, which is what runs; `report` is what it
tells, `reporting` writes it. In between, in this order:

    deciding     proposes pieces, judges them, grows regions, races models; it rests on
    natives      an operator of each piece; `regions` has those of convolutions
    building     a session of a choice of them
    measuring    what nodes and models take
    verifying    all of it against float64
"""

from regweave.engine.fused import Fused
from regweave.engine.fusing import fuse
from regweave.engine.report import Accuracy, PieceReport, Report, Shape, Timing

__all__ = ["Accuracy", "Fused", "PieceReport", "Report", "Shape", "Timing", "fuse"]
