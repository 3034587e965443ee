"""Which nodes can work on blocked tensors, and what they become there.

onnxruntime keeps images between convolutions in blocks of channels: [batch, C / b, H, W, b] in memory,
declared as [batch, C, H, W] with C rounded up to a multiple of b. Element-wise work does not care in which
order it meets the elements, so `Add`, `Clip`, `Gelu` and the like run on such a tensor as they are. Others
have a blocked twin.

A padded channel holds something finite, never a meaning: the next convolution multiplies it by zero. So a
node may only be moved there if it maps finite to finite; a quotient of two tensors or a logarithm stays where
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import onnx
from onnx import numpy_helper

from regweave.graphs.regions.enlarging import repetition

NCHWC = "com.microsoft.nchwc"
_MICROSOFT = "com.microsoft"
GATE, JOIN, MEAN = "Gate", "Join", "Mean"
"""Stems of the op types of native operators on blocked images; their channels follow: Gate96, Join24x24."""

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class Form:
    """A node on blocked tensors: `inputs` are the positions of its inputs that must be blocked, output 0
    is."""

    node: onnx.NodeProto
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Native:
    """A native operator's name in the blocked order, and which of its inputs are images."""

    name: str
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Facts:
    """What is known of the tensors: shapes with symbols for what varies, constants by name, native operators.

    `natives` maps the op type of a node of domain "regweave" to its blocked counterpart; `gates` says that
    there are native operators for one number per channel: its product with an image, the mean of a plane, and
    for parts of blocks that are joined. `sizes` are shapes for
    the sizes that matter most, where known.
    """

    shapes: Mapping[str, Shape]
    constants: Mapping[str, onnx.TensorProto]
    natives: Mapping[str, Native]
    block: int
    gates: bool = False
    sizes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)

    def image(self, tensor: str) -> Shape | None:
        """The shape of a tensor that is [batch, C, H, W] with known C, else None."""
        shape = self.shapes.get(tensor)
        return shape if shape is not None and len(shape) == 4 and isinstance(shape[1], int) else None

    def scalar(self, tensor: str) -> float | None:
        """The value of a constant of one element."""
        constant = self.constants.get(tensor)
        if constant is None or any(dim != 1 for dim in constant.dims):
            return None
        return float(numpy_helper.to_array(constant).reshape(()))


def blocked_form(node: onnx.NodeProto, facts: Facts) -> Form | None:
    """What `node` (reading plain images) is on blocked ones, or None where it cannot work there."""
    if node.domain == "regweave":
        native = facts.natives.get(node.op_type)
        return None if native is None else Form(_renamed(node, native.name, "regweave"), native.inputs)
    maker = _MAKERS.get((node.domain, node.op_type))
    if maker is None or len(node.output) != 1 or facts.image(node.output[0]) is None:
        return None
    return maker(node, facts)


def _unary(node: onnx.NodeProto, facts: Facts) -> Form | None:
    image = facts.image(node.input[0])
    others = [name for name in node.input[1:] if name]
    return Form(node, (0,)) if image and all(facts.scalar(name) is not None for name in others) else None


def _binary(node: onnx.NodeProto, facts: Facts) -> Form | None:
    """Two images of one shape, or an image and a number."""
    images = [i for i, name in enumerate(node.input) if facts.image(name) and name not in facts.constants]
    numbers = {i: facts.scalar(name) for i, name in enumerate(node.input) if i not in images}
    if not images or any(number is None for number in numbers.values()):
        return None
    if len({facts.image(node.input[i]) for i in images} | {facts.image(node.output[0])}) != 1:
        return None
    return Form(node, tuple(images))


def _product(node: onnx.NodeProto, facts: Facts) -> Form | None:
    """As `_binary`, or an image times a gate."""
    form = _binary(node, facts)
    if form is not None or not facts.gates or len(node.input) != 2:
        return form
    for image, gate in (node.input, reversed(node.input)):
        shape, other = facts.image(image), facts.image(gate)
        if shape is None or other is None or {image, gate} & facts.constants.keys():
            continue
        if other == (*shape[:2], 1, 1) and shape == facts.image(node.output[0]):
            name = channels_name(GATE, _number(shape[1]), facts.block)
            twin = onnx.helper.make_node(name, [image, gate], list(node.output), node.name, domain="regweave")
            return Form(twin, (0, 1))
    return None


def channels_name(stem: str, channels: int, block: int) -> str:
    """The op type of a native operator on blocked images of that many channels."""
    return f"{stem}{-(-channels // block) * block}"


