"""The lane-level program: what every lane of a warp does, as typed single-assignment steps."""

from regweave.programs.builder import LoopBody, ProgramBuilder
from regweave.programs.interpreter import run_program
from regweave.programs.memories import Access
from regweave.programs.opcodes import OPCODES, Opcode
from regweave.programs.program import (
    NO_WORDS,
    Array,
    Carried,
    Item,
    Loop,
    Memory,
    Program,
    Step,
    Value,
    When,
)
from regweave.programs.verifier import check_program

__all__ = [
    "NO_WORDS",
    "OPCODES",
    "Access",
    "Array",
    "Carried",
    "Item",
    "Loop",
    "LoopBody",
    "Memory",
    "Opcode",
    "Program",
    "ProgramBuilder",
    "Step",
    "Value",
    "When",
    "check_program",
    "run_program",
]
