"""What each node of a model costs where it stands: onnxruntime's own profile of a few runs.

    profiles({"before": open_before, "after": open_after}, feeds)["after"]["Conv_12_nchwc"] == 1.26e-3

This is how a piece is compared in place: its node's time with the reorders around it, against the times of
all the nodes that it replaced. A model cut out for timing would have other layouts at its ends and other
caches. The models take turns, run by run, so that a clock that drifts is the same for all.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regweave.devices.onnxruntime import NativeSession
from regweave.engine.racing import PAUSE

_SUFFIX = "_kernel_time"
WARM_UP, LEAST, MOST = 2, 4, 4
SETTLED = 1.02

Profile = dict[str, float]
"""Seconds of each node by name, from its fastest runs: interruptions only ever add."""


def profiles(
    openers: Mapping[str, Callable[[Path], NativeSession]],
    feeds: Mapping[str, Any],
    *,
    runs: int = 12,
    seconds: float = 4.0,
    threads: int = 1,
) -> dict[str, Profile]:
    """The profile of each model. An opener opens it, profiling into files of the prefix that it is given.

    Runs until `runs` are done and the fastest run of each model has been met twice, which on a busy machine
    takes longer: up to MOST times as many, or until `seconds` have passed (but LEAST runs in any case).
    """
    with tempfile.TemporaryDirectory(prefix="regweave-") as folder:
        sessions = {name: opener(Path(folder) / name) for name, opener in openers.items()}
        totals: dict[str, list[float]] = {name: [] for name in sessions}
        started, done = time.perf_counter(), 0
        while done < WARM_UP + LEAST or not (
            time.perf_counter() - started > seconds
            or done >= WARM_UP + MOST * runs
            or (done >= WARM_UP + runs and all(map(_is_settled, totals.values())))
        ):
            for name, session in sessions.items():
                if threads > 1:
                    time.sleep(PAUSE)
                begun = time.perf_counter()
                session.run(None, feeds)
                totals[name].append(time.perf_counter() - begun)
            done += 1
        return {name: _read(session.end_profile(), done) for name, session in sessions.items()}


def _is_settled(totals: list[float]) -> bool:
    """Whether the shortest time has been met twice, to within a fiftieth."""
    first, second = sorted(totals)[:2]
    return second <= first * SETTLED


def _read(path: Path, runs: int) -> Profile:
    times: dict[str, list[float]] = {}
    for event in json.loads(path.read_text(encoding="utf-8")):
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX):
            times.setdefault(event["name"].removesuffix(_SUFFIX), []).append(event["dur"] * 1e-6)
    # Nodes inside loops run several times a run: what counts is their sum per run.
    return {name: _typical(_per_run(seen, runs)[WARM_UP:]) for name, seen in times.items()}


def _typical(times: list[float]) -> float:
    """The mean of the two shortest: microseconds are what the profile counts in."""
    return statistics.fmean(sorted(times)[:2])


def _per_run(times: list[float], runs: int) -> list[float]:
    each, rest = divmod(len(times), runs)
    if rest or not each:
        return [sum(times) / runs] * runs
    return [sum(times[start : start + each]) for start in range(0, len(times), each)]
