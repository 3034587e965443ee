"""What can run natively in a model: a piece, some nodes that one kernel replaces.

    kind "chain"         two or more products, and the element-wise work between and behind them
    kind "single"        one product and the work behind it
    kind "convolution"   a convolution with a larger kernel, strides or groups, and the work that it can hold
    kind "elementwise"   a run of element-wise work alone
    kind "region"        several convolutions and what stands between them

A piece reads one main tensor and maybe some extra ones, and leaves one tensor; nothing outside reads anything
in between. A chain that was looked for but is broken somewhere is a piece too, with the reason as its
`refusal`. Weights are gathered and folded when `chain` is first asked for, not when the piece is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal

import numpy as np

from regweave.graphs.elementwise.folding import build_chain, build_run, extra_names
from regweave.graphs.elementwise.steps import Step
from regweave.graphs.pieces.layers import Layer, Window
from regweave.graphs.pieces.members import Region
from regweave.graphs.pieces.products import Product
from regweave.graphs.shapes.dimensions import Shape
from regweave.operators import Chain, ElementwiseRun, Order, OutputDim, Rest, Same, followed

Kind = Literal["chain", "single", "convolution", "elementwise", "region"]


@dataclass(frozen=True, eq=False)
class Link:
    """One product of a chain and the steps behind it, its own bias included."""

    product: Product
    steps: tuple[Step, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, in order."""
        names = (self.product.node, *(name for step in self.steps for name in step.nodes))
        return tuple(dict.fromkeys(names))

    @property
    def output(self) -> str:
        """The tensor that the last step leaves."""
        return self.steps[-1].output if self.steps else self.product.output


@dataclass(frozen=True, eq=False)
class Piece:
    """Nodes of a model that one native kernel can replace, or (with `refusal`) the reason why none can.

    nodes           names of everything that it replaces, in running order
    gemm_nodes      the products among them
    input           the main input tensor; if `transposed`, it is [K, M] in memory and must be transposed
    extra_inputs    tensors that are read besides (residuals), each of the shape of the stage that reads it;
                    in element-wise runs also `gates`, with one element per image and channel
    output          the tensor that it leaves
    order           "rows": x is [M, K]; "pixels": x is [batch, K, P]
    channel_axis    axis of the channels in the input, -1 for the last: batch is the product of the axes
                    before it, P of those behind. For "rows", M is simply all elements divided by K
    widths          (K0, N0, N1, ...); (channels,) or () for element-wise runs
    input_shape     shape of the (transposed) input for the sizes given to read_model; None where unknown
    output_dims     how the output's shape follows from the (transposed) input's; None: it is the input's with
                    the last axis replaced by the last width
    refusal         None, or why it cannot be built
    forced          the caller asked for exactly this chain
    """

    kind: Kind
    nodes: tuple[str, ...]
    gemm_nodes: tuple[str, ...]
    input: str
    output: str
    order: Order
    channel_axis: int
    widths: tuple[int, ...]
    input_shape: tuple[int | None, ...] | None
    output_dims: tuple[OutputDim, ...] | None
    refusal: str | None = None
    forced: bool = False
    transposed: bool = False
    links: tuple[Link, ...] = ()
    steps: tuple[Step, ...] = ()
    window: Window | None = None
    region: Region | None = None

    @property
    def name(self) -> str:
        """A name for people, unique among pieces that share no nodes: that of its first product or node."""
        first = self.gemm_nodes[0] if self.gemm_nodes else self.nodes[0]
        return f"region of {first}" if self.region else first

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """Every element-wise step, in order."""
        return (*(step for link in self.links for step in link.steps), *self.steps)

    @property
    def extra_inputs(self) -> tuple[str, ...]:
        """Tensors that are read beside the input, in the order of the kernel's extras."""
        return self.region.inputs[1:] if self.region else extra_names(self.all_steps)

    @property
    def gates(self) -> frozenset[int]:
        """Those of `extra_inputs`, by index, that have one element per image and channel."""
        names = {name for step in self.all_steps for name in step.gates}
        return frozenset(index for index, name in enumerate(self.extra_inputs) if name in names)

    @property
    def added(self) -> dict[str, np.ndarray]:
        """Constants among `extra_inputs` that the model does not hold yet."""
        return {name: value for step in self.all_steps for name, value in step.added}

    @cached_property
    def chain(self) -> Chain | None:
        """The products with weights [K, N] and folded epilogues; None for refused and element-wise pieces."""
        if self.refusal is not None or not self.links:
            return None
        return build_chain(
            [link.product.weight() for link in self.links], [link.steps for link in self.links], self.order
        )

    @cached_property
    def layer(self) -> Layer | None:
        """The convolution with all steps folded in; None for other pieces."""
        return None if self.window is None else self.window.layer(self.steps)

    @cached_property
    def run(self) -> ElementwiseRun | None:
        """The element-wise work; None for pieces with products."""
        return build_run(self.steps, self.channel_axis != -1) if self.kind == "elementwise" else None

    @property
    def keeps_image(self) -> bool:
        """Whether it makes an image [batch, channels, height, width] of the same size of one."""
        dims, shape = self.output_dims, self.input_shape
        if dims is None or shape is None or len(shape) != 4 or len(dims) != 4 or self.transposed:
            return False
        return isinstance(shape[1], int) and all(
            dims[axis] in (Same(axis), shape[axis]) for axis in (0, 2, 3)
        )

    @property
    def m(self) -> int | None:
        """Rows or pixels in all, for the sizes given to read_model; None where they are not known."""
        shape = self.input_shape
        if shape is None or any(dim is None for dim in shape):
            return None
        total = prod(dim for dim in shape if dim is not None)
        return total // self.widths[0] if self.widths else total

    @property
    def batch(self) -> int | None:
        """Images, for "pixels": the product of the axes before the channels; 1 for "rows"."""
        return 1 if self.order == "rows" else _known_product(self.input_shape, 0, self.channel_axis)

    @property
    def pixels(self) -> int | None:
        """Pixels per image for "pixels"; all rows for "rows"."""
        if self.order == "rows":
            return self.m
        return _known_product(self.input_shape, self.channel_axis + 1, None)

    def output_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The output's shape for an input of `shape`; ValueError if the two cannot match."""
        if self.output_dims is None:
            return (*shape[:-1], self.widths[-1]) if self.widths else tuple(shape)
        total = prod(shape)
        if self.widths:
            total = total // self.widths[0] * self.widths[-1]
        result = followed(self.output_dims, shape, total)
        if result is None:
            words = ", ".join(str(dim) for dim in self.output_dims)
            raise ValueError(
                f"{self.name}: an input of shape {list(shape)} gives no output of shape ({words})"
            )
        return result


def _known_product(shape: tuple[int | None, ...] | None, start: int, stop: int | None) -> int | None:
    if shape is None or any(dim is None for dim in shape[start:stop]):
        return None
    return prod(dim for dim in shape[start:stop] if dim is not None)


def output_dims(source: Shape, result: Shape) -> tuple[OutputDim, ...] | None:
    """Each dimension of `result` from those of `source`; None where more than one does not follow."""
    dims: list[OutputDim] = []
    for axis, dim in enumerate(result):
        if isinstance(dim, int):
            dims.append(dim)
        elif axis < len(source) and source[axis] == dim:
            dims.append(Same(axis))
        elif dim in source:
            dims.append(Same(source.index(dim)))
        else:
            dims.append(Rest())
    return None if sum(isinstance(dim, Rest) for dim in dims) > 1 else tuple(dims)
