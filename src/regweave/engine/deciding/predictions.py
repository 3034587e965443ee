"""What the cost model says of a piece: seconds in onnxruntime, and natively.

The model of onnxruntime is a list of passes. Each product costs its arithmetic and traffic (see
cascades.costs); work that it cannot fold costs a pass over the tensor, plus the start of a node; natively
the same work happens in registers:

    Conv -> Add Div Erf Add Mul Mul -> Conv       one pass of a Gelu falls away, and the way of a tensor to
                                                  memory and back
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regweave.cascades import Costs, estimate, host_costs, traffic
from regweave.convolution.planes.form import transforms
from regweave.engine.regions.interleaved import worth_parting
from regweave.graphs import Link, Model, Piece
from regweave.kernels import chain_plan, operation_counts
from regweave.machines.x86 import detect
from regweave.operators import (
    AddScalar,
    Chain,
    ChannelAdd,
    ChannelMul,
    Clip,
    Elementwise,
    HardSigmoid,
    LeakyRelu,
    MulScalar,
    Relu,
    Sigmoid,
    Tanh,
    TensorAdd,
)

#: What onnxruntime folds into a product's weights; and of activations, one into a convolution.
FOLDED = (ChannelAdd, ChannelMul, AddScalar, MulScalar)
FOLDED_ACTIVATIONS = (Relu, LeakyRelu, Clip, Sigmoid, Tanh, HardSigmoid)

NODE_SECONDS = 2e-6
"""Starting a node of onnxruntime."""

PASS_RATE = 4e9
"""Elements a second of an element-wise node of onnxruntime that computes little."""

FUNCTION_RATE = 1.6e9
"""The same for one that computes a transcendental function."""

NATIVE_RATE = 8e9
"""The same for our own pass over a tensor, work apart."""

NATIVE_OPERATIONS = 40e9
"""Element operations a second behind a product or in a pass of ours."""

BLOCK = 16
"""Filters that onnxruntime's convolutions on blocked images come in."""

CONVOLUTION_SHARE, NATIVE_SHARE = 0.85, 0.85
"""Of a core's arithmetic: what onnxruntime's convolutions reach, what ours do on plain images."""

DEPTHWISE_SHARE, NATIVE_DEPTHWISE = 0.5, 0.75
"""The same for depthwise ones; ours on blocked images."""

TRANSFORMED_GAIN = 1.5
"""By so much rows are worth transforming: fewer products, some of the gain lost on the way."""

TRANSCENDENTAL = ("scale", "split")

MARGIN = 1.12
"""How wrong the model may be: below this ratio of predictions a piece is tried, and judged where it
stands."""

LEAST_SHARE = 0.01
"""Of the time in onnxruntime that must be there to gain at all for a chain to be tried."""


@dataclass(frozen=True)
class Proposal:
    """A piece with predicted seconds in onnxruntime and natively, and the reason in words.

    `gainable` is the part of `before` that fusing can remove at all (passes, traffic of intermediates, starts
    of nodes). `bytes_unfused` and `bytes_fused` are what it moves; None where sizes are unknown.
    """

    piece: Piece
    before: float
    after: float
    gainable: float
    reason: str
    bytes_unfused: int | None = None
    bytes_fused: int | None = None

    @property
    def hopeful(self) -> bool:
        """Whether a gain is possible, as far as the model can tell."""
        return self.after < MARGIN * self.before and self.gainable > LEAST_SHARE * self.before


def predicted(model: Model, piece: Piece, threads: int) -> Proposal:
    """A piece, and what is hoped of it for the sizes that the model was read for."""
    if piece.m is None:
        return Proposal(piece, 0.0, 0.0, 0.0, "its size is not known")
    costs = host_costs()
    if piece.kind == "elementwise":
        return _run_prediction(piece, threads)
    if piece.kind == "convolution":
        return _convolution_prediction(piece, threads, costs)
    return _product_prediction(model, piece, threads, costs)


def _run_prediction(piece: Piece, threads: int) -> Proposal:
    assert piece.m is not None, "checked by the caller"
    elements = piece.m * max(piece.widths[0], 1) if piece.widths else piece.m
    before = sum(_node_seconds(step.ops, len(step.nodes), elements, threads) for step in piece.steps)
    ops = [op for step in piece.steps for op in step.ops]
    after = NODE_SECONDS + elements / threads * (1 / NATIVE_RATE + _operations(ops) / NATIVE_OPERATIONS)
    tensors = 1 + len(piece.extra_inputs)
    count = sum(len(step.nodes) for step in piece.steps)
    moved, fused = 4 * elements * (2 * count + tensors - 1), 4 * elements * (tensors + 1)
    reason = f"{count} passes over {4 * elements / 1e6:.2g} MB become one"
    return Proposal(piece, before, after, before, _with_ratio(reason, before, after), moved, fused)


