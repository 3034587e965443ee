"""Every form and every tile of a convolution on the OpenCL device, against the one that the planner takes.

    every plan that fits      compiled; its result is compared with float64, or with one that was, bit for bit
    all of them, in turns     a few rounds; each counts with its quickest run
    the fastest of them       timed again, in turns, with many rounds

All read one image and write one result, so that hundreds can be kept for the rounds. A case takes minutes,
nearly all of it in the compiler. `own_over_best` is what the planner's choice takes in units of the fastest:
1.0 is perfect.
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
    from regweave.convolution import ConvPlan, OpenCLConvolution

#: Plans that are timed a second time; rounds of all plans before that.
FINALISTS, TRIES = 12, 5


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
    own = own_plan(case)
    every = every_plan(own)
    chosen = next(
        number
        for number, plan in enumerate(every)
        if (plan.form, plan.outputs_per_thread) == (own.form, own.outputs_per_thread)
    )
    runners = _runners(case, every, lambda words: say(f"{case.name}: {words}"))
    quick = [
        min(seconds) for seconds in zip(*(_round(case, runners, say) for _ in range(TRIES)), strict=True)
    ]
    order = sorted(range(len(every)), key=quick.__getitem__)
    finalists = {str(number): runners[number] for number in {*order[:FINALISTS], chosen}}
    times = interleaved_times(finalists, rounds=rounds, say=lambda words: say(f"{case.name}: {words}"))
    best = min(times, key=times.__getitem__)
    return {
        "name": case.name,
        "plans": len(every),
        "own": _told(own, times[str(chosen)]),
        "best": _told(every[int(best)], times[best]),
        "own_over_best": times[str(chosen)] / times[best],
        "finalists": [_told(every[int(name)], times[name]) for name in sorted(times, key=times.__getitem__)],
        "all": [
            {**_told(plan), "over_own": taken / quick[chosen]}
            for plan, taken in zip(every, quick, strict=True)
        ],
    }


def _runners(case: ConvolutionCase, every: Sequence[ConvPlan], say: Callable[[str], None]) -> list[Runner]:
    """All plans compiled, on one image and one result, each verified."""
    from regweave.convolution import OpenCLConvolution

    data = case.data()
    first: OpenCLConvolution | None = None
    right = np.empty(0, np.float32)
    runners = []
    for number, plan in enumerate(every):
        say(f"plan {number + 1} of {len(every)}")
        layer = OpenCLConvolution(plan, data.weights, beside=first)
        run = runner_of(layer, data)
        found = np.asarray(run())
        if first is None or not np.array_equal(found, right):
            _check(plan, data, found)
        if first is None:
            first, right = layer, found
        runners.append(run)
    return runners


def _check(plan: ConvPlan, data: ConvolutionData, found: np.ndarray) -> None:
    error = relative_error(found, data.expected)
    allowed = data.tolerance or TOLERANCE
    if not error <= allowed:
        raise VerificationError(
            f"{plan.form} rows, {plan.outputs_per_thread}: off by {error:.1e} of the largest element",
            where=data.case.name,
            expected=f"at most {allowed:.0e}, against float64",
        )


def _round(case: ConvolutionCase, runners: Sequence[Runner], say: Callable[[str], None]) -> list[float]:
    seconds = []
    for number, run in enumerate(runners):
        if number % 20 == 0:
            say(f"{case.name}: run {number + 1} of {len(runners)}")
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return seconds


def _told(plan: ConvPlan, milliseconds: float | None = None) -> dict[str, Any]:
    told = {
        "form": plan.form,
        "outputs_per_thread": list(plan.outputs_per_thread),
        "predicted_ms": plan.predicted_ms,
    }
    return told if milliseconds is None else {**told, "ms": milliseconds}
