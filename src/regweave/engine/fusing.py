"""`fuse`: from a model file to a model that runs faster, with the reasons.

fused = fuse("recogniser.onnx", threads=2, dims={"width": 320})
outputs = fused.run({"x": image})
print(fused.report.whole.speedup)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import onnx

from regweave.cascades import thread_count
from regweave.cascades.device import choose_machine
from regweave.cascades.threads import usable_processors
from regweave.devices.onnxruntime import NativeSession, unsupported_reason
from regweave.engine.building.optimiser import Workshop, block_size
from regweave.engine.deciding.deciding import decide
from regweave.engine.deciding.evidence import Evidence
from regweave.engine.deciding.judgement import Judgement
from regweave.engine.deciding.proposals import proposed_chains, proposed_rest
from regweave.engine.fused import Fused
from regweave.engine.inputs import ports_of
from regweave.engine.measuring.attribution import node_names
from regweave.engine.natives.natives import Natives
from regweave.engine.reporting import Gpu, kernels_by_title, make_report
from regweave.engine.verifying.samples import sample_inputs, sized_model
from regweave.engine.verifying.verification import compare_outputs
from regweave.errors import DeviceError, InputError, ModelError, unknown_name
from regweave.graphs import Model, spread, spreads
from regweave.graphs.discovery.requests import listed
from regweave.machines.x86 import VectorMachine
from regweave.rearrangement import STRATEGIES, seam_strategy

MOST_THREADS = 8
"""Per processor: onnxruntime's threads spin while they wait, and a run then takes seconds."""
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
    if progress is not None and not callable(progress):
        raise InputError(f"progress is {progress!r}", where="progress", expected="a function of a text")
    say = progress or (lambda words: None)
    count = _checked_threads(threads)
    gpu = _checked_gpu(strategy, machine, dtype)
    apart = listed(apart, "apart")
    say("reading the model")
    read = sized_model(model, dims or {})
    say("making inputs")
    feeds = sample_inputs(read)
    parts = spreads(read)
    seen = spread(read, parts)
    chains, refused = proposed_chains(seen, fuse, apart, count)
    target = choose_machine()
    why_not = ON_REQUEST if strategy == REFUSE else _why_not(target)
    with Workshop(read.folder) as shop:
        say("running the model in onnxruntime")
        baseline = _baseline(shop, read, count)
        feeds, expected = _first_run(baseline, feeds, read)
        if expected is None:
            why_not = "the model does not run with inputs drawn at random: nothing can be measured"
        if why_not is not None or target is None or expected is None:
            fates = [Judgement(p, False, why_not or "") for p in chains]
            report = make_report(read, count, fates, refused, None, None, gpu)
            return Fused(ports_of(read), report, {}, baseline)
        optimised = shop.optimise(read.proto, threads=count)
        names = node_names(optimised.graph)
        taken = [p.piece for p in chains if p.hopeful or p.piece.forced or tune]
        rest, spare = proposed_rest(seen, taken, apart, count, names)
        natives = Natives(target, count, block_size())
        evidence = Evidence(seen, read, parts, natives, shop, feeds, optimised, baseline, say, patient=tune)
        decision = decide(evidence, [*chains, *rest], spare)
        session = decision.session
        say("comparing the outputs with onnxruntime's")
        errors = compare_outputs(session.run(None, feeds), expected)
        report = make_report(read, count, decision.judgements, refused, decision, errors, gpu)
        return Fused(ports_of(read), report, kernels_by_title(decision.build), session)


def _checked_threads(threads: int | None) -> int:
    """The number of threads; InputError where there would be so many that onnxruntime's wait for one
    another."""
    count, most = thread_count(threads), MOST_THREADS * usable_processors()
    if count > most:
        raise InputError(
            f"{count} threads for {usable_processors()} processors",
            where="threads",
            expected=f"at most {most}",
        )
    return count


def _baseline(shop: Workshop, read: Model, threads: int) -> NativeSession:
    """The model as onnxruntime runs it; ModelError where it does not take it."""
    try:
        return shop.open(read.proto, threads=threads, optimise=True)
    except DeviceError as error:
        raise ModelError(
            error.what,
            where=read.name,
            expected="a model that onnxruntime runs",
            fix="onnx.checker.check_model(model, full_check=True) tells what is wrong with a model",
        ) from error


def _first_run(
    session: NativeSession, feeds: Mapping[str, Any], read: Model
) -> tuple[Mapping[str, Any], list[Any] | None]:
    """Inputs that the model runs with, and what onnxruntime makes of them; InputError where it cannot run it
    with the sizes given. None where it may be for values that nobody can guess."""
    try:
        return feeds, session.run(None, feeds)
    except DeviceError as error:
        whole = any(array.dtype.kind in "iu" for array in feeds.values())
        if whole:
            with suppress(DeviceError):
                ones = sample_inputs(read, whole=1)
                return ones, session.run(None, ones)
        if whole or not read.dims:
            return feeds, None
        sizes = ", ".join(f"{name}={size}" for name, size in read.dims.items())
        raise InputError(
            f"the model does not run with these sizes: {error.what}",
            where=f"dims {sizes}",
            fix="give sizes that the model is made for",
        ) from error


def _checked_gpu(strategy: str | None, machine: str | None, dtype: str | None) -> Gpu | None:
    """The GPU to show seams for, or None; InputError for what does not go together."""
    if (machine is None) != (dtype is None):
        raise InputError(
            "a GPU's seams need both a machine and a data type",
            where="machine" if machine is None else "dtype",
            fix="give both, for example machine='sm_80', dtype='tf32'",
        )
    gpu = Gpu(machine, dtype, strategy) if machine is not None and dtype is not None else None
    if strategy is not None:
        _check_strategy(strategy, machine)
    if gpu is not None:  # an unknown machine or type is told before anything runs
        seam_strategy((64, 64, 64), gpu.dtype, gpu.machine, strategy or "auto")
    return gpu


def _check_strategy(strategy: str, machine: str | None) -> None:
    """InputError for a strategy that there is not, or not on a processor."""
    known = ("auto", *STRATEGIES)
    if strategy not in known:
        raise unknown_name("strategy", strategy, known, where="strategy")
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
