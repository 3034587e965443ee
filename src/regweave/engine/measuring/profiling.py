"""What each node of a model costs where it stands: onnxruntime's own profile of a few runs.

    recordings({"before": open_before, "after": open_after}, feeds)["after"].nodes["Conv_12_nchwc"]
        == (1.31e-3, 1.26e-3, ...)

This is how a piece is compared in place: its node's time with the reorders around it, against the times of
all the nodes that it replaced. A model cut out for timing would have other layouts at its ends and other
caches. The models take turns, run by run, so that a clock that drifts is the same for all. What others on the
machine take away shows in the processor's time beside the clock's (engine/measuring/undisturbed.py).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regweave.devices.onnxruntime import NativeSession
from regweave.engine.measuring.racing import PAUSE, SHORT, timer

_SUFFIX = "_kernel_time"
WARM_UP, LEAST, MOST = 2, 4, 4
SETTLED = 1.02

Profile = dict[str, float]
"""Seconds of each node by name."""

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Recording:
    """Some runs of a model, warm-up left out: seconds of every node in each, and of the whole run by the
    clock and as `timer` counts.

    `shapes` are those of the inputs of nodes that read and make nothing but float32.
    """

    nodes: Mapping[str, tuple[float, ...]]
    clock: tuple[float, ...]
    processor: tuple[float, ...]
    shapes: Mapping[str, Shapes]


def recordings(
    openers: Mapping[str, Callable[[Path], NativeSession]],
    feeds: Mapping[str, Any],
    *,
    runs: int = 12,
    seconds: float = 4.0,
    threads: int = 1,
) -> dict[str, Recording]:
    """Some runs of each model. An opener opens it, profiling into files of the prefix that it is given.

    Runs until `runs` are done and the fastest run of each model has been met twice, which on a busy machine
    takes longer: up to MOST times as many, or until `seconds` are spent, as `timer` counts (but LEAST runs in
    any case).
    """
    with tempfile.TemporaryDirectory(prefix="regweave-") as folder:
        sessions = {name: opener(Path(folder) / name) for name, opener in openers.items()}
        totals: dict[str, list[tuple[float, float]]] = {name: [] for name in sessions}
        processor = timer(threads)
        started, done = processor(), 0
        while done < WARM_UP + LEAST or not (
            processor() - started > seconds
            or done >= WARM_UP + MOST * runs
            or (done >= WARM_UP + runs and all(map(_is_settled, totals.values())))
        ):
            turn = 1 if threads == 1 else _runs_of_a_turn(totals.values(), runs)
            for name, session in sessions.items():
                if threads > 1:
                    time.sleep(PAUSE)
                for _ in range(turn):
                    begun, worked = time.perf_counter(), processor()
                    session.run(None, feeds)
                    totals[name].append((time.perf_counter() - begun, processor() - worked))
            done += turn
        return {name: _read(session.end_profile(), totals[name]) for name, session in sessions.items()}


def _runs_of_a_turn(totals: Iterable[list[tuple[float, float]]], most: int) -> int:
    """Of short runs several follow one another between two pauses: a pause is longer than all of them."""
    longest = max((min(clock for clock, _ in seen) for seen in totals if seen), default=SHORT)
    return max(1, min(most, round(SHORT / max(longest, 1e-6))))


def _is_settled(totals: list[tuple[float, float]]) -> bool:
    """Whether the shortest time has been met twice, to within a fiftieth."""
    first, second = sorted(clock for clock, _ in totals)[:2]
    return second <= first * SETTLED


def _read(path: Path, totals: list[tuple[float, float]]) -> Recording:
    times: dict[str, list[float]] = {}
    shapes: dict[str, Shapes] = {}
    for event in json.loads(path.read_text(encoding="utf-8")):
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX):
            name = event["name"].removesuffix(_SUFFIX)
            times.setdefault(name, []).append(event["dur"] * 1e-6)
            told = [event["args"].get(key, [{}]) for key in ("input_type_shape", "output_type_shape")]
            if all(set(tensor) == {"float"} for tensors in told for tensor in tensors):
                shapes[name] = tuple(tuple(tensor["float"]) for tensor in told[0])
    clock, processor = zip(*totals[WARM_UP:], strict=True)
    # Nodes inside loops run several times a run: what counts is their sum per run.
    nodes = {name: tuple(_per_run(seen, len(totals))[WARM_UP:]) for name, seen in times.items()}
    return Recording(nodes, clock, processor, shapes)


def _per_run(times: list[float], runs: int) -> list[float]:
    each, rest = divmod(len(times), runs)
    if rest or not each:
        return [sum(times) / runs] * runs
    return [sum(times[start : start + each]) for start in range(0, len(times), each)]
