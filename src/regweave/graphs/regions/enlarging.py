"""Resize nodes that repeat every pixel a whole number of times."""

from __future__ import annotations

import numpy as np
import onnx

from regweave.graphs.attributes import attribute
from regweave.operators import Repeat


def repetition(node: onnx.NodeProto, scales: np.ndarray | None) -> Repeat | None:
    """How often a Resize of images with these `scales` repeats pixels; None where it does something else."""
    how = [attribute(node, name) for name in ("mode", "coordinate_transformation_mode", "nearest_mode")]
    if node.op_type != "Resize" or how != ["nearest", "asymmetric", "floor"] or len(node.input) != 3:
        return None
    if scales is None or scales.shape != (4,) or tuple(scales[:2]) != (1, 1) or attribute(node, "axes"):
        return None
    if not np.array_equal(scales, np.round(scales)) or scales.min() < 1:
        return None
    return Repeat(int(scales[2]), int(scales[3]))
