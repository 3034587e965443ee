"""Which of two ways is faster, on a machine whose clock drifts: turns in one process, and ratios per round.

    race({"before": a, "after": b})     before after, after before, before after, ...

A ratio of two turns that follow one another is little disturbed by what changes within seconds; the median
over the rounds is little disturbed by single interruptions. The times given with it are those of the round
in the middle: medians of both would have another ratio.

On a machine where others work too, turns take as long as these let them. If the processor was elsewhere for
more than BUSY of the time, what it gave to each turn counts, not what the clock says.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

PAUSE = 0.06
"""Seconds after which worker threads of the runner before sleep; onnxruntime's spin for 45 ms after a run,
on the processors that the next one needs: with less, whoever comes first after the other seems slow."""

LONG = 0.05
"""Seconds from which a call is timed without one before it that refills the caches."""

SHORT = 0.01
"""A turn repeats calls until it has taken about this long, in seconds."""


CLEAR = 8
"""Rounds after which a race may be over: by chance all of them say the same in one of 128 races."""


BUSY = 0.05
"""Of the time that the processor works for others: more than this disturbs."""


def timer(threads: int) -> Callable[[], float]:
    """The clock that counts what the processor gave this thread; where others of ours work for it, and it
    waits for them, the time of day."""
    return time.thread_time if threads == 1 else time.perf_counter


Times = Mapping[str, Sequence[float]]


@dataclass(frozen=True, eq=False)
class Race:
    """Seconds of a call in each round, by name: by the clock and, where known, of the processor (those that
    the thread was given which called)."""

    clock: Times
    processor: Times = field(default_factory=dict)

    @cached_property
    def taken_away(self) -> float:
        """The share of the time in which the processor worked for others."""
        clock, processor = (sum(map(sum, times.values())) for times in (self.clock, self.processor))
        return max(0.0, 1.0 - processor / clock) if self.processor and clock else 0.0

    @property
    def times(self) -> Times:
        """The seconds that count: of the processor where it was busy with others."""
        return self.processor if self.taken_away > BUSY else self.clock

    @cached_property
    def medians(self) -> dict[str, float]:
        """The median seconds of a call, by name."""
        return {name: statistics.median(times) for name, times in self.times.items()}

    def ratio(self, first: str, second: str) -> float:
        """By how much `second` is faster than `first`: the median over the rounds of first / second."""
        a, b = self.typical(first, second)
        return a / b

    def typical(self, first: str, second: str) -> tuple[float, float]:
        """Seconds of both in the round that `ratio` is of; of two in the middle the lower one."""
        ranked = sorted(
            zip(self.times[first], self.times[second], strict=True), key=lambda pair: pair[0] / pair[1]
        )
        return ranked[(len(ranked) - 1) // 2]

    def is_faster(self, first: str, second: str, by: float = 1.0) -> bool | None:
        """Whether `second` is faster, by a factor; None where the shortest times and the median of the ratios
        say differently."""
        best = min(self.times[first]) >= by * min(self.times[second])
        return best if best == (self.ratio(first, second) >= by) else None

    def is_clear(self, first: str, second: str, by: float = 1.0) -> bool:
        """Whether all rounds, and the shortest times, say the same about `second` being faster by a
        factor."""
        pairs = zip(self.times[first], self.times[second], strict=True)
        return len({a >= by * b for a, b in pairs}) == 1 and self.is_faster(first, second, by) is not None

    def joined(self, other: Race) -> Race:
        """Both races as one."""

        def both(one: Times, two: Times) -> Times:
            return {name: [*times, *two[name]] for name, times in one.items()} if two else {}

        return Race(both(self.clock, other.clock), both(self.processor, other.processor))


def race(
    runners: Mapping[str, Callable[[], object]],
    *,
    threads: int = 1,
    rounds: int = 20,
    seconds: float = 4.0,
    least: int = 5,
    enough: Callable[[Race], bool] = lambda race: False,
) -> Race:
    """Run all in turns for `rounds` rounds, or fewer (but `least`) once `seconds` are spent, as `timer`
    counts.

    `enough` is asked after CLEAR rounds or more whether to end it there.
    """
    names = list(runners)
    calls = {name: _calls(runners[name]) for name in names}
    clock: dict[str, list[float]] = {name: [] for name in names}
    processor: dict[str, list[float]] = {name: [] for name in names}
    worked = timer(threads)
    started = worked()
    for number in range(rounds):
        if number >= least and worked() - started > seconds:
            break
        if number >= CLEAR and enough(Race(clock, processor)):
            break
        for name in names if number % 2 == 0 else reversed(names):
            if threads > 1:
                time.sleep(PAUSE)
            if calls[name] > 0:
                runners[name]()
            times = _time(runners[name], max(calls[name], 1), worked)
            clock[name].append(times[0])
            processor[name].append(times[1])
    return Race(clock, processor)


def _calls(run: Callable[[], object]) -> int:
    """Calls per turn; 0 where one is so long that caches need no untimed call to warm up."""
    run()
    seconds = max(_time(run, 1, time.perf_counter)[0], 1e-6)
    return 0 if seconds > LONG else max(1, round(SHORT / seconds))


def _time(run: Callable[[], object], calls: int, worked: Callable[[], float]) -> tuple[float, float]:
    """Seconds of a call, by the clock and as `worked` counts."""
    started, before = time.perf_counter(), worked()
    for _ in range(calls):
        run()
    seconds, processor = time.perf_counter() - started, worked() - before
    return seconds / calls, processor / calls
