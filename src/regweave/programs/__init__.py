"""The lane-level program: what every lane of a warp does, as typed single-assignment steps."""

from regweave.programs.builder import ProgramBuilder
from regweave.programs.interpreter import run_program
from regweave.programs.opcodes import OPCODES, Opcode
from regweave.programs.program import Array, Program, Step, Value
from regweave.programs.verifier import check_program

__all__ = [
    "OPCODES",
    "Array",
    "Opcode",
    "Program",
    "ProgramBuilder",
    "Step",
    "Value",
    "check_program",
    "run_program",
]
