"""Run lane-level programs as an AMD GPU would: printed as HIP C++, compiled by clang, emulated.

    >>> plan = rearrange("v_mfma_f32_32x32x8_f16:C", "v_mfma_f32_32x32x8_f16:A", machine="gfx942")
    >>> execute(plan.chosen.program, words, "gfx942")    # [threads, words] of the source, of the destination

The call is that of the OpenCL device (`devices.opencl.execute_all`), with the machine beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from regweave.devices.emulator.calls import run
from regweave.devices.emulator.compiled import read_compiled
from regweave.devices.hip.compiler import compile_text
from regweave.emitters import emit_trial
from regweave.errors import InputError
from regweave.machines.amd.assembly import find_target
from regweave.programs import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POINTERS = {"x": "pointer", "y": "pointer"}


def execute(program: Program, words: NDArray[np.uint32], machine: str) -> NDArray[np.uint32]:
    """`[threads, destination words]` of bit patterns from `[threads, source words]` of bit patterns.

    Raises InputError if `words` has another shape or the machine's kernels are not emulated, UnsupportedError
    if HIP has no word for a step, DeviceError if there is no compiler, KernelError if the kernel does what it
    must not.
    """
    (result,) = execute_all([(program, words)], machine)
    return result


def execute_all(runs: Sequence[tuple[Program, NDArray[np.uint32]]], machine: str) -> list[NDArray[np.uint32]]:
    """The results of all programs on their words, compiled as one text."""
    target = find_target(machine)
    texts = []
    for index, (program, words) in enumerate(runs):
        shape = program.lanes * program.warps, program.source.words
        if words.shape != shape:
            raise InputError(f"words of shape {words.shape}", where=program.name, expected=f"{shape}")
        alone = replace(program, name=f"function{index}")  # two programs may have one name
        texts.append(emit_trial(alone, "hip", name=f"trial{index}"))
    assembly = compile_text("\n".join(texts), machine)
    results = []
    for index, (program, words) in enumerate(runs):
        given = np.ascontiguousarray(words.T, np.uint32)  # word i of all threads in a row
        wanted = np.zeros((program.destination.words, len(words)), np.uint32)
        # the compiler reads registers whose value does not matter
        run(
            read_compiled(assembly, f"trial{index}", target, _POINTERS),
            grid=1,
            workgroup=len(words),
            arguments={"x": given, "y": wanted},
            unwritten=["y"],
            strict_registers=False,
        )
        results.append(np.ascontiguousarray(wanted.T))
    return results
