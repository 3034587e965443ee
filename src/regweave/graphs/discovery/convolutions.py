"""Convolutions that are more than a product: larger kernels, strides, groups, with the work that they hold.

    Conv 3x3, BatchNormalization, Relu   ->   one piece: the batch norm in its weights and bias, and a Relu

A convolution takes what follows it as long as that ends up in its weights, its bias, or is an activation;
anything that reads another tensor stays outside. 1x1 convolutions without strides and groups are products and
not found here.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx

from regweave.errors import InputError
from regweave.graphs.attributes import attribute
from regweave.graphs.discovery.walks import OLDEST_OPSET, Scout, trimmed
from regweave.graphs.elementwise.cursor import Cursor
from regweave.graphs.elementwise.folding import ADDS, MULS
from regweave.graphs.elementwise.steps import Step
from regweave.graphs.pieces.layers import Window
from regweave.graphs.pieces.pieces import Piece, output_dims
from regweave.graphs.pieces.products import DEFAULT_DOMAINS, Product
from regweave.graphs.reading.model import FLOAT, Model
from regweave.operators import ChannelAdd

_PADDINGS = {"NOTSET": None, "VALID": "valid", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}
#: [batch, channels, height, width].
_RANK = 4


def find_convolutions(model: Model, chosen: Iterable[Piece] = ()) -> tuple[Piece, ...]:
    """Convolutions with the work that they hold, in nodes that `chosen` leaves free, in the model's order.

    Give those that are wanted to `find_pieces` among what is chosen: it may want the work of the others.
    """
    scout = Scout(model)
    taken = {name for piece in chosen if piece.refusal is None for name in piece.nodes}
    if model.opset < OLDEST_OPSET:
        return ()
    found = []
    for index, node in enumerate(model.nodes):
        window = None if node.name in taken else recognise_window(model, node)
        if window is not None and not isinstance(scout.product(index), Product):
            found.append(_piece(scout, node, window, taken))
            taken.update(found[-1].nodes)
    return tuple(found)


def recognise_window(model: Model, node: onnx.NodeProto) -> Window | None:
    """The node as a convolution of images, or None where it is none that could be built."""
    if node.op_type != "Conv" or node.domain not in DEFAULT_DOMAINS:
        return None
    x, name, *rest = node.input
    constants = model.constants
    if x in constants or name not in constants or any(bias and bias not in constants for bias in rest):
        return None
    shape = tuple(int(size) for size in constants.value(name).shape)
    image = model.symbols.get(x)
    if len(shape) != _RANK or image is None or len(image) != _RANK or 0 in shape:
        return None
    if not all(model.types.get(tensor) in (None, FLOAT) for tensor in (x, name, node.output[0])):
        return None
    pads, auto = attribute(node, "pads"), attribute(node, "auto_pad", "NOTSET")
    settings = {
        "strides": tuple(attribute(node, "strides") or (1, 1)),
        "padding": _PADDINGS.get(auto) or tuple(pads or (0, 0, 0, 0)),
        "dilations": tuple(attribute(node, "dilations") or (1, 1)),
        "groups": attribute(node, "group", 1),
    }

    def weight() -> np.ndarray:
        return np.asarray(constants.value(name), np.float32)

    window = Window(shape, weight, settings)
    known = model.shapes.get(x)
    if known is None or any(size is None for size in known):
        return None
    try:
        window.convolution(size for size in known if size is not None)
    except InputError:
        return None  # onnxruntime will say what is wrong with it
    return window


def _piece(scout: Scout, node: onnx.NodeProto, window: Window, taken: set[str]) -> Piece:
    model, filters = scout.model, window.shape[0]
    output = node.output[0]
    steps: list[Step] = []
    if len(node.input) > 2 and node.input[2]:
        vector = np.asarray(model.constants.value(node.input[2]), np.float64).reshape(-1)
        steps.append(Step((ChannelAdd(),), (vector,), (node.name,), output))
    cursor = Cursor(output, model.symbols.get(output), 1, filters)
    walk = scout.follow(cursor, taken, None)
    held = tuple(steps) + _held(trimmed(model, walk.steps))
    last = held[-1].output if held else output
    symbols, result = model.symbols.get(node.input[0]), model.symbols.get(last)
    return Piece(
        kind="convolution",
        nodes=tuple(dict.fromkeys((node.name, *(name for step in held for name in step.nodes)))),
        gemm_nodes=(node.name,),
        input=node.input[0],
        output=last,
        order="pixels",
        channel_axis=1,
        widths=(window.shape[1] * window.settings["groups"], filters),
        input_shape=model.shapes.get(node.input[0]),
        output_dims=None if symbols is None or result is None else output_dims(symbols, result),
        steps=held,
        window=window,
    )


def _held(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The first of `steps` that a convolution can hold: affine ones until the first activation, then only
    activations."""
    held, affine = [], True
    for step in steps:
        for op, operand in zip(step.ops, step.operands, strict=True):
            folds = affine and isinstance(op, (*ADDS, *MULS))
            if not folds and operand is not None:
                return tuple(held)
            affine = folds
        held.append(step)
    return tuple(held)
