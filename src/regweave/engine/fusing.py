"""`fuse`: from a model file to a model that runs faster, with the reasons.

fused = fuse("recogniser.onnx", threads=2, dims={"width": 320})
outputs = fused.run({"x": image})
print(fused.report.whole.speedup)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx

from regweave.cascades import thread_count
from regweave.cascades.device import choose_machine
from regweave.devices.onnxruntime import unsupported_reason
from regweave.engine.attribution import node_names
from regweave.engine.deciding import Court, Decision, Judgement
from regweave.engine.fused import Fused
from regweave.engine.natives import Natives
from regweave.engine.optimiser import Workshop, block_size
from regweave.engine.proposals import proposed_chains, proposed_rest
from regweave.engine.report import Accuracy, PieceReport, Report, SeamReport, Shape, Timing
from regweave.engine.samples import sample_inputs, sized_model
from regweave.engine.verification import compare_outputs
from regweave.errors import InputError, nearest_names
from regweave.graphs import Model, Piece
from regweave.machines.x86 import VectorMachine
from regweave.rearrangement import STRATEGIES, seam_strategy

REFUSE = "refuse"
ON_REQUEST = "refused on request (strategy 'refuse')"


def fuse(
    model: str | os.PathLike[str] | onnx.ModelProto,
    threads: int | None = 1,
    dims: Mapping[str, int] | None = None,
    fuse: Iterable[str | Sequence[str]] = (),
    apart: Iterable[str] = (),
    strategy: str | None = None,
    tune: bool = False,
    machine: str | None = None,
    dtype: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Fused:
    """Run the cascades of an ONNX model as native kernels, where that is faster.

    `dims` gives sizes to dynamic dimensions (by name, or as "input[axis]"): those that decisions are made
    for. `fuse` names chains of products that must be fused, `apart` nodes that must not be; both win over
    cost, and what they name is verified all the same. `tune` measures every candidate instead of those that
    the cost model hopes for. `machine` and `dtype` add what each seam would be on that GPU; `strategy` is
    forced on those seams, or is "refuse", which leaves everything to onnxruntime. `progress` is told what is
    being done.

    Errors: ModelError for a file that cannot be read, InputError for the other arguments, UnsupportedError,
    VerificationError where what was asked for by name is not accurate.
    """
    say = progress or (lambda words: None)
    count = thread_count(threads)
    _check_strategy(strategy, machine, dtype)
    say("reading the model")
    read = sized_model(model, dims or {})
    feeds = sample_inputs(read)
    chains, refused = proposed_chains(read, fuse, apart, count)
    target = choose_machine()
    why_not = ON_REQUEST if strategy == REFUSE else _why_not(target)
    with Workshop(read.folder) as shop:
        say("running the model in onnxruntime")
        baseline = shop.open(read.proto, threads=count, optimise=True)
        expected = baseline.run(None, feeds)
        if why_not is not None or target is None:
            fates = [Judgement(p, False, why_not or "") for p in chains]
            report = _report(read, count, fates, refused, None, None, (machine, dtype, strategy))
            return Fused(read, report, {}, baseline)
        optimised = shop.optimise(read.proto, threads=count)
        names = node_names(optimised.graph)
        taken = [p.piece for p in chains if p.hopeful or p.piece.forced or tune]
        rest = proposed_rest(read, taken, apart, count, names)
        natives = Natives(target, count, block_size())
        court = Court(read, natives, shop, feeds, optimised, baseline, say, patient=tune)
        decision = court.decide([*chains, *rest])
        session = decision.build.open(shop, count) if decision.build else baseline
        say("comparing the outputs with onnxruntime's")
        errors = compare_outputs(session.run(None, feeds), expected)
        report = _report(
            read, count, decision.judgements, refused, decision, errors, (machine, dtype, strategy)
        )
        kernels = {_title(key, decision): native for key, native in _natives(decision).items()}
        return Fused(read, report, kernels, session)


def _check_strategy(strategy: str | None, machine: str | None, dtype: str | None) -> None:
    if (machine is None) != (dtype is None):
        raise InputError(
            "a GPU's seams need both a machine and a data type",
            where="machine" if machine is None else "dtype",
            fix="give both, for example machine='sm_80', dtype='tf32'",
        )
    if strategy is None:
        return
    known = ("auto", *STRATEGIES)
    if strategy not in known:
        raise InputError(
            f"unknown strategy {strategy!r}", where="strategy", expected=", ".join(known),
            nearest=nearest_names(strategy, known),
        )  # fmt: skip
    if machine is None and strategy not in ("auto", "identity", REFUSE):
        raise InputError(
            f"strategy {strategy!r} moves data between the lanes of a warp, which a CPU's seams do not need",
            where="strategy",
            expected="identity or refuse, or a machine and a dtype",
            fix="add machine='sm_80', dtype='tf32'",
        )


def _why_not(target: VectorMachine | None) -> str | None:
    if target is None:
        return "this processor (or REGWEAVE_ISA) has no native kernels; onnxruntime runs everything"
    return unsupported_reason()


def _natives(decision: Decision):
    return decision.build.natives if decision.build else {}


def _title(op_type: str, decision: Decision) -> str:
    """A kernel's file name: the piece's, with what distinguishes its variant."""
    assert decision.build is not None, "only built models have kernels"
    for name, piece in decision.build.pieces.items():
        if op_type.startswith(name) and op_type.removeprefix(name) in ("", "Blocked"):
            return piece.name + (".blocked" if op_type != name else "")
    return op_type


def _report(
    model: Model,
    threads: int,
    judgements: Sequence[Judgement],
    refused: Sequence[Piece],
    decision: Decision | None,
    errors: Accuracy | None,
    gpu: tuple[str | None, str | None, str | None],
) -> Report:
    reports = [_piece_report(fate, gpu) for fate in judgements]
    places = {name: index for index, name in enumerate(node.name for node in model.nodes)}
    cascades = [r for r in reports if r.kind == "chain"] + [_refused_report(piece) for piece in refused]
    whole = None
    if decision is not None:
        times = decision.result.medians
        before, after = times["before"] * 1e3, times["after"] * 1e3
        ratio = decision.result.ratio("before", "after")
        whole = Timing(before, after, ratio) if decision.build else Timing(before, before, 1.0)
    return Report(
        model.name,
        threads,
        tuple(sorted(cascades, key=lambda r: places.get(r.nodes[0], 0))),
        tuple(r for r in reports if r.kind != "chain"),
        whole,
        errors,
    )


def _piece_report(fate: Judgement, gpu: tuple[str | None, str | None, str | None]) -> PieceReport:
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
    return (tuple(map(str, piece.run.ops)),) if piece.run is not None else ()


def _seams(piece: Piece, gpu: tuple[str | None, str | None, str | None]) -> tuple[SeamReport, ...]:
    machine, dtype, strategy = gpu
    if machine is None or dtype is None or len(piece.widths) < 3:
        return ()
    return tuple(
        SeamReport(seam.strategy, seam.reason)
        for seam in seam_strategy(piece.widths, dtype, machine, strategy or "auto")
    )
