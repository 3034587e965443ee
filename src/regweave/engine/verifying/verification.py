"""Every native piece against float64, on the tensors that really reach it, and the whole model against
onnxruntime.

    original model, with the pieces' inputs and outputs made visible        -> x, onnxruntime's y
    the piece's operator alone in a session, in the variant that is used     -> our y
    operators' float64 reference on x                                        -> the truth

A piece passes if its largest error is at most twice onnxruntime's, a few units in the last place of the
largest result granted to both; to a region for each of its products, whose errors add up as those of single
pieces would. The reference is taken at up to a few thousand positions spread over the tensor: a kernel treats
all of them alike, and every tail of it is among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from regweave.devices.onnxruntime import DOMAIN, NativeSession
from regweave.engine.building.optimiser import Workshop
from regweave.engine.natives.enlarged import Enlarged
from regweave.engine.natives.natives import Natives
from regweave.engine.report import Accuracy
from regweave.engine.verifying.truth import Truth
from regweave.errors import VerificationError
from regweave.graphs import Model, Piece
from regweave.graphs.regions.regions import alone
from regweave.operators.blocks import from_blocks, to_blocks

POSITIONS = 2048
PLACES = 16
"""In an image, at most, where rows are looked at."""
ALLOWED = 2.0
ULPS = 8 * 2.0**-23
"""Of the largest result: what counts as no error at all."""

AT_ONCE = 1 << 18
"""Elements that are compared in float64 at a time: outputs may be much larger than what memory is left."""

WHOLE = 1e-3
"""Of the largest element of an output: more than this between us and onnxruntime cannot be rounding."""


@dataclass(frozen=True)
class Check:
    """Errors of a piece, ours and onnxruntime's, against float64, and whether ours may stand."""

    ours: Accuracy
    theirs: Accuracy
    passed: bool


def captured(
    model: Model, pieces: Sequence[Piece], feeds: Mapping[str, Any], shop: Workshop, threads: int
) -> dict[str, np.ndarray]:
    """All tensors at the ends of the pieces, as onnxruntime computes them in the original model."""
    names = dict.fromkeys(
        name for piece in pieces for name in (piece.input, *piece.extra_inputs, piece.output)
    )
    made = [name for name in names if name in model.makers]
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    outputs = {value.name for value in proto.graph.output}
    proto.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made if name not in outputs
    )
    session = shop.open(proto, threads=threads, optimise=True)
    found = dict(zip(made, session.run(made, feeds), strict=True)) if made else {}
    given = {name: np.asarray(feeds[name]) for name in names if name in feeds}
    constants = {name: model.constants.value(name) for name in names if name in model.constants}
    added = {name: value for piece in pieces for name, value in piece.added.items()}
    return {**constants, **added, **given, **found}


def check_piece(
    piece: Piece,
    natives: Natives,
    tensors: Mapping[str, np.ndarray],
    *,
    blocked: bool,
    enlarged: Enlarged | None = None,
) -> Check:
    """Run one piece natively on captured tensors and compare. Products of halves that are not accurate enough
    are multiplied as usual."""
    x = tensors[piece.input]
    if not x.size:
        return Check(Accuracy(0.0, 0.0), Accuracy(0.0, 0.0), True)
    if piece.window is not None or piece.region is not None:
        return _check_rows(piece, natives, tensors, blocked)
    x = np.ascontiguousarray(x.T if piece.transposed else x, np.float32)
    extras = [np.ascontiguousarray(tensors[name], np.float32) for name in piece.extra_inputs]
    theirs = np.asarray(tensors[piece.output])
    reference, at = _reference(piece, x, extras)

    def judged() -> Check:
        ours = _run(piece, natives, x, extras, theirs.shape, blocked, enlarged)
        return judge(reference, _at(piece, ours, at), _at(piece, theirs, at))

    check = judged()
    return judged() if not check.passed and natives.by_eight(piece, blocked=blocked) else check


