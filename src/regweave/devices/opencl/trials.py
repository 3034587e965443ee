"""Run a lane-level program on the device: the printer's text, compiled, on real sub-groups.

    >>> execute(plan.chosen.program, words)         # [threads, source words] -> [threads, destination words]

Many programs are best run as one batch: compiling a text takes the device longer than running it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from regweave.devices.opencl.kernels import build
from regweave.emitters import emit_trial
from regweave.errors import InputError
from regweave.programs import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray


def execute(program: Program, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """`[threads, destination words]` of bit patterns from `[threads, source words]` of bit patterns.

    A thread is a lane of one of the program's warps. Raises InputError if `words` has another shape,
    UnsupportedError if OpenCL C has no word for a step, DeviceError if the device refuses.
    """
    (result,) = execute_all([(program, words)])
    return result


def execute_all(runs: Sequence[tuple[Program, NDArray[np.uint32]]]) -> list[NDArray[np.uint32]]:
    """The results of all programs on their words, compiled as one text."""
    for program, words in runs:
        shape = program.lanes * program.warps, program.source.words
        if words.shape != shape:
            raise InputError(f"words of shape {words.shape}", where=program.name, expected=f"{shape}")
    texts = []
    for index, (program, _) in enumerate(runs):
        alone = replace(program, name=f"function{index}")  # two programs may have one name
        texts.append(emit_trial(alone, "opencl", name=f"trial{index}"))
    library = build("\n".join(texts))
    results = []
    for index, (program, words) in enumerate(runs):
        threads = program.lanes * program.warps
        given = np.ascontiguousarray(words.T, dtype=np.uint32)  # word i of all threads in a row
        wanted = np.zeros((program.destination.words, threads), dtype=np.uint32)
        _, wanted = library.kernel(f"trial{index}").run(given, wanted, groups=1, items=threads)
        results.append(np.ascontiguousarray(wanted.T))
    return results
