"""Which instruction computes products of a type on a machine, for chains that only name the type.

    >>> product_instruction("f16", find_machine("gfx942")).name
    'v_mfma_f32_32x32x8_f16'

Of the instructions that the machine executes itself on the registers of one warp, with both factors of that
type and full-width accumulators, the one that does most work at once is taken. Where there is none, chains
take what several warps do together with factor B in shared memory (fp8 on sm_90a: wgmma), of a width that
leaves registers for the accumulators of two products.
"""

from __future__ import annotations

from functools import lru_cache

from regweave.errors import InputError, UnsupportedError, nearest_names
from regweave.layouts import ELEMENT_TYPES
from regweave.machines.gpu import MatrixInstruction, WarpMachine

_ACCUMULATORS = ("f32", "s32", "f64")
_PRODUCTS = 3  # accumulators of two products and what is on its way between them
# what people say -> the types that machines have for it, best first
_FAMILIAR = {"fp8": ("e4m3", "e4m3fnuz"), "fp16": ("f16",), "int8": ("s8",), "fp64": ("f64",)}


def product_instruction(
    dtype: str, machine: WarpMachine, *, several_warps: bool = False
) -> MatrixInstruction:
    """The instruction for products of `dtype` (an element type, or fp8, fp16, fp64, int8) on `machine`.

    With `several_warps`, one of several warps where one warp has none. Raises InputError for a type that is
    none, UnsupportedError if the machine has no such instruction.
    """
    wanted = _FAMILIAR.get(dtype, (dtype,))
    found = _by_type(machine)
    if several_warps:
        found = _of_several_warps(machine) | found
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
        _offer(best, machine, name)
    return {dtype: name for dtype, (_, name) in best.items()}


@lru_cache(maxsize=32)
def _of_several_warps(machine: WarpMachine) -> dict[str, str]:
    """The same of instructions whose factor B is in shared memory."""
    best: dict[str, tuple[int, str]] = {}
    for name, entry in machine.instructions.entries.items():
        several = entry.lanes > machine.lanes and "B" not in entry.operands
        if not several or not {*"ACD"} <= {*entry.operands} or not machine.native(name):
            continue
        instruction = machine.instructions[name]
        room = _PRODUCTS * instruction.fragments["D"].registers <= machine.registers_per_lane
        if room and instruction.n & (instruction.n - 1) == 0:
            _offer(best, machine, name)
    return {dtype: name for dtype, (_, name) in best.items()}


def _offer(best: dict[str, tuple[int, str]], machine: WarpMachine, name: str) -> None:
    instruction = machine.instructions[name]
    kinds = {operand: layout.dtype for operand, layout in instruction.fragments.items()}
    alike = kinds["A"] == (kinds.get("B") or _type_of_b(name, kinds["A"]))
    if not alike or kinds["C"] not in _ACCUMULATORS or instruction.blocks > 1 or instruction.m == 1:
        return
    work = instruction.m * instruction.n * instruction.k
    if kinds["A"] not in best or work > best[kinds["A"]][0]:
        best[kinds["A"]] = work, name


def _type_of_b(name: str, of_a: str) -> str:
    """The type of a factor B in shared memory, which only the name says: `wgmma.m64n8k32.e4m3.e5m2`."""
    words = name.split(".")[3:]
    return next((word for word in words if word in ELEMENT_TYPES), of_a)
