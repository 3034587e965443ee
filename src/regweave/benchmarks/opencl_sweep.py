"""Every form and every tile of a convolution on the OpenCL device, against the one that the planner takes.

    every plan that fits      compiled by all processors, and kept on disk: an interrupted sweep goes on
    one after the other       its result is compared with float64, or with one that was, bit for bit
    all of them, in turns     a few rounds; each counts with its quickest run; the slow ones run once
    the fastest of them       timed again, in turns, with many rounds

All read one image and write one result, so that hundreds can be kept for the rounds. The first sweep of a
case takes minutes, nearly all of it in the compiler. `own_over_best` is what the planner's choice takes in
units of the fastest: 1.0 is perfect.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.benchmarks.cases import relative_error
from regweave.benchmarks.comparison import TOLERANCE
from regweave.benchmarks.convolution_cases import ConvolutionCase, ConvolutionData
from regweave.benchmarks.interleave import check_counts, interleaved_times
from regweave.benchmarks.opencl_peers import own_plan, runner_of
from regweave.benchmarks.peers import Runner
from regweave.cascades.threads import usable_processors
from regweave.errors import VerificationError

if TYPE_CHECKING:
    from regweave.convolution import ConvPlan

#: Plans that are timed a second time; turns before that; how much slower ones have a single turn.
FINALISTS, TRIES, SLOW = 12, 5, 2.0


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
    from regweave.convolution.plans.tiles import candidates

    return list(candidates(own.convolution, own.dtype, own.machine))


def _swept(case: ConvolutionCase, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    own = own_plan(case)
    every = every_plan(own)
    chosen = next(
        number
        for number, plan in enumerate(every)
        if (plan.form, plan.outputs_per_thread) == (own.form, own.outputs_per_thread)
    )
    saying = partial(_say_of, say, case.name)
    _compile(every, saying)
    runners = _runners(case, every, saying)
    quick = _quickest(runners, saying)
    order = sorted(range(len(every)), key=quick.__getitem__)
    finalists = {str(number): runners[number] for number in {*order[:FINALISTS], chosen}}
    times = interleaved_times(finalists, rounds=rounds, say=saying)
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


def _say_of(say: Callable[[str], None], name: str, words: str) -> None:
    say(f"{name}: {words}")


def _compile(every: Sequence[ConvPlan], say: Callable[[str], None]) -> None:
    """The kernels of all plans on disk."""
    from regweave.convolution.lanes.emitting import bare_text
    from regweave.devices.opencl import compile_all, open_gpu

    say("looking for compiled kernels")
    texts = [bare_text(plan, "opencl") for plan in every]
    compile_all(texts, open_gpu(), processes=usable_processors(), say=say)


def _runners(case: ConvolutionCase, every: Sequence[ConvPlan], say: Callable[[str], None]) -> list[Runner]:
    """All plans on one image and one result, each verified."""
    from regweave.convolution import OpenCLConvolution

    data = case.data()
    # rearranged rows of all others fit the memory of the one that has most of them
    first = max(range(len(every)), key=lambda number: every[number].workspace_bytes)
    one = OpenCLConvolution(every[first], data.weights)
    right = np.empty(0, np.float32)
    runners: list[Runner] = []
    for number, plan in enumerate(every):
        say(f"verifying plan {number + 1} of {len(every)}")
        run = runner_of(one if number == first else OpenCLConvolution(plan, data.weights, beside=one), data)
        found = np.asarray(run())
        if not np.array_equal(found, right):
            _check(plan, data, found)
            right = found
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


def _quickest(runners: Sequence[Runner], say: Callable[[str], None]) -> list[float]:
    """The quickest run of each, in seconds."""
    best: list[float] = [math.inf] * len(runners)
    for turn in range(TRIES):
        fast = [number for number, taken in enumerate(best) if not turn or taken <= SLOW * min(best)]
        for place, number in enumerate(fast):
            if place % 20 == 0:
                say(f"run {place + 1} of {len(fast)}, turn {turn + 1} of {TRIES}")
            start = time.perf_counter()
            runners[number]()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def _told(plan: ConvPlan, milliseconds: float | None = None) -> dict[str, Any]:
    told = {
        "form": plan.form,
        "outputs_per_thread": list(plan.outputs_per_thread),
        "predicted_ms": plan.predicted_ms,
    }
    return told if milliseconds is None else {**told, "ms": milliseconds}
