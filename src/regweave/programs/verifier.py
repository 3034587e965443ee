"""Is this a program? Checked between every two passes, so that a wrong one is found where it was made.

>>> check_program(program)      # returns the program, or raises
VerificationError: step 3 uses %7, which no earlier step defines (at %3 = and %7, %2)
"""

from __future__ import annotations

from regweave.errors import VerificationError
from regweave.programs.opcodes import OPCODES, Opcode
from regweave.programs.program import TYPES, Program, Step, Value


def check_program(program: Program) -> Program:
    """Return `program` if it is well formed; VerificationError naming the step otherwise.

    Well formed: known opcodes with the right number and types of operands, every value defined
    once and before its use, words inside the source, one result of the right type per destination word.
    """
    for array in (program.source, program.destination):
        if array.type not in TYPES or array.words < 1:
            raise VerificationError(f"array {array.name!r} of {array.words} words of type {array.type!r}")
    defined: dict[int, Value] = {}
    for place, step in enumerate(program.steps):
        fault = _fault(step, program, defined)
        if fault is not None:
            raise VerificationError(f"step {place} {fault}", where=str(step))
        defined[step.result.number] = step.result
    if len(program.results) != program.destination.words:
        raise VerificationError(
            f"{len(program.results)} words are defined",
            where=program.name,
            expected=f"{program.destination.words}",
        )
    for index, value in enumerate(program.results):
        if defined.get(value.number) != value or value.type != program.destination.type:
            raise VerificationError(
                f"word {index} of {program.destination.name} is {value} of type {value.type}",
                where=program.name,
                expected=f"a value that some step defines, of type {program.destination.type}",
            )
    return program


def _fault(step: Step, program: Program, defined: dict[int, Value]) -> str | None:
    opcode = OPCODES.get(step.opcode)
    if opcode is None:
        return f"has the unknown opcode {step.opcode!r}"
    for operand in step.operands:
        if defined.get(operand.number) != operand:
            return f"uses {operand}, which no earlier step defines"
    types = tuple(operand.type for operand in step.operands)
    if types != opcode.operands:
        return f"has operands of types {types}, not {opcode.operands}"
    if len(step.numbers) != len(opcode.numbers):
        return f"has {len(step.numbers)} numbers, not {len(opcode.numbers)}"
    if step.result.number in defined:
        return f"defines {step.result} again"
    expected = program.source.type if opcode.result == "any" else opcode.result
    if step.result.type != expected:
        return f"defines a {step.result.type}, not a {expected}"
    return _number_fault(opcode, step, program)


def _number_fault(opcode: Opcode, step: Step, program: Program) -> str | None:
    if opcode.name == "word" and not 0 <= step.numbers[0] < program.source.words:
        return f"reads {program.source.name}[{step.numbers[0]}] of {program.source.words} words"
    if opcode.name == "shuffle" and (step.numbers[0] < 1 or program.lanes % step.numbers[0]):
        return f"exchanges in segments of {step.numbers[0]} of {program.lanes} lanes"
    if opcode.name in ("constant", "test") and not 0 <= step.numbers[0] < 1 << 32:
        return f"has the number {step.numbers[0]}, which is no 32-bit word"
    return None
