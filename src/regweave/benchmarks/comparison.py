"""Side by side: each case, every peer and ours, interleaved, checked, as one document.

    >>> compare(CASCADES[:1], threads=1)["cases"][0]
    {"name": "16384x64-64-64-64", "peers": {"numpy": 9.8, ...}, "ours_ms": 2.9,
     "ratio_best_peer": 1.71, "of_peak": 0.83, ...}

A ratio above 1 says that the best peer takes that many times as long as we do. `of_peak` is what we
reach of the machine's FMA rate, which has its turn in every round like any library; `of_bound` is the share
of our time that is needed at least: that of the operations at this rate or that of the bytes at the rate of a
copy, whichever is longer. Operations are counted as the case is written: a convolution that gets by with
fewer products (transformed rows, a column times a row) may pass the peak and the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from regweave.benchmarks.bounds import machine_bounds, peak_runner
from regweave.benchmarks.cases import CascadeCase, CascadeData, ProductCase, ProductData, relative_error
from regweave.benchmarks.convolution_cases import ConvolutionCase, ConvolutionData
from regweave.benchmarks.filter_cases import FilterCase, FilterData
from regweave.benchmarks.image_cases import ImageCase, ImageData
from regweave.benchmarks.interleave import check_counts, interleaved_times
from regweave.benchmarks.memory import keep_freed_memory
from regweave.benchmarks.peers import OPENCL_PEERS, PEER_CLASSES, MissingPeerError, Runner, peer_named
from regweave.devices import cpu
from regweave.errors import UnsupportedError, VerificationError, unknown_name

OURS, PEAK = "regweave", "FMA peak"
# f32 sums of up to some thousand terms; a wrong element is off by orders of magnitude more
TOLERANCE = 2e-5

Case = CascadeCase | ProductCase | ConvolutionCase | FilterCase | ImageCase
Data = CascadeData | ProductData | ConvolutionData | FilterData | ImageData
Say = Callable[[str], None]


def compare(
    cases: Sequence[Case],
    *,
    threads: int = 1,
    rounds: int = 30,
    peers: Sequence[str] = tuple(PEER_CLASSES),
    opencl: bool = False,
    say: Say = lambda message: None,
) -> dict[str, Any]:
    """Measure `cases` and return the document that `regweave bench --json` prints.

    With `opencl`, ours are kernels on the OpenCL device. Raises InputError for unknown peers or counts below
    1, VerificationError when any library, ours included, returns a wrong result.
    """
    check_counts(threads, rounds)
    _check_names(peers)
    keep_freed_memory()
    say("the machine's own bounds")
    bounds = machine_bounds(threads)
    machine = cpu.chosen_machine()
    peak = None if machine is None else peak_runner(machine, threads)
    missing: dict[str, str] = {}
    document = {"threads": threads, "rounds": rounds, "machine": bounds, "missing": missing, "cases": []}
    for case in cases:
        say(f"{case.name}: preparing")
        data = case.data()
        runners = {OURS: (_opencl_runner if opencl else _our_runner)(case.kind, data, threads)}
        for name in peers:
            say(f"{case.name}: preparing {name}")
            try:
                runners[name] = _peer_runner(name, case.kind, data, threads)
            except MissingPeerError as error:
                missing[name] = str(error)
            except UnsupportedError:
                continue  # a library that has no such operation, which its name says
        errors = {name: _checked(name, case.name, run, data) for name, run in runners.items()}
        turns = {**runners, **({PEAK: peak[0]} if peak else {})}
        times = interleaved_times(
            turns, rounds=rounds, threads=threads, say=lambda words, name=case.name: say(f"{name}: {words}")
        )
        rate = peak[1] / times.pop(PEAK) / 1e6 if peak else None
        document["cases"].append(_result(case, times, errors, rate, bounds["copy_gb_per_s"]))
    return document


def _check_names(peers: Sequence[str]) -> None:
    known = (*PEER_CLASSES, *OPENCL_PEERS)
    for name in peers:
        if name not in known:
            raise unknown_name("peer", name, known, where="--peer")


def _our_runner(kind: str, data: Data, threads: int) -> Runner:
    from regweave.benchmarks.our_side import OurSide

    return getattr(OurSide(), kind)(data, threads)


def _opencl_runner(kind: str, data: Data, threads: int) -> Runner:
    from regweave.benchmarks.opencl_peers import OpenclSide

    return getattr(OpenclSide(), kind)(data, threads)


def _peer_runner(name: str, kind: str, data: Data, threads: int) -> Runner:
    return getattr(peer_named(name), kind)(data, threads)


def _checked(name: str, case: str, run: Runner, data: Data) -> float:
    error = relative_error(np.asarray(run()), data.expected)
    allowed = getattr(data, "tolerance", None) or TOLERANCE
    if not error <= allowed:  # also catches NaN
        raise VerificationError(
            f"the result of {name} is wrong: off by {error:.1e} of the largest element",
            where=case,
            expected=f"at most {allowed:.0e}, against float64",
        )
    return error


def _result(
    case: Case,
    times: dict[str, float],
    errors: dict[str, float],
    peak: float | None,
    copy: float,
) -> dict[str, Any]:
    ours = times[OURS]
    peers = {name: ms for name, ms in times.items() if name != OURS}
    gflops = case.flops / ours / 1e6
    floor = max(case.flops / peak, case.bytes / copy) / 1e6 if peak else None
    return {
        "name": case.name,
        "peers": peers,
        "ours_ms": ours,
        "ratio_best_peer": best_peer_ratio(peers, ours),
        "of_peak": gflops / peak if peak else None,
        "of_bound": floor / ours if floor else None,
        "ours_gflops": gflops,
        "fma_peak_gflops": peak,
        "relative_errors": errors,
        "times": getattr(case, "times", 1),
    }


def summed(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The time of all `cases` of a document, each as many times as it says: ours, and that of every peer
    which takes part in each."""
    ours = sum(case["ours_ms"] * case["times"] for case in cases)
    known = (*PEER_CLASSES, *OPENCL_PEERS)
    names = [name for name in known if cases and all(name in case["peers"] for case in cases)]
    peers = {name: sum(case["peers"][name] * case["times"] for case in cases) for name in names}
    return {"ours_ms": ours, "peers": peers, "ratio_best_peer": best_peer_ratio(peers, ours)}


def best_peer_ratio(peers: Mapping[str, float], ours: float) -> float | None:
    """The fastest peer's time over ours; None without peers. Ours in another order is none of them."""
    others = [ms for name, ms in peers.items() if not name.startswith(f"{OURS}.")]
    return min(others) / ours if others else None
