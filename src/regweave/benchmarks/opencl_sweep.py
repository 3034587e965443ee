"""Every form and every tile of a convolution on the OpenCL device, against the one that the planner takes.

    every plan that fits      compiled, checked against float64, timed beside the planner's own
    the fastest of them       timed again, in turns, with many rounds

A case takes minutes, nearly all of it in the compiler. `own_over_best` is what the planner's choice takes in
units of the fastest: 1.0 is perfect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.benchmarks.cases import relative_error
from regweave.benchmarks.comparison import TOLERANCE
from regweave.benchmarks.convolution_cases import ConvolutionCase, ConvolutionData
from regweave.benchmarks.interleave import check_counts, interleaved_times
from regweave.benchmarks.opencl_peers import own_plan, runner_of
from regweave.benchmarks.peers import Runner
from regweave.errors import VerificationError

if TYPE_CHECKING:
    from regweave.convolution import ConvPlan

#: Plans that are timed a second time; quick runs of each plan before that.
FINALISTS, TRIES = 12, 3


def sweep_tiles(
    cases: Sequence[ConvolutionCase],
    *,
    rounds: int = 30,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """What `regweave bench conv --opencl --sweep --json` prints. Errors: InputError for rounds below 1,
    VerificationError where a plan computes something else, DeviceError without a device."""
    check_counts(1, rounds)
    return {"rounds": rounds, "cases": [_swept(case, rounds, say) for case in cases]}


def every_plan(own: ConvPlan) -> list[ConvPlan]:
    """All forms and tiles for the convolution and the machine of `own`."""
    from regweave.convolution.planner import candidates

    return list(candidates(own.convolution, own.dtype, own.machine))


def _swept(case: ConvolutionCase, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    data, own = case.data(), own_plan(case.convolution)
    every = every_plan(own)
    ours, shares = _runner(own, data), []
    for number, plan in enumerate(every):
        say(f"{case.name}: plan {number + 1} of {len(every)}")
        run = _runner(plan, data)
        shares.append(_quickest(run) / _quickest(ours))
    order = sorted(range(len(every)), key=shares.__getitem__)
    finalists = {str(number): every[number] for number in order[:FINALISTS]}
    runners = {name: _runner(plan, data) for name, plan in finalists.items()}
    times = interleaved_times(
        {**runners, "own": ours}, rounds=rounds, say=lambda words: say(f"{case.name}: {words}")
    )
    own_ms = times.pop("own")
    best = min(times, key=times.__getitem__)
    return {
        "name": case.name,
        "plans": len(every),
        "own": _told(own, own_ms),
        "best": _told(finalists[best], times[best]),
        "own_over_best": own_ms / min(own_ms, times[best]),
        "finalists": [_told(finalists[name], times[name]) for name in sorted(times, key=times.__getitem__)],
        "all": [{**_told(plan), "over_own": share} for plan, share in zip(every, shares, strict=True)],
    }


def _runner(plan: ConvPlan, data: ConvolutionData) -> Runner:
    from regweave.convolution import OpenCLConvolution

    run = runner_of(OpenCLConvolution(plan, data.weights), data)
    error = relative_error(np.asarray(run()), data.expected)
    if not error <= TOLERANCE:
        raise VerificationError(
            f"{plan.form} rows, {plan.outputs_per_thread}: off by {error:.1e} of the largest element",
            where=data.case.name,
            expected=f"at most {TOLERANCE:.0e}, against float64",
        )
    return run


def _quickest(run: Runner) -> float:
    seconds = []
    for _ in range(TRIES):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _told(plan: ConvPlan, milliseconds: float | None = None) -> dict[str, Any]:
    told = {
        "form": plan.form,
        "outputs_per_thread": list(plan.outputs_per_thread),
        "predicted_ms": plan.predicted_ms,
    }
    return told if milliseconds is None else {**told, "ms": milliseconds}
