"""The shape after a convolution or a pooling; sizes that vary are named by how they are computed.

3x3, stride 2, padding 1 on [batch, 3, 48, width]   ->   [batch, N, 24, "size(width,k3,s2,p1+1,d1)"]
"""

from __future__ import annotations

import onnx

from regweave.graphs.attributes import attribute
from regweave.graphs.shapes.dimensions import Dim, Shape


def window(
    node: onnx.NodeProto, shape: Shape, weight: Shape | None, opset: int
) -> tuple[Dim | None, ...] | None:
    """Convolution and pooling: batch and channels, then one size per window axis."""
    is_conv = node.op_type.startswith("Conv")
    spatial = len(shape) - 2
    kernel = attribute(node, "kernel_shape") or (weight[2:] if is_conv and weight else None)
    if spatial < 1 or kernel is None or len(kernel) != spatial:
        return None
    channels: Dim | None = (weight[0] if weight else None) if is_conv else shape[1]
    strides = attribute(node, "strides") or [1] * spatial
    dilations = attribute(node, "dilations") or [1] * spatial
    pads = attribute(node, "pads") or [0] * (2 * spatial)
    auto = attribute(node, "auto_pad", "NOTSET")
    ceil = bool(attribute(node, "ceil_mode", 0))
    sizes = [
        _window_size(dim, k, strides[i], dilations[i], (pads[i], pads[spatial + i]), auto, ceil)
        for i, (dim, k) in enumerate(zip(shape[2:], kernel, strict=True))
    ]
    return (shape[0], channels, *sizes)


def _window_size(
    dim: Dim, kernel: Dim, stride: int, dilation: int, pads: tuple[int, int], auto: str, ceil: bool
) -> Dim | None:
    if isinstance(kernel, str) or stride < 1:
        return None
    reach = (kernel - 1) * dilation + 1
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        if stride == 1:
            return dim
        return -(-dim // stride) if isinstance(dim, int) else f"size({_opaque(dim)},same,s{stride})"
    total = 0 if auto == "VALID" else pads[0] + pads[1]
    if stride == 1 and total == reach - 1:
        return dim
    if not isinstance(dim, int):
        form = f"k{kernel},s{stride},p{pads[0] if total else 0}+{pads[1] if total else 0},d{dilation}"
        return f"size({_opaque(dim)},{form}{',ceil' if ceil else ''})"
    if ceil:
        return None
    return (dim + total - reach) // stride + 1 if dim + total >= reach else None


def _opaque(symbol: str) -> str:
    """A symbol as part of another: `*` must not read as a product of the whole."""
    return symbol.replace("*", "×")
