"""Keep images blocked between convolutions: element-wise work and native kernels join onnxruntime's layout.

onnxruntime's optimiser gives convolutions blocked tensors and puts a ReorderOutput and a ReorderInput around
everything else. On a detector those reorders were 9.9 of 120 ms. Here they are moved to where they are few:

    ReorderOutput -> Add -> Clip -> Mul -> Div -> ReorderInput      becomes      Add -> Clip -> Mul -> Div

`block_images` takes the optimised model and gives one that computes the same with fewer reorders.
"""

from regweave.engine.building.blocking.forms import GATE, JOIN, MEAN, Facts, Native, Shape
from regweave.engine.building.blocking.passes import block_images, count_reorders
from regweave.engine.building.blocking.view import REORDERS

__all__ = ["GATE", "JOIN", "MEAN", "REORDERS", "Facts", "Native", "Shape", "block_images", "count_reorders"]
