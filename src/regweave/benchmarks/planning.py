"""How long planning a rearrangement takes, proof included, over the catalogue.

    >>> time_planning(["sm_80"])["rows"][0]
    {'name': 'sm_80', 'pairs': 66, 'median_ms': 4.7, 'p95_ms': 9.8, 'largest_ms': 21.4, 'largest': '...'}

A machine's row has all its instructions' accumulators, as they are and transposed, on their way to operand A.
The row `sample` has pairs of all machines drawn from a fixed seed: accumulators as they are and transposed,
in their own type and in the operand's, on their way to A or B. Pairs that cannot be planned, such as
conversions that no machine has, are left out. Every pair is planned once, in the order of the catalogue;
schedules of groups that other pairs have too are found once, as in any process that plans many. Python looks
for circles of garbage after a row, and not while a pair is planned that left none.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from regweave.errors import RegweaveError
from regweave.machines.catalogue import find_machine, machine_names
from regweave.machines.gpu import WarpMachine
from regweave.rearrangement import rearrange
from regweave.rearrangement.uncollected import uncollected

SAMPLE = "sample"
_SAMPLED, _SEED = 500, 3


class Pair(NamedTuple):
    """What is rearranged, by name."""

    machine: str
    source: str
    destination: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.destination} on {self.machine}"


def planning_rows() -> tuple[str, ...]:
    """The names of the rows: machines with matrix instructions, and the sample of all."""
    machines = (find_machine(name) for name in machine_names())
    return *(
        m.name for m in machines if isinstance(m, WarpMachine) and any(_pairs(m, everything=False))
    ), SAMPLE


def time_planning(
    rows: Sequence[str] | None = None, *, say: Callable[[str], None] = lambda message: None
) -> dict[str, Any]:
    """Plan the pairs of these rows and return the document that `regweave bench planning --json` prints."""
    return {"rows": [_row(name, say) for name in (planning_rows() if rows is None else rows)]}


def _row(name: str, say: Callable[[str], None]) -> dict[str, Any]:
    say(name)
    with uncollected():
        timed = sorted((taken, str(pair)) for pair in _pairs_of(name) if (taken := _time(pair)) is not None)
    times = [1e3 * taken for taken, _ in timed]
    return {
        "name": name,
        "pairs": len(times),
        "median_ms": statistics.median(times),
        "p95_ms": times[int(0.95 * (len(times) - 1))],
        "largest_ms": times[-1],
        "largest": timed[-1][1],
    }


def _time(pair: Pair) -> float | None:
    """Seconds to plan it; None if it cannot be."""
    start = time.perf_counter()
    try:
        rearrange(pair.source, pair.destination, machine=pair.machine)
    except RegweaveError:
        return None
    return time.perf_counter() - start


def _pairs_of(name: str) -> list[Pair]:
    if name != SAMPLE:
        machine = find_machine(name)
        assert isinstance(machine, WarpMachine)
        return list(_pairs(machine, everything=False))
    machines = (find_machine(name) for name in machine_names())
    every = [pair for m in machines if isinstance(m, WarpMachine) for pair in _pairs(m, everything=True)]
    return random.Random(_SEED).sample(every, _SAMPLED)


def _pairs(machine: WarpMachine, *, everything: bool) -> Iterator[Pair]:
    """Accumulators to operand A; `everything`: to A or B, in their own type and in the operand's."""
    for name in machine.instructions:
        fragments = machine.instruction(name).fragments
        for operand in ("A", "B") if everything else ("A",):
            if "D" in fragments and operand in fragments:
                converted = f"{name}:D@{fragments[operand].dtype}"
                for source in (f"{name}:D", converted) if everything else (f"{name}:D",):
                    for turned in (source, f"{source}^T"):
                        yield Pair(machine.name, turned, f"{name}:{operand}")
