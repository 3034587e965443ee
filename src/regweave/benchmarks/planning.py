"""How long planning a rearrangement takes, proof included, over the catalogue, and whether it is soon enough.

    >>> time_planning(["sm_80"])["rows"][0]
    {'name': 'sm_80', 'pairs': 66, 'median_ms': 4.7, 'p95_ms': 9.8, 'largest_ms': 21.4, 'largest': '...',
     'missed': []}

A machine's row has all its instructions' accumulators, as they are and transposed, on their way to operand A.
The row `sample` has pairs of all machines drawn from a fixed seed: accumulators as they are and transposed,
in their own type and in the operand's, on their way to A or B. The row `largest` has those of all that the
catalogue can form which take longest: tiles of half a million bits, whose programs have thousands of steps.
Pairs that cannot be planned, such as conversions that no machine has, are left out. Every pair is planned
once, in the order of the catalogue, after another one that loads what all need; schedules of groups that
other pairs have too are found once, as in any process that plans many. Python looks for circles of garbage
after a row, and not while a pair is planned that left none.
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

SAMPLE, LARGEST = "sample", "largest"
_SAMPLED, _SEED = 500, 3
#: Milliseconds that half of a row's pairs may take, and every one.
MEDIAN_LIMIT, LARGEST_LIMIT = 10, 100


class Pair(NamedTuple):
    """What is rearranged, by name."""

    machine: str
    source: str
    destination: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.destination} on {self.machine}"


_WGMMA, _MMA = "wgmma.m64n8k256.b1:A", "mma.m16n8k256.b1.xor"
_FIRST = Pair("sm_80", "mma.m16n8k8.tf32:C", "mma.m16n8k8.tf32:A")
LARGEST_PAIRS = (
    *(Pair("sm_90a", f"wgmma.m64n{n}k16.f16:C@b1", _WGMMA) for n in (248, 232, 216)),
    *(Pair("sm_90a", f"wgmma.m64n{n}k16.f16:C@b1^T", _WGMMA) for n in range(248, 151, -16)),
    *(Pair("sm_90a", f"wgmma.m64n{n}k256.b1:D@b1^T", _WGMMA) for n in (240, 208, 176)),
    Pair("sm_90a", "wgmma.m64n240k256.b1:D@b1", _WGMMA),
    *(
        Pair("sm_100a", f"tcgen05.ld.{shape}:r@b1{turned}", f"{_MMA}:{operand}")
        for shape in ("16x32bx2.x128", "16x64b.x128", "16x128b.x64")
        for turned, operand in (("^T", "A"), ("", "B"))
    ),
)


def planning_rows() -> tuple[str, ...]:
    """The names of the rows: machines with matrix instructions, the sample of all, and the largest."""
    machines = (find_machine(name) for name in machine_names())
    return (
        *(m.name for m in machines if isinstance(m, WarpMachine) and any(_pairs(m, everything=False))),
        SAMPLE,
        LARGEST,
    )


def time_planning(
    rows: Sequence[str] | None = None, *, say: Callable[[str], None] = lambda message: None
) -> dict[str, Any]:
    """Plan the pairs of these rows and return the document that `regweave bench planning --json` prints."""
    _time(_FIRST)
    made = [_row(name, say) for name in (planning_rows() if rows is None else rows)]
    return {"rows": made, "reached": not any(row["missed"] for row in made)}


def _row(name: str, say: Callable[[str], None]) -> dict[str, Any]:
    say(name)
    with uncollected():
        timed = sorted((taken, str(pair)) for pair in _pairs_of(name) if (taken := _time(pair)) is not None)
    times = [1e3 * taken for taken, _ in timed]
    median, largest = statistics.median(times), times[-1]
    missed = [f"half take more than {MEDIAN_LIMIT} ms"] if name != LARGEST and median > MEDIAN_LIMIT else []
    slow = sum(taken > LARGEST_LIMIT for taken in times)
    if slow:
        missed.append(f"{slow} of {len(times)} take more than {LARGEST_LIMIT} ms")
    return {
        "name": name,
        "pairs": len(times),
        "median_ms": median,
        "p95_ms": times[int(0.95 * (len(times) - 1))],
        "largest_ms": largest,
        "largest": timed[-1][1],
        "missed": missed,
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
    if name == LARGEST:
        return list(LARGEST_PAIRS)
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
