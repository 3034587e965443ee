"""The types of a step's operands and results, where they depend on what it names.

>>> signature(step, program)        # shared_store tile %1, %2, %3 bytes 8 offset 0
(("b32", "b32", "b32"), ())
"""

from __future__ import annotations

from regweave.layouts import Layout
from regweave.programs.opcodes import OPCODES
from regweave.programs.program import TYPES, Program, Step

ACCESS_BYTES = (1, 2, 4, 8, 16)
MATRIX_COUNTS = (1, 2, 4)

Types = tuple[str, ...]

# types that depend on nothing
FIXED = frozenset(
    types
    for opcode in OPCODES.values()
    for types in (opcode.operands, opcode.results)
    if set(types) <= set(TYPES)
)

_KNOWN = {
    name: (opcode.operands, opcode.results)
    for name, opcode in OPCODES.items()
    if {opcode.operands, opcode.results} <= FIXED
}


def signature(step: Step, program: Program) -> tuple[Types, Types]:
    """Operand types and result types of a step whose opcode, numbers and symbol are known to be right."""
    known = _KNOWN.get(step.opcode)
    if known is not None:
        return known
    opcode = OPCODES[step.opcode]
    return _expanded(opcode.operands, step, program), _expanded(opcode.results, step, program)


def words_of(step: Step) -> int:
    """How many words a memory access moves per lane."""
    return step.numbers[0] if OPCODES[step.opcode].numbers[0] == "matrices" else max(1, step.numbers[0] // 4)


def register_type(layout: Layout) -> str:
    """The type of the registers that hold a layout's elements."""
    return "f32" if layout.dtype == "f32" else "b32"


def _expanded(types: Types, step: Step, program: Program) -> Types:
    if types in FIXED:
        return types
    expanded: list[str] = []
    for kind in types:
        if kind == "any":
            expanded.append(program.source.type)
        elif kind == "words":
            expanded += ["b32"] * words_of(step)
        elif kind == "matrices":
            expanded += ["b32"] * step.numbers[0]
        elif kind in ("A", "B", "C", "D"):
            instruction = program.instruction(step.symbol)
            assert instruction is not None, step
            layout = instruction.fragments[kind]
            expanded += [register_type(layout)] * layout.registers
        else:
            expanded.append(kind)
    return tuple(expanded)
