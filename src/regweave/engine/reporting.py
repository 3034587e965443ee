"""From judgements to the report that a person or a program reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from regweave.devices.onnxruntime import DOMAIN
from regweave.engine.building.building import BLOCKED, Build
from regweave.engine.deciding.deciding import Decision
from regweave.engine.deciding.judgement import Judgement
from regweave.engine.natives.native import Native
from regweave.engine.report import Accuracy, NativeShare, PieceReport, Report, SeamReport, Shape, Timing
from regweave.graphs import Model, Piece
from regweave.rearrangement import seam_strategy


@dataclass(frozen=True)
class Gpu:
    """The GPU that seams are also shown for: machine, data type and, if one is forced, strategy."""

    machine: str
    dtype: str
    strategy: str | None = None


def kernels_by_title(build: Build | None) -> dict[str, Native]:
    """Every kernel under a name for its files: the piece's, with what distinguishes its variant."""
    if build is None:
        return {}
    titles = {name: piece.name for name, piece in build.pieces.items()}
    titles |= {name + BLOCKED: f"{piece.name}.blocked" for name, piece in build.pieces.items()}
    return {titles.get(name, name): native for name, native in build.natives.items()}


def make_report(
    model: Model,
    threads: int,
    judgements: Sequence[Judgement],
    refused: Sequence[Piece],
    decision: Decision | None,
    errors: Accuracy | None,
    gpu: Gpu | None,
) -> Report:
    """The report on a model; without a `decision` nothing was tried."""
    reports = [_piece_report(fate, gpu) for fate in judgements]
    places = {name: index for index, name in enumerate(node.name for node in model.nodes)}
    cascades = [r for r in reports if r.kind == "chain"] + [_refused_report(piece) for piece in refused]
    whole = None
    if decision is not None:
        before, after = (1e3 * seconds for seconds in decision.result.typical("before", "after"))
        whole = Timing(before, after, before / after)
    return Report(
        model.name,
        threads,
        tuple(sorted(cascades, key=lambda r: places.get(r.nodes[0], 0))),
        tuple(r for r in reports if r.kind != "chain"),
        whole,
        errors,
        decision.notes if decision is not None else (),
        native=_native_share(model, reports, whole, decision.build if decision is not None else None),
    )


def _native_share(
    model: Model, reports: Sequence[PieceReport], whole: Timing | None, build: Build | None
) -> NativeShare | None:
    fused = [piece for piece in reports if piece.decision == "fused"]
    if whole is None:
        return None
    nodes = {name for piece in fused for name in piece.nodes} & model.positions.keys()
    spent = sum(piece.measured.fused_ms for piece in fused if piece.measured)
    regions = sum(piece.kind == "region" for piece in fused)
    running = build.proto.graph.node if build is not None else ()
    left = Counter(node.op_type for node in running if node.domain != DOMAIN)
    return NativeShare(
        len(nodes),
        len(model.nodes),
        len(fused),
        regions,
        len(running) - left.total(),
        min(1.0, spent / max(whole.fused_ms, 1e-9)),
        dict(left.most_common()),
    )


def _piece_report(fate: Judgement, gpu: Gpu | None) -> PieceReport:
    proposal, piece = fate.proposal, fate.proposal.piece
    moved = (
        {"bytes_unfused": proposal.bytes_unfused, "bytes_fused": proposal.bytes_fused}
        if proposal.bytes_unfused is not None and proposal.bytes_fused is not None
        else None
    )
    return PieceReport(
        piece.kind,
        piece.nodes,
        Shape(piece.m, piece.widths),
        _activations(piece),
        "fused" if fate.fused else "refused",
        fate.reason,
        moved,
        fate.timing,
        fate.check.ours if fate.check else None,
        fate.check.theirs.max_abs_error if fate.check else None,
        _seams(piece, gpu),
    )


def _refused_report(piece: Piece) -> PieceReport:
    return PieceReport("chain", piece.nodes, Shape(piece.m, piece.widths), (), "refused", piece.refusal or "")


def _activations(piece: Piece) -> tuple[tuple[str, ...], ...]:
    if piece.chain is not None:
        return tuple(tuple(map(str, stage.epilogue)) for stage in piece.chain.stages)
    if piece.layer is not None:
        return (tuple(map(str, piece.layer.epilogue)),)
    return (tuple(map(str, piece.run.ops)),) if piece.run is not None else ()


def _seams(piece: Piece, gpu: Gpu | None) -> tuple[SeamReport, ...]:
    if gpu is None or len(piece.widths) < 3:
        return ()
    seams = seam_strategy(piece.widths, gpu.dtype, gpu.machine, gpu.strategy or "auto")
    return tuple(SeamReport(seam.strategy, seam.reason) for seam in seams)