def _check_rows(piece: Piece, natives: Natives, tensors: Mapping[str, np.ndarray], blocked: bool) -> Check:
    """The same for a convolution or a region, on some rows of the result spread over it."""
    x, *extras = (
        np.ascontiguousarray(tensors[name], np.float32) for name in (piece.input, *piece.extra_inputs)
    )
    theirs = tensors[piece.output]
    ours = _run(piece, natives, x, extras, theirs.shape, blocked)
    batch, _, height, width = theirs.shape
    count = min(height, max(2, POSITIONS // (batch * width)))
    rows = -(-count // PLACES)
    starts = np.unique(np.linspace(0, height - rows, -(-count // rows)).astype(np.int64)).tolist()
    truth = Truth(piece.region or alone(piece), tensors)
    reference = [truth.rows(piece.output, start, start + rows) for start in starts]
    lines = np.concatenate([np.arange(start, start + rows) for start in starts])
    products = len(piece.gemm_nodes) if piece.region is not None else 1
    return judge(np.concatenate(reference, axis=2), ours[:, :, lines], theirs[:, :, lines], products)


def compare_outputs(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> Accuracy:
    """The largest differences between the outputs of two runs; VerificationError where it cannot be
    rounding."""
    worst = Accuracy(0.0, 0.0)
    for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
            if not np.array_equal(a, b):
                raise VerificationError(f"output {index} differs from onnxruntime's")
            continue
        if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
            raise VerificationError(f"output {index} has another shape, or other NaNs, than onnxruntime's")
        found = accuracy(a, b)
        if found.max_abs_error > WHOLE * max(_largest(b), 1e-30):
            raise VerificationError(
                f"output {index} differs from onnxruntime's by up to {found.max_abs_error:.2g}",
                expected=f"at most {WHOLE * _largest(b):.2g}",
            )
        worst = Accuracy(
            max(worst.max_abs_error, found.max_abs_error), max(worst.max_rel_error, found.max_rel_error)
        )
    return worst


def accuracy(found: np.ndarray, reference: np.ndarray) -> Accuracy:
    """Largest absolute and relative error over the finite elements of `reference`."""
    least = 1e-3 * _largest(reference)
    errors = [(0.0, 0.0)]
    ours, theirs = found.reshape(-1), reference.reshape(-1)
    for start in range(0, theirs.size, AT_ONCE):
        part = theirs[start : start + AT_ONCE].astype(np.float64)
        finite = np.isfinite(part)
        if finite.any():
            part = part[finite]
            difference = np.abs(ours[start : start + AT_ONCE].astype(np.float64)[finite] - part)
            size = np.maximum(np.abs(part), least)
            relative = np.divide(difference, size, out=np.zeros_like(difference), where=size > 0)
            errors.append((float(difference.max()), float(relative.max())))
    absolute, relative = np.max(errors, axis=0).tolist()  # NaN where one is
    return Accuracy(absolute, relative)


def judge(reference: np.ndarray, ours: np.ndarray, theirs: np.ndarray, products: int = 1) -> Check:
    """Whether our errors may stand; `products` follow one another, and each may add what is granted."""
    mine, other = accuracy(ours, reference), accuracy(theirs, reference)
    granted = ULPS * _largest(reference) * products
    same = bool(np.array_equal(np.isnan(ours), np.isnan(reference)))
    return Check(mine, other, same and mine.max_abs_error <= max(ALLOWED * other.max_abs_error, granted))


def _largest(values: np.ndarray) -> float:
    flat, largest = values.reshape(-1), 0.0
    for start in range(0, flat.size, AT_ONCE):
        part = flat[start : start + AT_ONCE]
        largest = max(largest, float(np.abs(part).max(initial=0.0, where=np.isfinite(part))))
    return largest


def _run(
    piece: Piece,
    natives: Natives,
    x: np.ndarray,
    extras: Sequence[np.ndarray],
    shape: Sequence[int],
    blocked: bool,
    enlarged: Enlarged | None = None,
) -> np.ndarray:
    """The piece's output, plain, of `shape`."""
    native = natives.build(piece, "Piece", blocked=blocked, enlarged=enlarged)
    if enlarged is not None:
        extras = [
            extra[..., :: enlarged.scale, :: enlarged.scale] if index == enlarged.index else extra
            for index, extra in enumerate(extras)
        ]
    given = [_block(array, natives.block) if blocked else array for array in (x, *extras)]
    names = [f"input{index}" for index in range(len(given))]
    graph = helper.make_graph(
        [helper.make_node("Piece", names, ["y"], domain=DOMAIN)],
        "piece",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * array.ndim)
            for name, array in zip(names, given, strict=True)
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = NativeSession(proto.SerializeToString(), [native.operator], threads=natives.threads)
    y = session.run(None, dict(zip(names, given, strict=True)))[0]
    if blocked:
        y = y.reshape(y.shape[0], -1, int(np.prod(y.shape[2:])), natives.block)
        y = from_blocks(y, shape[1])
    return y.reshape(shape)


def _block(array: np.ndarray, block: int) -> np.ndarray:
    """An image [batch, C, H, W] in blocks, declared as onnxruntime does."""
    batch, channels, *size = array.shape
    blocks = to_blocks(array.reshape(batch, channels, -1), block)
    return blocks.reshape(batch, -(-channels // block) * block, *size)


def _reference(
    piece: Piece, x: np.ndarray, extras: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray | None]:
    """The float64 result at some positions, and which these are (None: all)."""
    work = piece.chain or piece.run
    assert work is not None, "a piece that was built has work"
    shaped = [_positions_shape(piece, array) for array in (x, *extras)]
    count = shaped[0].shape[-1 if piece.order == "pixels" else 0]
    at = None
    if count > POSITIONS:
        at = np.unique(np.linspace(0, count - 1, POSITIONS).astype(np.int64))
        axis = -1 if piece.order == "pixels" else 0
        # a gate has one element for all positions
        shaped = [np.take(array, at, axis) if array.shape[axis] == count else array for array in shaped]
    return work.reference(shaped[0], shaped[1:]), at


def _positions_shape(piece: Piece, array: np.ndarray) -> np.ndarray:
    """[M, C] for rows, [batch, C, P] for pixels, of a tensor with the piece's input or output layout."""
    if piece.order == "pixels":
        batch = int(np.prod(array.shape[: piece.channel_axis]))
        return array.reshape(batch, array.shape[piece.channel_axis], -1)
    if not piece.widths:
        return array.reshape(-1, 1)
    return array.reshape(piece_rows(piece, array), -1)


def piece_rows(piece: Piece, array: np.ndarray) -> int:
    """How many rows a tensor of a "rows" piece has; that of its input decides."""
    assert piece.m is not None, "sizes are known when pieces are verified"
    return max(piece.m, 1) if array.size else 0


def _at(piece: Piece, y: np.ndarray, at: np.ndarray | None) -> np.ndarray:
    shaped = _positions_shape(piece, y)
    return shaped if at is None else np.take(shaped, at, axis=-1 if piece.order == "pixels" else 0)
