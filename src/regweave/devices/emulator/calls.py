"""The call that runs a kernel in the emulator.

>>> x = np.arange(256, dtype=np.float32)
>>> run(kernel, grid=4, arguments={"x": x})           # 4 workgroups; x is changed in place
Run(steps=9, waves=4, unwritten={'x': 0})
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from regweave.assembly.amd import FinishedKernel
from regweave.devices.emulator.instructions.lds_accesses import smallest_access
from regweave.devices.emulator.instructions.preparing import prepare
from regweave.devices.emulator.program import Hidden, Program, read_kernel
from regweave.devices.emulator.running import Batch, Launch
from regweave.devices.emulator.state.memory import Memory
from regweave.devices.launch import check_arguments, check_grid, check_workgroup
from regweave.values import frozen

#: Waves that run together at most: more would leave the processor's caches.
_WAVES = 64
_BUDGET = 2_000_000


@frozen
class Run:
    """What a run did: steps taken, one for all waves that stood at the same one; waves; and of each buffer
    how many bytes hold nothing that was ever written."""

    steps: int
    waves: int
    unwritten: Mapping[str, int]


def run(
    kernel: FinishedKernel | Program,
    *,
    grid: int | Sequence[int],
    arguments: Mapping[str, Any],
    workgroup: int | Sequence[int] | None = None,
    unwritten: Collection[str] = (),
    strict_buffers: bool = False,
    strict_registers: bool = True,
    budget: int = _BUDGET,
) -> Run:
    """Run `grid` workgroups (along x, or x, y, z) of a kernel.

    `arguments` has an array for every pointer, which is changed in place, and a number for every other
    argument. `workgroup` is needed where the kernel does not say it. The buffers named in `unwritten` hold
    nothing at first: what the kernel does not write, it must not read. With `strict_buffers` an access beyond
    the end of a `buffer_` description is a fault too, not a zero. Without `strict_registers` registers that
    were never written hold rubbish: compilers read them where the value does not matter. `budget` is how many
    steps a batch of workgroups may take.

    KernelError with the line for whatever the kernel does wrong; InputError for arguments that do not fit;
    UnsupportedError for an instruction that is not emulated.
    """
    program = kernel if isinstance(kernel, Program) else read_kernel(kernel)
    extents = check_grid(grid)
    given = check_arguments(program.name, program.arguments, arguments, unwritten)
    threads = check_workgroup(program.name, program.workgroup, workgroup)
    memory = Memory()
    words = {}
    for name, place, value in given:
        if isinstance(value, np.ndarray):
            value = struct.pack("<Q", memory.place(name, value, written=name not in unwritten))
        words[place] = value
    for entry in program.hidden:
        words |= _fill(entry, extents, threads)
    launch = Launch(
        program,
        [prepare(program, step) for step in program.steps],
        memory,
        threads,
        _place_arguments(memory, words, program.argument_bytes),
        smallest_access(program),
        strict_buffers,
        strict_registers,
        budget,
    )
    memory.open()
    together = max(1, _WAVES // launch.waves_per_group)
    across, down, deep = (range(n) for n in extents)
    groups = ((i, j, k) for k in deep for j in down for i in across)
    steps = 0
    try:
        with np.errstate(all="ignore"):
            while own := list(itertools.islice(groups, together)):
                batch = Batch(launch, own)
                batch.run()
                steps += batch.steps
    finally:
        known = memory.take_back()
    left = {name: int((~written).sum()) for name, written in known.items()}
    return Run(steps, math.prod(extents) * launch.waves_per_group, left)


def _place_arguments(memory: Memory, words: Mapping[int, bytes], size: int) -> int:
    """The address of the kernel's arguments, of which `words` are known, by their places."""
    packed = np.zeros(max(size, 8), np.uint8)
    written = np.zeros(packed.size, bool)
    for place, value in words.items():
        packed[place : place + len(value)] = np.frombuffer(value, np.uint8)
        written[place : place + len(value)] = True
    return memory.place("the arguments", packed, written=written, constant=True)


def _fill(entry: Hidden, grid: Sequence[int], threads: Sequence[int]) -> dict[int, bytes]:
    """The value of a hidden argument, by its place; nothing for those that are not known."""
    word, _, axis = entry.kind.removeprefix("hidden_").rpartition("_")
    values = {"block_count": grid, "group_size": threads, "remainder": (0, 0, 0)}
    if word not in values or axis not in ("x", "y", "z"):
        return {}
    return {entry.place: values[word]["xyz".find(axis)].to_bytes(entry.size, "little")}
