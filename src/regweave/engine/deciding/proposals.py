"""What is proposed for native execution.

Three kinds are proposed: chains of products, as long as they can be; single products; and runs of
element-wise work. A run that follows a convolution loses what onnxruntime folds into the convolution anyway
(bias, batch norm, one activation): what is left, if anything, is proposed. What is hoped of each piece
`predictions` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from regweave.engine.deciding.predictions import FOLDED, FOLDED_ACTIVATIONS, Proposal, predicted
from regweave.engine.measuring.attribution import Names
from regweave.graphs import Model, Piece, find_candidates, find_convolutions, find_pieces
from regweave.operators import Elementwise

LEAST_GAIN = 2e-6
"""Seconds; a lesser gain is not worth a kernel."""

_NOTHING = ("Identity", "Dropout", "Reshape", "Squeeze", "Unsqueeze", "Flatten")


def proposed_chains(
    model: Model, fuse: Iterable[str | Sequence[str]], apart: Iterable[str], threads: int
) -> tuple[list[Proposal], list[Piece]]:
    """Chains with their prediction, and the refused candidates."""
    found = find_candidates(model, fuse, apart)
    chains = [predicted(model, piece, threads) for piece in found if piece.refusal is None]
    return chains, [piece for piece in found if piece.refusal is not None]


def proposed_rest(
    model: Model, chains: Sequence[Piece], apart: Iterable[str], threads: int, alive: Names
) -> tuple[list[Proposal], list[Proposal]]:
    """Convolutions, single products and element-wise runs in what the chosen chains leave; and those that are
    hardly worth it alone, but may be part of a region.

    `alive` are the nodes that onnxruntime's optimiser leaves standing. What it makes something better of (a
    layer norm, say) is not proposed: one node taken out would cost the whole of it.
    """
    kept = set(apart)

    def tried(pieces: Iterable[Piece]) -> Iterator[Proposal]:
        for piece in pieces:
            trimmed = _trimmed(model, piece) if piece.kind == "elementwise" else piece
            if trimmed is None or kept & set(trimmed.nodes) or not _stands(model, trimmed, alive):
                continue
            yield predicted(model, trimmed, threads)

    def gains(proposal: Proposal) -> bool:
        return proposal.before - proposal.after > LEAST_GAIN

    # activations behind convolutions that stay in onnxruntime are runs of their own
    every = list(tried(find_convolutions(model, chains)))
    convolutions = list(filter(gains, every))
    taken = [*chains, *(proposal.piece for proposal in convolutions)]
    every += tried(find_pieces(model, taken))
    return list(filter(gains, every)), [proposal for proposal in every if not gains(proposal)]


def _stands(model: Model, piece: Piece, alive: Names) -> bool:
    """Whether onnxruntime runs the piece's nodes (its product, if it has one) as they are.

    A blocked convolution is named after the tensor that it makes.
    """
    if piece.gemm_nodes:
        made = {name for node in piece.nodes for name in model.nodes[model.positions[node]].output}
        return piece.gemm_nodes[0] in alive.stems or bool(made & alive.stems)
    names = [n for n in piece.nodes if model.nodes[model.positions[n]].op_type not in _NOTHING]
    return all(name in alive.whole for name in names)


def _trimmed(model: Model, piece: Piece) -> Piece | None:
    """A run without the steps that onnxruntime folds into the convolution in front; None if nothing is
    left."""
    steps, source = list(piece.steps), piece.input
    maker = model.makers.get(source)
    if maker is None or model.nodes[maker].op_type != "Conv":
        return piece
    while (
        steps
        and len(model.readers.get(source, ())) == 1
        and all(isinstance(op, FOLDED) for op in steps[0].ops)
    ):
        source = steps.pop(0).output
    if steps and _folds_activation(model, source, steps[0].ops):
        source = steps.pop(0).output
    if not any(step.ops for step in steps):
        return None
    return replace(
        piece,
        steps=tuple(steps),
        nodes=tuple(dict.fromkeys(name for step in steps for name in step.nodes)),
        input=source,
        input_shape=model.shapes.get(source),
    )


def _folds_activation(model: Model, source: str, ops: Sequence[Elementwise]) -> bool:
    return (
        len(ops) == 1 and isinstance(ops[0], FOLDED_ACTIVATIONS) and len(model.readers.get(source, ())) == 1
    )
