"""What each node of a model costs where it stands: onnxruntime's own profile of a few runs.

    profile(session_of, feeds)["Conv_12_nchwc"] == 1.26e-3           seconds, median over the runs

This is how a piece is compared in place: its node's time with the reorders around it, against the times of
all the nodes that it replaced. A model cut out for timing would have other layouts at its ends and other
caches.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regweave.devices.onnxruntime import NativeSession

_SUFFIX = "_kernel_time"
WARM_UP = 2


def profile(
    open_session: Callable[[Path], NativeSession], feeds: Mapping[str, Any], *, runs: int = 8
) -> dict[str, float]:
    """Median seconds of each node by name. `open_session` opens the model, profiling into files of that
    prefix."""
    with tempfile.TemporaryDirectory(prefix="regweave-") as folder:
        session = open_session(Path(folder) / "profile")
        for _ in range(WARM_UP + runs):
            session.run(None, feeds)
        events = json.loads(session.end_profile().read_text(encoding="utf-8"))
    times: dict[str, list[float]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX):
            times.setdefault(event["name"].removesuffix(_SUFFIX), []).append(event["dur"] * 1e-6)
    # Nodes inside loops run several times a run: what counts is their sum per run.
    return {name: statistics.median(_per_run(seen, WARM_UP + runs)[WARM_UP:]) for name, seen in times.items()}


def _per_run(times: list[float], runs: int) -> list[float]:
    each, rest = divmod(len(times), runs)
    if rest or not each:
        return [sum(times) / runs] * runs
    return [sum(times[start : start + each]) for start in range(0, len(times), each)]
