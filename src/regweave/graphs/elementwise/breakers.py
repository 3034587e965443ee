"""Why an operator that is no element-wise work breaks a chain, in words for a report."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from regweave.graphs.attributes import attribute
from regweave.graphs.reading.model import Model


def broken_by(node: onnx.NodeProto, model: Model) -> str:
    """Why an operator that is no element-wise work breaks a chain."""
    op = node.op_type
    if op in ("Conv", "ConvTranspose"):
        shape = model.symbols.get(node.input[1]) if len(node.input) > 1 else None
        kernel = attribute(node, "kernel_shape") or (shape[2:] if shape else ())
        return f"mixes neighbouring pixels (kernel {'x'.join(map(str, kernel))})"
    for reason, ops in BREAKERS.items():
        if op in ops or (op.startswith("Reduce") and "ReduceMean" in ops):
            return reason
    return "is not work that can be done in registers"


BREAKERS: Mapping[str, frozenset[str]] = {
    "moves rows and columns": frozenset(("Transpose", "DepthToSpace", "SpaceToDepth")),
    "pools neighbouring pixels": frozenset(("MaxPool", "AveragePool", "LpPool")),
    "reduces over rows or channels": frozenset(
        ("ReduceMean", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "ArgMax", "ArgMin", "TopK")
    ),
    "needs whole rows": frozenset(
        ("Softmax", "LogSoftmax", "LayerNormalization", "GroupNormalization", "InstanceNormalization", "LRN")
    ),
    "joins it with other tensors": frozenset(("Concat",)),
    "takes it apart": frozenset(("Split", "Slice", "Gather", "Tile", "Expand", "Pad", "Resize", "Upsample")),
    "turns it into integers": frozenset(("QuantizeLinear", "DynamicQuantizeLinear", "Shape", "Size")),
    "carries state from row to row": frozenset(("GRU", "LSTM", "RNN", "Scan", "Loop", "CumSum")),
}