def _convolution_prediction(piece: Piece, threads: int, costs: Costs) -> Proposal:
    """onnxruntime multiplies whole blocks of filters and, without activations that it knows, passes again."""
    window, layer, shape = piece.window, piece.layer, piece.input_shape
    assert window is not None, "the caller asks for convolutions only"
    assert layer is not None
    assert shape is not None, "their sizes are known"
    c = window.convolution(size or 1 for size in shape)
    flops = 2.0 * c.products
    share = costs.flops * threads
    depthwise = c.group_channels == 1
    padded = -(-c.filters // BLOCK) * BLOCK / c.filters if c.groups == 1 else 1.0
    before = flops * padded / (share * (DEPTHWISE_SHARE if depthwise else CONVOLUTION_SHARE))
    rate = NATIVE_DEPTHWISE if depthwise else NATIVE_SHARE
    if not depthwise and (transforms(c) or worth_parting(c)):
        rate *= TRANSFORMED_GAIN
    after = flops / (share * rate)
    elements = int(np.prod(c.out_shape))
    work = [op for op in layer.epilogue if not isinstance(op, FOLDED)]
    if (
        len(work) != len(layer.epilogue)
        or len(work) > 1
        or (work and not isinstance(work[0], FOLDED_ACTIVATIONS))
    ):
        before += _node_seconds(layer.epilogue, 1, elements, threads)
    after += NODE_SECONDS + elements / threads * _operations(layer.epilogue) / NATIVE_OPERATIONS
    reason = f"{c.vertical.kernel}x{c.horizontal.kernel}, {c.channels} -> {c.filters} channels"
    return Proposal(piece, before, after, before, _with_ratio(reason, before, after))


def _product_prediction(model: Model, piece: Piece, threads: int, costs: Costs) -> Proposal:
    assert piece.m is not None, "checked by the caller"
    chain = piece.chain
    assert chain is not None, "refused pieces are not predicted"
    rows = piece.m
    guess = estimate(piece.widths, rows, block=_block(chain), threads=threads, costs=costs)
    seams = 8 * rows * sum(piece.widths[1:-1])
    gainable = costs.seconds(seams / threads, seams / threads) + costs.call_seconds * (len(piece.widths) - 2)
    native, folded = 0.0, 0.0
    for link, width in zip(piece.links, piece.widths[1:], strict=True):
        elements = rows * width
        for index, step in enumerate(link.steps):
            native += elements / threads * _operations(step.ops) / NATIVE_OPERATIONS
            if not _folds(model, link, index, step.ops):
                folded += _node_seconds(step.ops, len(step.nodes), elements, threads)
    before, after = guess.unfused + folded, guess.unfused + native + NODE_SECONDS
    if len(piece.links) > 1:
        after += guess.fused - guess.unfused
    moved = traffic(piece.widths, rows, extra_widths=chain.extra_widths)
    reason = guess.reason.split(": predicted")[0] if len(piece.links) > 1 else "the same product"
    if folded > NODE_SECONDS:
        reason += f"; {folded * 1e3:.2g} ms of element-wise passes move into registers"
    ratio = _with_ratio(reason, before, after)
    return Proposal(piece, before, after, gainable + folded, ratio, moved.unfused, moved.fused)


def _folds(model: Model, link: Link, index: int, ops: Sequence[Elementwise]) -> bool:
    """Whether onnxruntime does a step behind a product in the product's own node."""
    kind = model.nodes[model.positions[link.product.node]].op_type
    if all(isinstance(op, FOLDED) for op in ops):
        return kind != "MatMul" or len(model.symbols.get(link.product.input) or ()) == 2
    if kind == "Conv" and all(isinstance(op, TensorAdd) for op in ops):
        return True
    work = [op for step in link.steps[:index] for op in step.ops if not isinstance(op, FOLDED)]
    return kind != "MatMul" and not work and len(ops) == 1 and isinstance(ops[0], FOLDED_ACTIVATIONS)


def _block(chain: Chain) -> int:
    """Rows that a kernel takes through all stages at once."""
    machine = detect()
    return 96 if machine is None else chain_plan(chain.signature, machine).block


def _node_seconds(ops: Sequence[Elementwise], nodes: int, elements: int, threads: int) -> float:
    """What onnxruntime takes for a step of `nodes` nodes; it knows GELU and its kin as one."""
    if not ops:
        return 0.0
    if _is_function(ops):
        return NODE_SECONDS + elements / threads / FUNCTION_RATE
    return nodes * (NODE_SECONDS + elements / threads / PASS_RATE)


def _is_function(ops: Sequence[Elementwise]) -> bool:
    return any(name in operation_counts(ops) for name in TRANSCENDENTAL)


def _operations(ops: Sequence[Elementwise]) -> int:
    return sum(operation_counts(ops).values()) if ops else 0


def _with_ratio(reason: str, before: float, after: float) -> str:
    return f"{reason}: predicted {before / after:.2f}x"
