"""Timing that survives a clock that drifts: everything in one process, in turns, medians.

The speed of a shared or thermally limited machine moves by tens of percent within seconds. A figure
measured now against one measured a minute ago therefore says nothing. Here every runner gets a turn in
every round, the order rotating, and the medians of many rounds are compared:

    round 1:  a b c      round 2:  b c a      round 3:  c a b     ...

A turn is one call that nobody times (it refills the caches that the others took) and then a few timed ones.
Worker threads of the runner before may still spin for a while, waiting for work: with more than one thread a
turn starts with a pause long enough for them to go to sleep.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

from regweave.engine.measuring.racing import PAUSE
from regweave.errors import InputError

TURN_SECONDS = 0.01  # a turn of very short calls repeats them until about this long
MOST_CALLS = 10


def check_counts(threads: int, rounds: int) -> None:
    """InputError unless both are at least 1."""
    for flag, value in (("--threads", threads), ("--rounds", rounds)):
        if value < 1:
            raise InputError(f"{value} is not a count", where=flag, expected="a whole number >= 1")


def interleaved_times(
    runners: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 30,
    threads: int = 1,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, float]:
    """The median milliseconds of one call of each runner."""
    calls = {name: _calls_per_turn(run) for name, run in runners.items()}
    times: dict[str, list[float]] = {name: [] for name in runners}
    names = list(runners)
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if threads > 1:
                time.sleep(PAUSE)
            runners[name]()
            times[name] += [_seconds(runners[name]) for _ in range(calls[name])]
    return {name: statistics.median(samples) * 1e3 for name, samples in times.items()}


def best_seconds(run: Callable[[], object], tries: int) -> float:
    """The quickest of so many calls, after one that nobody times."""
    run()
    return min(_seconds(run) for _ in range(tries))


def _calls_per_turn(run: Callable[[], object]) -> int:
    run()
    seconds = max(_seconds(run), 1e-6)
    return min(MOST_CALLS, max(1, round(TURN_SECONDS / seconds)))


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
