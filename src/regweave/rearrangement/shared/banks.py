"""Bank conflicts of shared memory, counted by simulation.

Shared memory serves as many bytes at once as it has banks of 4 bytes. The lanes of a warp are served in
phases, each phase as many lanes as fill the banks: 32 lanes of 4 bytes, 16 of 8, 8 of 16. Two lanes of a
phase that need different places of one bank cost a further phase: a conflict. Lanes that need the same
place do not.

    >>> conflicts(128 * np.arange(32)[None], 4, machine, "load")       # every lane in bank 0
    31
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from regweave.machines.gpu import WarpMachine
from regweave.programs import Access, Program, run_program
from regweave.rearrangement.subspaces import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray


def conflicts(addresses: NDArray[np.int64], size: int, machine: WarpMachine, access: str) -> int:
    """Phases that all accesses take beyond those without conflicts.

    `addresses[access, thread]` in bytes, `size` bytes each; `access` is `load` or `store`.
    """
    bank, place, slots = _served(addresses, size, machine, access)
    # each (access, phase, place) once; then how many places share a bank
    keys = np.unique((bank // slots << 32 | place).ravel())
    row, slot = keys >> 32, (keys & 0xFFFFFFFF) % slots
    counts = np.bincount(row * slots + slot, minlength=slots)
    counts = np.pad(counts, (0, -len(counts) % slots))
    return int(np.maximum(counts.reshape(-1, slots).max(axis=1) - 1, 0).sum())


def conflict_free(addresses: NDArray[np.int64], size: int, machine: WarpMachine, access: str) -> bool:
    """Whether there are none: all that need a bank in one phase need the same place."""
    bank, place, _ = _served(addresses, size, machine, access)
    last = np.zeros(int(bank.max(initial=0)) + 1, dtype=np.int64)
    last[bank] = place
    return bool((last[bank] == place).all())


def phase_numbers(threads: int, machine: WarpMachine, access: str, size: int) -> NDArray[np.int64]:
    """The phase in which each thread is served by an access of `size` bytes, those of all warps counted."""
    return _phase_numbers(threads, machine.lanes, machine.shared_phase(access, size))


def _served(
    addresses: NDArray[np.int64], size: int, machine: WarpMachine, access: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Banks, counted through all phases of all accesses, places, and how many banks a phase has."""
    phase = phase_numbers(addresses.shape[1], machine, access, size)
    wide = max(size, 4)
    slots = machine.shared_banks * 4 // wide
    place = addresses // wide
    rows = np.arange(len(addresses))[:, None] * (int(phase.max(initial=0)) + 1) + phase
    return rows * slots + place % slots, place, slots


def bank_conflicts(program: Program, machine: WarpMachine) -> int:
    """Bank conflicts of all accesses of a rearrangement program to shared memory, in one run."""
    found: list[Access] = []
    threads = program.lanes * program.warps
    run_program(program, np.zeros((threads, program.source.words), dtype=np.uint32), accesses=found)
    total = 0
    for access in found:
        kind = "store" if access.store else "load"
        phases = phase_numbers(threads, machine, kind, access.bytes)
        # lanes that sit out need nothing of their own
        first = dict(zip(phases[access.lanes][::-1].tolist(), access.addresses[::-1].tolist(), strict=True))
        addresses = np.array([first.get(phase, 0) for phase in phases.tolist()])
        addresses[access.lanes] = access.addresses
        total += conflicts(addresses[None], access.bytes, machine, kind)
    return total


@lru_cache(maxsize=64)
def _phase_numbers(threads: int, lanes: int, together: tuple[int, ...]) -> NDArray[np.int64]:
    """The phase of a thread says the lowest lane that is served together with it."""
    span = Span(together)
    different, number = np.unique([span.reduce(lane) for lane in range(lanes)], return_inverse=True)
    thread = np.arange(threads)
    found = number[thread % lanes] + thread // lanes * len(different)
    found.setflags(write=False)
    return found
