"""Proof of an allocation: the finished listing is run on names instead of numbers.

Every register holds the variable that was last written to it. The walk follows all ways through the function,
line by line inside each operation, enters local routines where they are called, and checks that each read
finds its own variable in each of its registers. It knows nothing of liveness, interference or conflicts, so
it catches their mistakes. Tests run it on every listing they make; it costs about as much as building the
listing."""

from __future__ import annotations

from regweave.assembly.flow import Flow
from regweave.assembly.listing import Listing
from regweave.assembly.program import Program
from regweave.assembly.variables import Memory, Variable
from regweave.errors import VerificationError
from regweave.machines.instructions import Token

State = dict[str, Variable]


def prove(listing: Listing) -> int:
    """Check a listing's registers; the number of reads checked, or VerificationError at the first wrong
    one."""
    walk = _Walk(listing)
    arguments = set(listing.program.arguments)
    start = {register: v for v, run in listing.registers.items() if v in arguments for register in run}
    walk.run(0, start)
    return walk.checked


class _Walk:
    """The walk through one listing."""

    def __init__(self, listing: Listing) -> None:
        self.program: Program = listing.program
        self.flow: Flow = listing.flow
        self.registers = listing.registers
        self.checked = 0

    def run(self, entry: int, start: State) -> State:
        """Walk everything reached from a block with the state `start`; the state at its returns."""
        blocks = self.flow.blocks
        before = {entry: start}
        todo = [entry]
        end: State | None = None
        while todo:
            number = todo.pop()
            block = blocks[number]
            state = dict(before[number])
            for i in range(block.start, block.stop):
                self._step(i, state)
            if block.callee is not None:
                state = self.run(block.callee, state)
            if not block.successors:
                end = state if end is None else _common(end, state)
            for successor in block.successors:
                merged = state if successor not in before else _common(before[successor], state)
                if successor not in before or merged != before[successor]:
                    before[successor] = merged
                    todo.append(successor)
        return end or {}

    def _step(self, i: int, state: State) -> None:
        """One operation, line by line: reads, then writes."""
        program = self.program
        form, operands = program.forms[i], program.operands[i]
        for variable, run in self._implied(i, program.uses[i]):
            for register in run:
                self._read(i, variable, register, state)
        base = len(form.operands) + len(form.constants)
        for line in form.pattern.parsed:
            tokens = [token for token in line.tokens if isinstance(token, Token)]
            written = []
            for token in tokens:
                target = token.target
                operand = operands[base + form.names.index(target) if isinstance(target, str) else target]
                if isinstance(operand, Memory):
                    for variable in (operand.base, operand.index):
                        if isinstance(variable, Variable):
                            self._read(i, variable, self.registers[variable][0], state)
                elif isinstance(operand, Variable):
                    for register in token.of(self.registers[operand]):
                        if token.role != "=":
                            self._read(i, operand, register, state)
                        if token.role:
                            written.append((register, operand))
            state.update(written)
        for register in form.clobbers:
            state.pop(register, None)
        for variable, run in self._implied(i, program.defines[i]):
            state.update(dict.fromkeys(run, variable))

    def _implied(self, i: int, members: int) -> list[tuple[Variable, tuple[str, ...]]]:
        """Those of `members` that no line of the operation names: a C call's arguments and result."""
        for operand in self.program.operands[i]:
            members &= ~operand.bit
        return [(v, run) for v, run in self.registers.items() if v.bit & members] if members else []

    def _read(self, i: int, variable: Variable, register: str, state: State) -> None:
        self.checked += 1
        held = state.get(register)
        if held is not variable:
            found = repr(held.name) if held else "nothing known"
            raise VerificationError(
                f"{register} should hold {variable.name!r} but holds {found}",
                where=f"{self.program.name}, {self.program.describe(i)}",
            )


def _common(a: State, b: State) -> State:
    """What both states agree on."""
    return {register: variable for register, variable in a.items() if b.get(register) is variable}