def _quotient(node: onnx.NodeProto, facts: Facts) -> Form | None:
    """An image divided by a number that is not zero."""
    return _binary(node, facts) if facts.scalar(node.input[1]) else None


def _concat(node: onnx.NodeProto, facts: Facts) -> Form | None:
    """Along the channels, where every part fills its blocks, or natively where it fills halves of them."""
    images = [facts.image(name) for name in node.input]
    if _attribute(node, "axis") not in (1, -3) or any(image is None for image in images):
        return None
    channels = [_number(image[1]) for image in images if image is not None]
    inputs = tuple(range(len(node.input)))
    if all(count % facts.block == 0 for count in channels):
        return Form(node, inputs)
    if not facts.gates or len(channels) < 2 or any(count % (facts.block // 2) for count in channels):
        return None
    name = JOIN + "x".join(map(str, channels))
    twin = onnx.helper.make_node(name, list(node.input), list(node.output), node.name, domain="regweave")
    return Form(twin, inputs)


def _mean(node: onnx.NodeProto, facts: Facts) -> Form | None:
    """The mean of each channel's plane, natively: onnxruntime's blocked one is less exact."""
    axes = _attribute(node, "axes")
    if axes is None and len(node.input) > 1 and node.input[1] in facts.constants:
        axes = numpy_helper.to_array(facts.constants[node.input[1]]).tolist()
    keeps = _attribute(node, "keepdims")
    image = facts.image(node.input[0])
    if axes is None or sorted(axis % 4 for axis in axes) != [2, 3] or keeps == 0:
        return None
    if image is None or not facts.gates:
        return None
    name = channels_name(MEAN, _number(image[1]), facts.block)
    twin = onnx.helper.make_node(name, [node.input[0]], list(node.output), node.name, domain="regweave")
    return Form(twin, (0,))


def _pool(node: onnx.NodeProto, facts: Facts) -> Form | None:
    if facts.image(node.input[0]) is None:
        return None
    twin = onnx.helper.make_node(
        "GlobalAveragePool", [node.input[0]], list(node.output), name=node.name, domain=NCHWC
    )
    return Form(twin, (0,))


def _window(node: onnx.NodeProto, facts: Facts) -> Form | None:
    """Pooling over a window, which does not mix channels."""
    plain = not _attribute(node, "storage_order") and not _attribute(node, "ceil_mode")
    dilated = any(step != 1 for step in _attribute(node, "dilations") or ())
    if not plain or dilated or facts.image(node.input[0]) is None:
        return None
    return Form(_renamed(node, node.op_type, NCHWC), (0,))


def _enlarge(node: onnx.NodeProto, facts: Facts) -> Form | None:
    """Nearest-neighbour enlargement by whole numbers, each pixel repeated."""
    scales = facts.constants.get(node.input[2]) if len(node.input) == 3 else None
    repeated = None if scales is None else repetition(node, numpy_helper.to_array(scales))
    if repeated is None or facts.image(node.input[0]) is None:
        return None
    twin = onnx.helper.make_node(
        "Upsample", [node.input[0]], list(node.output), name=node.name, domain=NCHWC,
        scales=[1, 1, repeated.vertical, repeated.horizontal], mode="nearest",
    )  # fmt: skip
    return Form(twin, (0,))


_MAKERS: dict[tuple[str, str], Callable[[onnx.NodeProto, Facts], Form | None]] = {
    **{("", name): _unary for name in (
        "Abs", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Mish",
        "Neg", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh",
    )},
    **{(_MICROSOFT, name): _unary for name in ("FastGelu", "Gelu", "QuickGelu")},
    **{("", name): _binary for name in ("Add", "Max", "Min", "Sub", "Sum")},
    ("", "Mul"): _product,
    ("", "Div"): _quotient,
    ("", "AveragePool"): _window,
    ("", "Concat"): _concat,
    ("", "MaxPool"): _window,
    ("", "GlobalAveragePool"): _pool,
    ("", "ReduceMean"): _mean,
    ("", "Resize"): _enlarge,
}  # fmt: skip


def _attribute(node: onnx.NodeProto, name: str):
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), None)


def _renamed(node: onnx.NodeProto, op_type: str, domain: str) -> onnx.NodeProto:
    twin = onnx.NodeProto()
    twin.CopyFrom(node)
    twin.op_type, twin.domain = op_type, domain
    return twin


def _number(dim: int | str) -> int:
    assert isinstance(dim, int)
    return dim
