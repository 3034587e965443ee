"""The words that a self-test gives a plan and those that it wants back, as the proof has them.

For each probe and each warp: word i of thread t at `[i * threads + t]`. Threads that no lane of the layouts
occupies are given rubbish, and nothing is wanted of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regweave.programs import Program
from regweave.rearrangement import Plan
from regweave.rearrangement.proof import probes
from regweave.rearrangement.relation import in_words
from regweave.rearrangement.slots import used_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RUBBISH = 0x7FA5A5A5


@dataclass(frozen=True, eq=False)
class Probes:
    """`given[probe, words * threads]`, `wanted` likewise, and `cares`, the bits of `wanted` that count."""

    given: NDArray[np.uint32]
    wanted: NDArray[np.uint32]
    cares: NDArray[np.uint32]


def plan_probes(plan: Plan, program: Program) -> Probes:
    """The probes of a plan, warp after warp."""
    relation = plan.relation.in_words
    fold = plan.chosen.fold
    holds = relation.destination if fold is None else in_words(fold.destination(plan.relation.destination))
    threads = program.lanes * program.warps
    bits = used_bits(holds.items, holds.element_type)
    given, wanted, cares = [], [], []
    for words, results in probes(relation, holds):
        for first in range(0, len(words), threads):
            present = min(threads, len(words) - first)
            given.append(_padded(words[first : first + present], threads, _RUBBISH))
            wanted.append(_padded(results[first : first + present], threads, 0))
            cares.append(_padded(np.broadcast_to(bits, (present, len(bits))), threads, 0))
    return Probes(np.stack(given), np.stack(wanted), np.stack(cares))


def _padded(words: NDArray[np.uint32], threads: int, filler: int) -> NDArray[np.uint32]:
    full = np.full((threads, words.shape[1]), filler, dtype=np.uint32)
    full[: len(words)] = words
    return full.T.ravel()


def c_array(name: str, words: NDArray[np.uint32]) -> str:
    """A two-dimensional constant array in C."""
    rows = (", ".join(f"{word:#x}" for word in row) for row in words.tolist())
    lines = (f"    {{{row}}}," for row in rows)
    return "\n".join([f"static const uint32_t {name}[{words.shape[0]}][{words.shape[1]}] = {{", *lines, "};"])
