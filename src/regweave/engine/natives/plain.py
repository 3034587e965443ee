"""Native twins of nodes on plain tensors: what lies between the products of an attention, or behind the last
mean of a network.

    Reshape, Squeeze, Unsqueeze, Flatten, Identity     views
    Transpose, Slice, Split, Concat                    moves
    MatMul of two computed tensors                     products of pairs
    Gemm, MatMul, sums and other element-wise work     the piece that is a small model of the node

The shape of a tensor that the optimiser has made up follows from the node that makes it, so nodes are met in
their order. What is in blocks is left alone, but for images of one pixel in whole blocks, which lie as if
they were plain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from regweave.devices.onnxruntime import MOST_IMAGES
from regweave.engine.natives.alone import piece_alone
from regweave.engine.natives.moving import (
    Plan,
    cut,
    move_operator,
    pays,
    seen_as,
    side_by_side,
    sliced,
    transposed,
)
from regweave.engine.natives.native import Native
from regweave.engine.natives.natives import Natives
from regweave.engine.natives.pairing import pair_operator
from regweave.engine.natives.views import by_symbols, view_rule
from regweave.errors import ModelError, UnsupportedError
from regweave.graphs import Model
from regweave.graphs.attributes import attribute
from regweave.graphs.elementwise.unary import ORT_DOMAIN
from regweave.graphs.shapes.reshapes import reshaped
from regweave.kernels.tensors.moves import AXES

Dims = tuple[Any, ...]

_VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
_DEFAULT = ("", "ai.onnx")

MOST_RIGHT = 1 << 16
"""Elements of a matrix that its pair is multiplied by: beyond the second cache, onnxruntime's blocks pay."""


