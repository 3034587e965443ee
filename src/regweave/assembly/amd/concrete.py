"""Instructions with their registers: what waits and distances are worked out on.

Registers are known by name here (`v7`, `vcc_lo`), whoever owns them, so that a value in flight to a register
is seen whatever variable lives there next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regweave.assembly.amd.kernel_program import KernelProgram
from regweave.assembly.amd.moves import is_move
from regweave.assembly.amd.shapes import Shape
from regweave.assembly.variables import Variable
from regweave.machines.amd.assembly.table import GcnInstruction
from regweave.machines.amd.assembly.targets import GcnMachine
from regweave.machines.instructions import Token
from regweave.values import frozen


@frozen(eq=False)
class Concrete:
    """One instruction: its text, the registers that it reads and writes, and those of each operand.

    One that is `gone` would move registers to themselves: it is not printed and touches nothing.
    """

    shape: Shape
    text: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    slots: Mapping[int, tuple[str, ...]]
    gone: bool = False

    @property
    def instruction(self) -> GcnInstruction:
        """Its entry in the table."""
        return self.shape.instruction


def make_concrete(
    program: KernelProgram, registers: Mapping[Variable, tuple[str, ...]], machine: GcnMachine
) -> tuple[Concrete, ...]:
    """Every operation with its registers."""
    found = []
    for shape, own in zip(program.shapes, program.operands, strict=True):
        runs = [registers[variable] for variable in own]
        reads: list[str] = []
        writes: list[str] = []
        slots: dict[int, tuple[str, ...]] = {}
        for place in shape.places:
            named = place.variable < 0
            touched = place.registers if named else runs[place.variable][place.first : place.stop]
            if place.role != "=":
                reads += touched
            if place.role:
                writes += touched
            if place.slot >= 0:
                slots[place.slot] = touched
        text = _print(shape, runs, machine)
        if reads == writes and is_move(shape):
            found.append(Concrete(shape, text, (), (), {}, gone=True))
            continue
        found.append(Concrete(shape, text, tuple(reads), tuple(writes), slots))
    return tuple(found)


def _print(shape: Shape, runs: Sequence[tuple[str, ...]], machine: GcnMachine) -> str:
    (line,) = shape.form.pattern.parsed
    text = line.pieces[0]
    for token, piece in zip(line.tokens, line.pieces[1:], strict=True):
        assert isinstance(token, Token), "shapes have no constants"
        assert isinstance(token.target, int), "shapes number their operands"
        text += machine.run(token.of(runs[token.target])) + piece
    return text
