"""Run a program on all lanes of a warp at once, in NumPy: the proof of every plan, and its emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regweave.errors import InputError
from regweave.programs.opcodes import OPCODES
from regweave.programs.program import Program, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray


def run_program(program: Program, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """`[lanes, destination words]` of bit patterns from `[lanes, source words]` of bit patterns.

    Raises InputError if `words` has another shape or type.
    """
    shape = program.lanes, program.source.words
    if words.shape != shape or words.dtype != np.uint32:
        raise InputError(
            f"words of shape {words.shape} and type {words.dtype}",
            where=program.name,
            expected=f"{shape} of uint32",
        )
    values: dict[int, Any] = {}
    for step in program.steps:
        values[step.result.number] = _run_step(step, program, words, values)
    results = [values[value.number] for value in program.results]
    return np.stack(results, axis=1)


def _run_step(
    step: Step, program: Program, words: NDArray[np.uint32], values: dict[int, Any]
) -> NDArray[Any]:
    if step.opcode == "lane":
        return np.arange(program.lanes, dtype=np.uint32)
    if step.opcode == "word":
        return np.ascontiguousarray(words[:, step.numbers[0]])
    if step.opcode == "constant":
        return np.full(program.lanes, step.numbers[0], dtype=np.uint32)
    meaning = OPCODES[step.opcode].meaning
    assert meaning is not None
    return meaning(tuple(values[operand.number] for operand in step.operands), step.numbers)
