"""A whole model: find its cascades, decide, build, run inside onnxruntime, verify, report.

`fusing` is the call. `proposals` says what to try, `natives` makes an operator of each piece (`regional`
those of convolutions), `building` a session of a choice of them (with `blocking` of images, and `uniting` of
operators). `deciding` leads from proposals to a model by `sieving` pieces and `growing` regions. It rests on
`evidence`, from `profiling`, `undisturbed` times, `racing` and `verification`, and leaves a `judgement` of
each. `reporting` tells it, and `fused` is what runs.
"""

from regweave.engine.fused import Fused
from regweave.engine.fusing import fuse
from regweave.engine.report import Accuracy, PieceReport, Report, Shape, Timing

__all__ = ["Accuracy", "Fused", "PieceReport", "Report", "Shape", "Timing", "fuse"]