@dataclass(eq=False)
class PlainTensors:
    """What is known of plain tensors: shapes with symbols by `shape`, None for what is none or not float32;
    values of initializers by `constant`; `sizes` of the symbols, for the sizes that matter most."""

    model: Model
    shape: Callable[[str], Dims | None]
    constant: Callable[[str], np.ndarray | None]
    opset: int
    made: dict[str, Dims] = field(default_factory=dict)

    def __call__(self, tensor: str) -> Dims | None:
        """The shape of a tensor."""
        return self.made.get(tensor) or self.shape(tensor)

    def integers(self, tensor: str) -> tuple[int, ...] | None:
        """The values of a constant vector."""
        found = self.constant(tensor) if tensor else None
        return None if found is None else tuple(int(value) for value in np.ravel(found))

    def find(self, node: onnx.NodeProto, name: str, natives: Natives) -> tuple[Native | None, list[str]]:
        """The twin of a node of plain tensors under a name, if there is one, and what it reads."""
        if node.domain not in (*_DEFAULT, ORT_DOMAIN) or len([n for n in node.output if n]) != 1:
            return None, []
        for maker in (self._view, self._move, self._pairs, self._piece):
            found = maker(node, name, natives)
            if found is not None:
                native, reads, shape = found
                self.made[node.output[0]] = shape
                return native, reads
        return None, []

    def split(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """A Split as slices, one for each of its results, under its name; as it is where its parts are not
        known. The slices say what they take in attributes."""
        shape = self(node.input[0])
        if not shape or len(shape) > AXES or "" in node.output or node.domain not in _DEFAULT:
            return [node]
        axis = attribute(node, "axis", 0) % len(shape)
        given = node.input[1] if len(node.input) > 1 else ""
        sizes, whole, count = attribute(node, "split"), shape[axis], len(node.output)
        if given:
            sizes = self.integers(given)
        elif sizes is None and isinstance(whole, int):
            sizes = [-(-whole // count)] * count
        if sizes is None:
            return [node]
        ends = tuple(accumulate(sizes))
        return [
            helper.make_node(
                "Slice", [node.input[0]], [output], node.name, axes=[axis], starts=[end - size], ends=[end]
            )
            for output, size, end in zip(node.output, sizes, ends, strict=True)
        ]

    def _view(self, node: onnx.NodeProto, name: str, natives: Natives):
        shape = self(node.input[0]) if node.op_type in _VIEWS and node.domain in _DEFAULT else None
        if shape is None:
            return None
        if node.op_type == "Identity":
            rule, out = (lambda given: given), shape
        else:
            found = self._reshaping(node, shape)
            if found is None:
                return None
            rule, out = found
        if len(out) > AXES:
            return None
        made = move_operator(
            name, seen_as(rule, name), 1, natives.machine, natives.threads, rank=len(out), view=True
        )
        return Native(*made), [node.input[0]], out

    def _reshaping(self, node: onnx.NodeProto, shape: Dims) -> tuple[Callable, Dims] | None:
        """The rule of a view, and its result with symbols."""
        out = reshaped(node, shape, self.integers, self.opset)
        if out is not None and not (
            node.op_type == "Squeeze" and len(node.input) < 2 and not attribute(node, "axes")
        ):
            return view_rule(node, self.integers, self.opset), out
        # the sizes are computed: what is known of the result must be what the model says of this very node
        maker = self.model.makers.get(node.output[0])
        original = None if maker is None else self.model.nodes[maker]
        out = self.shape(node.output[0])
        if (
            original is None
            or original.op_type != node.op_type
            or original.input[0] != node.input[0]
            or not out
        ):
            return None
        return None if (known := by_symbols(shape, out)) is None else (known, out)

    def _move(self, node: onnx.NodeProto, name: str, natives: Natives):
        shapes = (
            [self(tensor) for tensor in node.input]
            if node.op_type == "Concat"
            else [self(node.input[0])]
            if node.input
            else []
        )
        if (
            node.domain not in _DEFAULT
            or not 0 < len(shapes) <= MOST_IMAGES
            or any(not shape or len(shape) > AXES for shape in shapes)
        ):
            return None
        known: list[Dims] = [shape for shape in shapes if shape]
        found = {"Transpose": self._transpose, "Slice": self._slice, "Concat": self._concat}.get(node.op_type)
        made = None if found is None else found(node, known)
        if made is None:
            return None
        plan, out = made
        reads = list(node.input[: len(known)])
        if not pays(
            plan, [self._sizes(t, shape) for t, shape in zip(reads, known, strict=True)], natives.machine
        ):
            return None
        operator = move_operator(name, plan, len(known), natives.machine, natives.threads, rank=len(out))
        return Native(*operator), reads, out

    def _transpose(self, node: onnx.NodeProto, shapes: Sequence[Dims]) -> tuple[Plan, Dims]:
        order = attribute(node, "perm") or tuple(reversed(range(len(shapes[0]))))
        return transposed(tuple(order)), tuple(shapes[0][axis] for axis in order)

    def _slice(self, node: onnx.NodeProto, shapes: Sequence[Dims]) -> tuple[Plan, Dims] | None:
        shape = shapes[0]
        if len(node.input) == 1:
            starts, ends, axes = (attribute(node, key) for key in ("starts", "ends", "axes"))
            steps = None
        else:
            given = [self.integers(tensor) for tensor in (*node.input[1:], "", "", "", "")[:4]]
            if any(tensor and value is None for tensor, value in zip(node.input[1:], given, strict=False)):
                return None
            starts, ends, axes, steps = given
        if starts is None or ends is None:
            return None
        axes = [axis % len(shape) for axis in (axes or range(len(starts)))]
        bounds = list(zip(axes, starts, ends, steps or [1] * len(starts), strict=True))
        out = list(shape)
        for axis, first, last, step in bounds:
            size = shape[axis]
            out[axis] = (
                len(cut(size, first, last, step)) if isinstance(size, int) else f"{node.output[0]}[{axis}]"
            )
        return sliced(bounds), tuple(out)

    def _concat(self, node: onnx.NodeProto, shapes: Sequence[Dims]) -> tuple[Plan, Dims] | None:
        axis = attribute(node, "axis") % len(shapes[0])
        if len({len(shape) for shape in shapes}) > 1:
            return None
        sizes = [shape[axis] for shape in shapes]
        whole = sum(sizes) if all(isinstance(size, int) for size in sizes) else f"{node.output[0]}[{axis}]"
        out = (*shapes[0][:axis], whole, *shapes[0][axis + 1 :])
        return side_by_side(axis, node.name), out

    def _pairs(self, node: onnx.NodeProto, name: str, natives: Natives):
        if node.op_type not in ("MatMul", "FusedMatMul") or len(node.input) != 2:
            return None
        if attribute(node, "transBatchA") or attribute(node, "transBatchB"):
            return None
        a, b = (None if self.constant(tensor) is not None else self(tensor) for tensor in node.input)
        if a is None or b is None or len(a) < 2 or a[:-2] != b[:-2] or len(a) > AXES:
            return None
        left, right = (bool(attribute(node, key)) for key in ("transA", "transB"))
        sizes = self._sizes(node.input[1], b)
        if prod(sizes[-2:]) > MOST_RIGHT:
            return None
        out = (*a[:-2], a[-1 if left else -2], b[-2 if right else -1])
        made = pair_operator(
            name, natives.machine, natives.threads, alpha=attribute(node, "alpha", 1.0),
            left_transposed=left, right_transposed=right,
        )  # fmt: skip
        return Native(*made), list(node.input), out

    def _sizes(self, tensor: str, shape: Dims) -> tuple[int, ...]:
        """A shape for the sizes that matter most; 1 for what is not known."""
        given = self.model.shapes.get(tensor)
        given = given if given is not None and len(given) == len(shape) else (None,) * len(shape)
        return tuple(
            dim if isinstance(dim, int) else size or 1 for dim, size in zip(shape, given, strict=True)
        )

    def _piece(self, node: onnx.NodeProto, name: str, natives: Natives):
        """Products with weights and element-wise work, through a model of the node alone."""
        constants = {tensor: self.constant(tensor) for tensor in node.input if tensor}
        images = {tensor: self(tensor) for tensor, value in constants.items() if value is None}
        if not images or any(not shape for shape in images.values()):
            return None
        if any(value is not None and value.dtype != np.float32 for value in constants.values()):
            return None
        values = {tensor: value for tensor, value in constants.items() if value is not None}
        shapes = {tensor: shape for tensor, shape in images.items() if shape}
        with suppress(UnsupportedError, ModelError):
            sizes = {tensor: self._sizes(tensor, shape) for tensor, shape in shapes.items()}
            piece, out = piece_alone(node, values, shapes, sizes, self.opset)
            if piece is not None and out is not None:
                reads = [piece.input, *piece.extra_inputs]
                return natives.build(piece, name), reads, out
        return None
