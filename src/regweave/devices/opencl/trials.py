"""Run a lane-level program on the device: the printer's text, compiled, on real sub-groups.

    >>> execute(plan.chosen.program, words)         # [threads, source words] -> [threads, destination words]

Compiling takes much longer than running: programs are compiled in batches, and not optimised, which takes a
second for a long exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from regweave.devices.opencl.kernels import Kernel, build
from regweave.emitters import emit_trial
from regweave.errors import InputError
from regweave.programs import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray


def execute(program: Program, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """`[threads, destination words]` of bit patterns from `[threads, source words]` of bit patterns.

    A thread is a lane of one of the program's warps. Several blocks of threads may be given at once, as
    `[blocks, threads, source words]`. Raises InputError if `words` has another shape, UnsupportedError if
    OpenCL C has no word for a step, DeviceError if the device refuses.
    """
    (result,) = execute_all([(program, words)])
    return result


def execute_all(runs: Sequence[tuple[Program, NDArray[np.uint32]]]) -> list[NDArray[np.uint32]]:
    """The results of all programs on their words, compiled as one text."""
    texts = []
    for index, (program, words) in enumerate(runs):
        shape = program.lanes * program.warps, program.source.words
        if words.ndim not in (2, 3) or words.shape[-2:] != shape:
            raise InputError(f"words of shape {words.shape}", where=program.name, expected=f"{shape}")
        alone = replace(program, name=f"function{index}")  # two programs may have one name
        texts.append(emit_trial(alone, "opencl", name=f"trial{index}"))
    library = build("\n".join(texts), optimised=False)
    return [_run(library.kernel(f"trial{index}"), *run) for index, run in enumerate(runs)]


def _run(kernel: Kernel, program: Program, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    threads, count = program.lanes * program.warps, program.destination.words
    blocks = words.reshape(-1, threads, words.shape[-1])
    results = np.empty((len(blocks), threads, count), dtype=np.uint32)
    for block, result in zip(blocks, results, strict=True):
        given = np.ascontiguousarray(block.T, dtype=np.uint32)  # word i of all threads in a row
        _, wanted = kernel.run(given, np.zeros((count, threads), np.uint32), groups=1, items=threads)
        result[:] = wanted.T
    return results.reshape(*words.shape[:-1], count)
