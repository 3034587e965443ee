"""Which instruction computes products of a type on a machine, for chains that only name the type.

    >>> product_instruction("f16", find_machine("gfx942")).name
    'v_mfma_f32_32x32x8_f16'

Of the instructions that the machine executes itself on the registers of one warp, with both factors of that
type and full-width accumulators, the one that does most work at once is taken.
"""

from __future__ import annotations

from functools import lru_cache

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.layouts import ELEMENT_TYPES
from regweave.machines.gpu import MatrixInstruction, WarpMachine

_ACCUMULATORS = ("f32", "s32", "f64")
# what people say -> the types that machines have for it, best first
_FAMILIAR = {"fp8": ("e4m3", "e4m3fnuz"), "fp16": ("f16",), "int8": ("s8",), "fp64": ("f64",)}


def product_instruction(dtype: str, machine: WarpMachine) -> MatrixInstruction:
    """The instruction for products of `dtype` (an element type, or fp8, fp16, fp64, int8) on `machine`.

    Raises InputError for a type that is none, UnsupportedError if the machine has no such instruction.
    """
    wanted = _FAMILIAR.get(dtype, (dtype,))
    found = _by_type(machine)
    for name in wanted:
        if name in found:
            return machine.instructions[found[name]]
    if dtype in _FAMILIAR or dtype in ELEMENT_TYPES:
        raise UnsupportedError(
            f"{machine.name} multiplies no {dtype} on the registers of a warp",
            where="dtype",
            expected=", ".join(found) or "a machine with matrix instructions",
            fix="name another type or machine, or the instruction itself",
        )
    names = (*found, *_FAMILIAR)
    raise InputError(
        f"no instruction for {dtype!r}",
        where="dtype",
        expected=", ".join(found) or "a machine with matrix instructions",
        nearest=nearest_names(dtype, names),
    )


@lru_cache(maxsize=32)
def _by_type(machine: WarpMachine) -> dict[str, str]:
    """The name of the best instruction of each type."""
    best: dict[str, tuple[int, str]] = {}
    for name, entry in machine.instructions.entries.items():
        if entry.lanes != machine.lanes or not {*"ABCD"} <= {*entry.operands} or not machine.native(name):
            continue
        instruction = machine.instructions[name]
        a, b, c = (instruction.fragments[operand].dtype for operand in "ABC")
        if a != b or c not in _ACCUMULATORS or instruction.blocks > 1 or instruction.m == 1:
            continue
        work = instruction.m * instruction.n * instruction.k
        if a not in best or work > best[a][0]:
            best[a] = work, name
    return {dtype: name for dtype, (_, name) in best.items()}
